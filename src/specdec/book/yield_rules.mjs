// What a round yields and costs, as specdec/accounting.py has it, in exact numbers: a test compares the two as Fractions.
import { ONE, ZERO, below, equal, fraction, minus, over, plus, power, reduced, times } from "./fractions.mjs";
import { ValueError, entered } from "./lab_page.mjs";

// Text such as 0.6, .6 or 3/5; a longer one than anybody types would hold up the page.
export function rational(name, text, high = null) {
  const plain = text.trim(), value = plain.length < 80 ? fraction(plain) : null;
  if (value && (high === null || !below([BigInt(high), 1n], value))) return reduced(value);
  const limits = high === null ? "of at least 0" : `from 0 to ${high}`;
  throw new ValueError(`${name} is ${plain || "empty"}: give a number ${limits}, such as 0.6 or 3/5`);
}

// ---- the count -----------------------------------------------------------------------------------------------------------

export const LARGEST = 16;

// α^0, …, α^γ.
const powers = (alpha, gamma) => Array.from({ length: gamma + 1 }, (_, j) => power(alpha, j));

// P(K = 1), …, P(K = γ+1).
export function count_law(alpha, gamma) {
  const beyond = powers(alpha, gamma), stop = minus(ONE, alpha);
  return beyond.map((tail, j) => (j < gamma ? times(tail, stop) : tail));
}

// E[K] for each γ from 0 on. Term by term, as the closed quotient is 0/0 at α = 1.
export function means(alpha, largest) {
  const found = [ONE];
  for (let gamma = 1; gamma <= largest; gamma++) found.push(plus(ONE, times(alpha, found[gamma - 1])));
  return found;
}

// ---- the time ------------------------------------------------------------------------------------------------------------

// A round's parts. γ = 0 is the target alone: one pass over one position, no draft, no overhead.
export function parts(costs, gamma) {
  if (gamma === 0) return { draft: ZERO, verify: costs.baseline, overhead: ZERO };
  const g = [BigInt(gamma), 1n];
  return { draft: times(g, costs.draft), verify: plus(costs.verify, times(g, costs.growth)), overhead: costs.overhead };
}

export function duration(costs, gamma) {
  const { draft, verify, overhead } = parts(costs, gamma);
  return plus(plus(draft, verify), overhead);
}

// How many target steps a round lasts.
const steps = (costs, gamma) => over(duration(costs, gamma), costs.baseline);

// How many times as fast as the target alone.
export const speedup = (mean, costs, gamma) => over(mean, steps(costs, gamma));

// The γ of the highest speedup; ties are all of them, the smallest first.
export function best_gamma(alpha, costs) {
  let best = ONE, ties = [0];
  means(alpha, LARGEST).forEach((mean, gamma) => {
    const ratio = speedup(mean, costs, gamma);
    if (gamma > 0 && equal(ratio, best)) ties.push(gamma);
    if (below(best, ratio)) [best, ties] = [ratio, [gamma]];
  });
  return { gamma: ties[0], ratio: reduced(best), ties };
}

// ---- break-even ----------------------------------------------------------------------------------------------------------

// The least α, in units of 2^-halvings, at which a round of some γ of these is as fast as the target alone; null if not even 1 is.
export function break_even_alpha(costs, gammas, halvings = 50) {
  const lengths = gammas.map((gamma) => [gamma, steps(costs, gamma)]), largest = Math.max(...gammas);
  const enough = (alpha) => {
    const mean = means(alpha, largest);
    return lengths.some(([gamma, length]) => !below(mean[gamma], length));
  };
  if (enough(ZERO)) return ZERO;
  if (!enough(ONE)) return null;
  const unit = 1n << BigInt(halvings);
  let low = 0n, high = unit;
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (enough([middle, unit])) high = middle;
    else low = middle;
  }
  return reduced([high, unit]);
}

// ---- from a setting ------------------------------------------------------------------------------------------------------

export const COSTS = ["draft", "verify", "growth", "overhead"];
const NAMES = { draft: "draft step", verify: "verification", growth: "growth of verification", overhead: "overhead" };

// What a setting's texts say. In target steps the baseline is 1, whatever its field holds.
export function read(setting) {
  const costs = Object.fromEntries(COSTS.map((key) => [key, rational(NAMES[key], setting[key])]));
  costs.baseline = setting.unit === "steps" ? ONE : rational("target step", setting.baseline);
  if (equal(costs.baseline, ZERO)) throw new ValueError("target step is 0: without its time there is nothing to compare with");
  return { alpha: rational("α", setting.alpha, 1), gamma: Number(entered("γ", setting.gamma, 0n, BigInt(LARGEST))), costs };
}

// Everything that the lab says of a setting.
export function computed(setting) {
  const { alpha, gamma, costs } = read(setting);
  if (equal(duration(costs, 1), ZERO)) throw new ValueError("a round of no duration has no throughput");
  const mean = reduced(means(alpha, gamma)[gamma]), { draft, verify, overhead } = parts(costs, gamma), time = duration(costs, gamma);
  return {
    alpha, gamma, costs, mean, law: count_law(alpha, gamma).map(reduced), parts: { draft, verify, overhead }, time: reduced(time),
    rate: reduced(over(mean, time)), ratio: reduced(speedup(mean, costs, gamma)), best: best_gamma(alpha, costs),
    even_verify: reduced(minus(minus(times(mean, costs.baseline), draft), overhead)),
    even_alpha: gamma ? break_even_alpha(costs, [gamma]) : null,
    cheap: below(verify, costs.baseline),
  };
}
