// The stepper's walk through rounds that Python has told (stepper_lab.py): no rule of speculative decoding stands here. A uniform
// falls into one of a decision's cells, and the cell leads on.
import { ONE, below, fraction } from "./fractions.mjs";
import { ValueError, entered } from "./lab_page.mjs";

export const ROUNDS = 4;

// ---- uniforms ------------------------------------------------------------------------------------------------------------

// The i-th uniform of a seed, in hundredths.
export function seeded(seed, i) {
  let z = Math.imul(Number(seed % 2n ** 32n) + 1, 0x9e3779b1) ^ Math.imul(i + 1, 0x85ebca6b);
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return `0.${String(((z ^ (z >>> 15)) >>> 0) % 100).padStart(2, "0")}`;
}

export const entries = (tape) => tape.split(",").map((entry) => entry.trim());

// Uniform i of a setting: what is set by hand, else the seed's.
function uniform(setting, i) {
  const text = entries(setting.tape)[i] || seeded(entered("seed", setting.seed), i), value = fraction(text);
  if (!value || !below(value, ONE)) throw new ValueError(`uniform ${i} is ${text}: give a number from 0 up to, not including, 1, such as 0.42 or 1/5`);
  return { text, value };
}

// ---- the walk ------------------------------------------------------------------------------------------------------------

const NAMES = ["target", "draft"];

// What each cache has read since: the tokens from its old length to its new one.
const read = (line, before, after) => Object.fromEntries(NAMES.map((name, i) => [name, line.slice(before[i], after[i])]));

// All steps of a setting, decisions and the commits between rounds, each with what is known once it is taken:
//   round, position (the tape's; null for a commit), place (in the round, from 0), purpose, asked, cells, u, outcome, held, fed, text, origins, proposals,
//   verdicts (a proposal's: accepted or not; as far as they go), emitted, began (lengths when the round began)
// and a commit's kept (lengths after the rewind). The last step has `wrong` if its uniform is none.
export function walk(setting, facts) {
  const steps = [], roots = facts.roots[setting.machine]?.[setting.gamma];
  if (!roots) throw new ValueError(`machine ${setting.machine} with γ = ${setting.gamma} is not on this page: choose another`);
  let text = "^", origins = ["start"], lengths = [0, 0], position = 0;
  for (let round = 1; round <= ROUNDS; round++) {
    const committed = text.length, began = lengths;
    let node = facts.nodes[roots[text.at(-1)]];
    let proposals = "", verdicts = [], emitted = [];
    const now = () => ({ round, text, origins, proposals, verdicts, emitted, began });
    for (; node.cells; position++) {
      const held = node.held.map((length) => committed + length);
      const place = node.purpose === "propose" ? proposals.length : emitted.length;
      const step = { ...now(), ...node, position, place, held, fed: read(text + proposals, lengths, held) };
      steps.push(step);
      try {
        step.u = uniform(setting, position);
      } catch (wrong) {
        return Object.assign(step, { wrong }), steps;
      }
      const [outcome, , next] = node.cells.find(([, end]) => below(step.u.value, fraction(end)));
      [proposals, verdicts, emitted] = taken(step, outcome, proposals, verdicts, emitted);
      Object.assign(step, { outcome }, now());
      [lengths, node] = [held, facts.nodes[next]];
    }
    const held = lengths;
    text += node.tokens, origins = [...origins, ...node.origins];
    lengths = node.held.map((length) => text.length + length);
    steps.push({ ...now(), purpose: "commit", position: null, held, kept: lengths, fed: { target: "", draft: "" } });
  }
  return steps;
}

// What a decision adds, for the picture of a round that is still open. A test compares it with what the round then commits.
function taken({ purpose }, outcome, proposals, verdicts, emitted) {
  if (purpose === "propose") return [proposals + outcome, verdicts, emitted];
  if (purpose !== "accept") return [proposals, verdicts, [...emitted, [outcome, purpose === "correct" ? "correction" : "bonus"]]];
  return [proposals, [...verdicts, outcome], outcome ? [...emitted, [proposals[verdicts.length], "accepted"]] : emitted];
}
