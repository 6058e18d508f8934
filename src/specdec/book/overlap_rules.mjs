// One proposal verified, in exact numbers: what specdec/law.py computes with Fractions, for the overlap lab.
import { ONE, ZERO, below, minus, over, plus, times, total } from "./fractions.mjs";
import { ValueError, entered } from "./lab_page.mjs";

const least = (one, other) => (below(one, other) ? one : other);
const positive = (value) => (value[0] < 0n ? ZERO : value);
const size = ([n, d]) => (n < 0n ? [-n, d] : [n, d]);

// ---- laws ----------------------------------------------------------------------------------------------------------------

export const SYMBOLS = "ABCDEF";
export const MOST = 999n;

// A law of 2 to 6 symbols from the text of its weights, such as "6,3,1": each divided by their sum.
export function law(name, text) {
  const parts = text.split(",");
  if (parts.length < 2 || parts.length > 6) throw new ValueError(`${name} has ${parts.length} weights: give 2 to 6, such as 6,3,1`);
  const weights = parts.map((part, i) => entered(`the weight of ${SYMBOLS[i]} in ${name}`, part, 0n, MOST));
  const sum = weights.reduce((one, other) => one + other);
  if (sum === 0n) throw new ValueError(`${name} has no weight above 0: give one symbol at least 1`);
  return weights.map((weight) => [weight, sum]);
}

// What a rejected proposal is replaced by; only the first is right. `p - q` is the residual before it is normalised.
const CORRECTIONS = {
  residual: ({ residual }) => residual,
  p: ({ p }) => p,
  argmax: ({ p }) => {
    const best = p.findIndex((one) => p.every((other) => !below(one, other))); // ties to the lowest id
    return p.map((_, i) => (i === best ? ONE : ZERO));
  },
  "p - q": ({ refilled }) => refilled,
};

// Everything of one pair of laws. Without a rejection there is neither residual nor correction: both are null.
export function verified(p, q, correction) {
  if (p.length !== q.length) throw new ValueError(`p has ${p.length} weights and q ${q.length}: give both the same number`);
  if (!Object.hasOwn(CORRECTIONS, correction)) {
    throw new ValueError(`correction is ${correction || "empty"}: choose one of ${Object.keys(CORRECTIONS).join(", ")}`);
  }
  const accepted = p.map((value, i) => least(value, q[i]));
  const rejected = q.map((value, i) => positive(minus(value, p[i])));
  const refilled = p.map((value, i) => positive(minus(value, q[i])));
  const alpha = total(accepted), lack = minus(ONE, alpha);
  const residual = lack[0] ? refilled.map((value) => over(value, total(refilled))) : null;
  const second = residual && CORRECTIONS[correction]({ p, refilled, residual });
  const corrected = second ? second.map((value) => times(lack, value)) : p.map(() => ZERO);
  const output = accepted.map((value, i) => plus(value, corrected[i]));
  const distance = (one, other) => times([1n, 2n], total(one.map((value, i) => size(minus(value, other[i])))));
  return {
    p, q, accepted, rejected, refilled, alpha, lack, residual, correction: second, corrected, output,
    variation: distance(p, q), wrong: distance(output, p), sum: total(output),
  };
}
