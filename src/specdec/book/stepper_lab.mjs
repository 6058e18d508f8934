// The stepper's interface on the shared page of labs. stepper_lab.py has the same keys and defaults.
import { ONE, ZERO, equal, fraction, near } from "./fractions.mjs";
import { entered, figure, head, mounted, node, picture, refill, table, text } from "./lab_page.mjs";
import { ROUNDS, entries, walk } from "./stepper_walk.mjs";

const spaced = (tokens) => [...tokens].join(" ");

// ---- in words ------------------------------------------------------------------------------------------------------------

const PURPOSES = { propose: "proposal", accept: "acceptance", correct: "correction", bonus: "bonus", commit: "commit" };

// Where u falls, of a draw.
function fell({ cells, u, outcome }) {
  const i = cells.findIndex(([symbol]) => symbol === outcome), from = i ? cells[i - 1][1] : "0";
  return `u = ${u.text} lies in ${outcome}’s cell, from ${from} to ${cells[i][1]}`;
}

// p and q at the proposal that is judged, and the symbol before it.
function judged(step, steps, target) {
  const { round, place, text, proposals } = step, token = proposals[place], before = (text + proposals)[text.length + place - 1];
  const drafted = steps.filter((other) => other.round === round && other.purpose === "propose");
  return { token, before, p: target[before]["ABC".indexOf(token)], q: drafted[place].asked["ABC".indexOf(token)] };
}

function passes({ fed }) {
  const draft = fed.draft && `The draft reads ${spaced(fed.draft)}. `, target = fed.target && `The target reads ${spaced(fed.target)} in one pass. `;
  return draft + target;
}

// What a step did, in a sentence or two.
function told(step, steps, target) {
  const { purpose, place, proposals, u, outcome, asked } = step;
  if (purpose === "commit") return returned(step);
  if (purpose === "propose") return `${passes(step)}Proposal ${place + 1}: ${fell(step)}, so it is ${outcome}.`;
  if (purpose === "bonus") return `All ${proposals.length === 1 ? "proposals are" : `${proposals.length} are`} accepted. Bonus: ${fell(step)}, so it is ${outcome}.`;
  if (purpose === "correct") return `Correction, with the weights ${asked.join(", ")} of p − q where positive: ${fell(step)}, so it is ${outcome}.`;
  const { token, p, q } = judged(step, steps, target), limit = `min(1, p/q) = ${asked[0]}`;
  const facts = `${passes(step)}Proposal ${token}: p = ${p}, q = ${q}.`;
  if (outcome) return `${facts} u = ${u.text} < ${limit}: ${token} is accepted.`;
  const after = proposals.slice(place + 1);
  return `${facts} u = ${u.text} ≥ ${limit}: ${token} is rejected.${after && ` Never verified: ${spaced(after)}.`}`;
}

// A commit's story of both caches: what they give back and what they lack then.
export function caches({ text, emitted, proposals, held, kept }) {
  const line = text.slice(0, text.length - emitted.length) + proposals;
  return ["target", "draft"].map((name, i) => ({ name, back: line.slice(kept[i], held[i]), pending: text.slice(kept[i]) }));
}

function returned(step) {
  const parts = caches(step).map(({ name, back, pending }) =>
    `The ${name}’s cache gives back ${back ? spaced(back) : "nothing"}; pending for it: ${spaced(pending)}.`);
  return `Round ${step.round} commits ${spaced(step.text.slice(-step.emitted.length))}. ${parts.join(" ")}`;
}

// What comes next: a heading and a hint.
function asking(step, steps, target) {
  if (!step) return [`Round ${ROUNDS} is over`, "Go back, or take a new tape."];
  const { purpose, place, round, text, proposals } = step, at = `Round ${round}, next: `;
  const row = (text + proposals)[text.length + place - 1];
  if (purpose === "commit") return [`${at}commit and rewind`, "No uniform is needed: each cache goes back to what stays of the text."];
  if (purpose === "propose") return [`${at}proposal ${place + 1}`, `A draw from the draft’s row after ${row}.`];
  if (purpose === "bonus") return [`${at}the bonus`, `A draw from the target’s row after ${row}.`];
  if (purpose === "correct") return [`${at}the correction in place of ${proposals[place]}`, `A draw from p − q where positive, after ${row}: ${step.asked.join(", ")}.`];
  const { token, p, q } = judged(step, steps, target);
  return [`${at}is ${token} accepted?`, `After ${row}: p(${token}) = ${p} and q(${token}) = ${q}. Accepted if u < min(1, p/q) = ${step.asked[0]}.`];
}

// ---- pictures ------------------------------------------------------------------------------------------------------------

// A decision's cells on [0, 1), with u above them.
function strip({ cells, u, purpose }, width) {
  const left = 8, wide = width - 16, x = (value) => left + wide * near(value);
  const words = (outcome) => (purpose === "accept" ? (outcome ? "accept" : "reject") : outcome);
  let inside = "", letters = "", from = ZERO, spoken = [];
  cells.forEach(([outcome, end], i) => {
    const to = fraction(end), middle = (x(from) + x(to)) / 2;
    inside += `<rect class="stepper-cell-${i % 2}" x="${x(from).toFixed(1)}" y="26" width="${(x(to) - x(from)).toFixed(1)}" height="28"/>`;
    letters += text(middle.toFixed(1), 45, words(outcome), 'text-anchor="middle" class="lab-strong lab-over"');
    inside += text(x(to).toFixed(1), 69, end, `text-anchor="${equal(to, ONE) ? "end" : "middle"}"`);
    spoken.push(`${words(outcome)} below ${end}`);
    from = to;
  });
  inside += text(left, 69, "0");
  if (u) {
    const at = x(u.value), side = at < 60 ? "start" : at > width - 60 ? "end" : "middle";
    inside += `<path class="stepper-u" d="M${at.toFixed(1)} 27l-6 -10h12zM${at.toFixed(1)} 27V54"/>`;
    inside += text(Math.max(left, Math.min(width - left, at)).toFixed(1), 12, `u = ${u.text}`, `text-anchor="${side}" class="lab-strong"`);
  }
  return picture(width, 74, `Cells of the unit interval: ${spoken.join(", ")}. ${u ? `u is ${u.text}.` : ""}`, inside + letters);
}

const SHORT = { start: "start", accepted: "acc.", correction: "corr.", bonus: "bonus" };
const LEGEND = [["held", "held when the round began"], ["read", "read in this round"], ["back", "given back by the rewind"], ["pending", "pending: in the text, not held"]];

// Proposals, text and both caches in columns, one a place of the text: the last four committed tokens and this round's places.
function board(step, gamma, width) {
  const { text: line, origins, proposals, verdicts, emitted, began, held, kept } = step;
  const before = kept ? line.length - emitted.length : line.length;
  const from = Math.max(0, before - 4), left = 90, wide = Math.min(46, (width - left - 2) / (before + gamma + 1 - from));
  const x = (place) => left + (place - from) * wide;
  const box = (place, y, kind, token, struck, open = "") => {
    const at = x(place) + 2, size = wide - 4;
    const shape = `<rect class="stepper-${kind}${open}" x="${at.toFixed(1)}" y="${y}" width="${size.toFixed(1)}" height="26"${kind === "bonus" ? ' rx="13"' : ""}/>`;
    const double = kind === "correction" ? `<rect class="stepper-correction" x="${(at + 3).toFixed(1)}" y="${y + 3}" width="${(size - 6).toFixed(1)}" height="20"/>` : "";
    const strike = struck ? `<path class="stepper-strike" d="M${at.toFixed(1)} ${y + 26}L${(at + size).toFixed(1)} ${y}"/>` : "";
    return shape + double + strike + text((at + size / 2).toFixed(1), y + 18, token, 'text-anchor="middle" class="lab-strong"');
  };
  const under = (place, y, words) => text((x(place) + wide / 2).toFixed(1), y, words, 'text-anchor="middle" class="stepper-small"');
  const label = (y, words, more = "") => text(2, y + (more ? 11 : 17), words) + (more && text(2, y + 24, more, 'class="stepper-small"'));

  let inside = label(4, "proposed");
  [...proposals].forEach((token, i) => {
    const verdict = verdicts[i], done = verdicts.includes(false) && verdict === undefined;
    inside += box(before + i, 4, done ? "unverified" : "line", token, done || verdict === false);
    if (verdict !== undefined || done) inside += under(before + i, 43, done ? "never" : verdict ? "✓" : "✗");
  });
  inside += label(54, "text");
  for (let i = from; i < line.length; i++) inside += box(i, 54, origins[i], line[i]) + under(i, 93, SHORT[origins[i]]);
  if (!kept) emitted.forEach(([token, origin], i) => { inside += box(before + i, 54, origin, token, false, " stepper-open") + under(before + i, 93, SHORT[origin]); });

  const known = line.slice(0, before) + proposals, spoken = [];
  ["target", "draft"].forEach((name, n) => {
    const y = 106 + 40 * n, stays = kept ? kept[n] : held[n];
    inside += label(y, `${name} cache`, `pending ${spaced(line.slice(stays)) || "none"}`);
    for (let i = from; i < held[n]; i++) inside += box(i, y, i >= stays ? "back" : i < began[n] ? "held" : "read", known[i], i >= stays);
    for (let i = Math.max(held[n], from); i < line.length; i++) inside += box(i, y, "pending", line[i]);
    const back = known.slice(stays, held[n]);
    spoken.push(`${name} cache ${spaced(known.slice(0, stays)) || "empty"}${back ? `, given back ${spaced(back)}` : ""}, pending ${spaced(line.slice(stays)) || "none"}`);
  });
  LEGEND.forEach(([kind, words], i) => {
    const across = width < 480 ? 1 : 2, at = 2 + (i % across) * 240, y = 196 + 20 * Math.floor(i / across);
    inside += `<rect class="stepper-${kind}" x="${at}" y="${y}" width="22" height="14"/>${kind === "back" ? `<path class="stepper-strike" d="M${at} ${y + 14}l22 -14"/>` : ""}`;
    inside += text(at + 30, y + 12, words);
  });
  if (from > 0) inside += text(left - 4, 72, "…", 'text-anchor="end"');
  return picture(width, width < 480 ? 274 : 234, `Text ${spaced(line)}. ${spoken.join(". ")}.`, inside);
}

// ---- tables --------------------------------------------------------------------------------------------------------------

// A place of the round as [place, proposal, test, what became of it]; a struck proposal does not stay.
function places(step, steps, gamma) {
  const { round, proposals, verdicts, emitted } = step, over = verdicts.includes(false);
  const tests = steps.filter((other) => other.round === round && other.purpose === "accept");
  const rows = [];
  for (let i = 0; i < gamma; i++) {
    const verdict = verdicts[i], token = proposals[i] ?? "", test = verdict !== undefined && tests[i];
    const asked = test ? `u = ${test.u.text} ${verdict ? "<" : "≥"} ${test.asked[0]}` : over ? "not asked" : "";
    const fixed = verdict === false && emitted[i] ? `, correction ${emitted[i][0]}` : "";
    const outcome = verdict ? "accepted" : verdict === false ? `rejected${fixed}` : over ? "never verified" : token ? "waits" : "";
    const struck = over && !verdict && token;
    rows.push([String(i + 1), struck ? node("s", {}, token) : token, asked, outcome]);
  }
  const bonus = emitted[gamma];
  rows.push([String(gamma + 1), "", bonus ? "from p" : "", over ? "no bonus" : bonus ? `bonus ${bonus[0]}` : ""]);
  return rows;
}

const line = ({ position, purpose, asked, u, outcome }) => [String(position), purpose, asked.join(" "), u.text, outcome === true ? "True" : outcome === false ? "False" : outcome];

function chips({ text: line, origins }) {
  return [...line].map((token, i) => node("span", { class: `stepper-chip stepper-chip-${origins[i]}` }, node("b", {}, token), ` ${origins[i]}`));
}

// ---- the lab -------------------------------------------------------------------------------------------------------------

const GROUPS = [["Machine", [
  ["machine", "ABC machine", "select", [["forgetful", "forgetful"], ["remembering", "remembering"]]],
  ["gamma", "Proposals a round (γ)", "select", [["1", "1"], ["2", "2"], ["3", "3"]]],
  ["seed", "Seed of the tape", "number"],
]]];

const PRESETS = [
  ["The lesson’s trace", {}],
  ["All accepted", { machine: "remembering", gamma: "3", tape: ".1,.3,.95,.2,.1,.4,.7" }],
  ["First rejected", { machine: "remembering", gamma: "3", tape: ".9,.5,.1,.9,.5" }],
  ["Exactly 0", { machine: "remembering", gamma: "3", tape: "0,0,0,0,0,0,0" }],
  ["On the threshold", { tape: "1/2,1/5,1/5,0" }],
  ["Random tape", { machine: "remembering", gamma: "3", tape: "", seed: "7" }],
];

// A tape with another entry i; empty ones are the seed's.
function changed(tape, i, value) {
  const list = entries(tape);
  while (list.length <= i) list.push("");
  list[i] = value.replace(/,/g, ".").trim(); // a comma parts entries
  while (list.length && list.at(-1) === "") list.pop();
  return list.join(",");
}

// The decision that comes next: its strip, and the field and slider of its uniform.
function desk(change) {
  const input = node("input", { type: "text", autocomplete: "off" });
  const slider = node("input", { type: "range", min: 0, max: 0.99, step: 0.01, "aria-label": "Uniform of this decision, slider" });
  const legend = node("legend"), hint = node("p", { class: "stepper-hint" }), drawing = node("div");
  const field = node("div", { class: "lab-field" }, node("label", {}, "Uniform of this decision", input), slider);
  let position = 0, tape = "";
  const set = (value) => change({ tape: changed(tape, position, value) });
  input.addEventListener("input", () => set(input.value));
  slider.addEventListener("input", () => set(slider.value));
  function show(step, setting, words, width) {
    [legend.textContent, hint.textContent] = words;
    field.hidden = drawing.hidden = !step?.cells;
    if (!step?.cells) return;
    [position, tape] = [step.position, setting.tape];
    const own = entries(tape)[position] ?? "";
    drawing.innerHTML = strip(step, Math.min(width - 34, 560));
    if (changed("", 0, input.value) !== own) input.value = own;
    input.placeholder = step.u && !own ? `${step.u.text}, by the seed` : "";
    if (step.u) slider.value = near(step.u.value);
    slider.setAttribute("aria-valuetext", step.u ? `${step.u.text}: ${outcome_words(step)}` : "no number");
  }
  return { element: node("fieldset", { class: "stepper-desk" }, legend, hint, drawing, field), show };
}

const outcome_words = ({ outcome }) => (outcome === true ? "accept" : outcome === false ? "reject" : outcome);

function made(data, change) {
  const facts = JSON.parse(data), next = desk(change);
  let steps = [], at = 0, last = 0, setting = {};
  const go = (to) => to !== at && to >= 0 && to <= last && change({ at: String(to) });
  const over = () => { const end = steps.findIndex((step, i) => i >= at && step.purpose === "commit"); go(end < 0 ? last : end + 1); };
  const moves = [["Back", () => go(at - 1)], ["Next step", () => go(at + 1)], ["Next round", over], ["To the start", () => go(0)],
    ["New tape", () => change({ tape: "", seed: String(entered("seed", setting.seed) + 1n), at: "0" })]];
  const buttons = moves.map(([words, press]) => {
    const button = node("button", { type: "button" }, words);
    button.addEventListener("click", press);
    return button;
  });
  const bar = node("div", { class: "stepper-moves", role: "group", "aria-label": "Steps; arrow keys left and right step too" }, ...buttons);
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(at + by);
  });
  const words = node("p", { class: "lab-total" }), shown = node("div"), chip = node("p", { class: "stepper-text" });
  const round = node("tbody"), tape = node("tbody", { class: "stepper-tape" });
  const results = node("div", { class: "stepper-results" }, words, figure(shown, "One column is one place of the text. Dashed in it: emitted, not yet committed. Each cache holds a prefix."),
    table("This round, place by place", head("place", "proposal", "test", "outcome"), round),
    node("p", { class: "stepper-label" }, "The text, with the origin of each token:"), chip,
    table("The tape of this round, as Recorded notes it", head("no.", "purpose", "asked", "uniform", "outcome"), tape));

  // What is taken of the steps, or the beginning.
  function draw(given, width) {
    setting = given;
    steps = walk(setting, facts);
    last = steps.length - (steps.at(-1).wrong ? 1 : 0);
    at = Math.min(Number(entered("step", setting.at)), last);
    const target = facts.target[setting.machine], coming = steps[at], before = steps[at - 1];
    next.show(coming, setting, asking(coming, steps, target), width);
    [at > 0, at < last, at < last, at > 0].forEach((can, i) => buttons[i].setAttribute("aria-disabled", String(!can)));
    const state = before ?? { ...coming, text: "^", origins: ["start"], proposals: "", verdicts: [], emitted: [], held: [0, 0], began: [0, 0] };
    words.textContent = before ? told(before, steps, target) : "The text holds the start token ^ alone; both caches are empty. Predict the first outcome, then step.";
    shown.innerHTML = board(state, Number(setting.gamma), width);
    round.replaceChildren(...places(state, steps, Number(setting.gamma)).map((cells) =>
      node("tr", {}, ...cells.map((cell, i) => node(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))));
    chip.replaceChildren(...chips(state));
    refill(tape, steps.slice(0, at).filter((step) => step.cells && step.round === state.round).map(line));
    if (coming?.wrong) throw coming.wrong;
    return words.textContent;
  }
  return { groups: GROUPS, presets: PRESETS, own: [next.element, bar], results, draw, style: STYLE };
}

const STYLE = `
.stepper-lab .lab-form { columns: auto; }
.stepper-lab .lab-form > fieldset:first-child { display: flex; flex-wrap: wrap; gap: 0 1.5rem; }
.stepper-lab .lab-form > fieldset:first-child .lab-field { grid-template-columns: auto auto; }
.stepper-lab .lab-key-seed input { width: 6rem; }
.stepper-desk { min-height: 12.5rem; }
.stepper-lab .stepper-desk .lab-field { grid-template-columns: minmax(0, 1fr); max-width: 560px; }
.stepper-desk label { display: grid; grid-template-columns: auto minmax(6rem, 12rem); gap: 0.6rem; align-items: center; }
.stepper-hint { margin: 0 0 0.3rem; }
.stepper-moves { display: flex; flex-wrap: wrap; gap: 0.4rem 0.6rem; margin: 0 0 0.75rem; }
.stepper-moves [aria-disabled=true] { opacity: 0.5; cursor: default; }
.stepper-lab .lab-total { font-size: 1.05em; min-height: 3.2em; }
.stepper-lab svg .stepper-small { font-size: 10.5px; }
.stepper-cell-0 { fill: var(--blue); fill-opacity: 0.3; stroke: currentColor; }
.stepper-cell-1 { fill: none; stroke: currentColor; }
.stepper-u { fill: var(--orange); stroke: var(--orange); stroke-width: 2; }
.stepper-line { fill: none; stroke: currentColor; }
.stepper-unverified { fill: none; stroke: currentColor; stroke-dasharray: 3 3; }
.stepper-strike { fill: none; stroke: currentColor; stroke-width: 1.5; }
.stepper-start { fill: none; stroke: currentColor; stroke-opacity: 0.4; }
.stepper-accepted { fill: var(--blue); fill-opacity: 0.3; stroke: currentColor; }
.stepper-correction { fill: none; stroke: var(--orange); stroke-width: 1.5; }
.stepper-bonus { fill: var(--green); fill-opacity: 0.3; stroke: currentColor; }
.stepper-held { fill: var(--blue); fill-opacity: 0.35; stroke: currentColor; stroke-opacity: 0.5; }
.stepper-read { fill: none; stroke: var(--blue); stroke-width: 2.5; }
.stepper-back { fill: none; stroke: var(--orange); stroke-width: 1.5; stroke-dasharray: 5 3; }
.stepper-pending { fill: none; stroke: var(--green); stroke-width: 2; stroke-dasharray: 1.5 3; }
.stepper-tape td { white-space: nowrap; }
.stepper-lab.lab-narrow .lab-table :is(th, td) { padding-right: 0.5rem; }
.stepper-lab.lab-narrow .lab-table table { font-size: 0.84em; }
.stepper-open { stroke-dasharray: 4 2; }
.stepper-lab ::placeholder { color: inherit; opacity: 0.8; }
.stepper-label { margin: 0.5rem 0 0.2rem; }
.stepper-text { display: flex; flex-wrap: wrap; gap: 0.3rem; margin: 0 0 1rem; }
.stepper-chip { border: 1px solid currentColor; padding: 0 0.4rem; font-size: 0.85em; }
.stepper-chip-correction { border-style: double; border-width: 3px; }
.stepper-chip-bonus { border-radius: 1rem; }
.stepper-chip-start { border-style: dotted; }
@media print { .stepper-moves { display: none; } }
`;

export const render = (context) => mounted(context, made);
