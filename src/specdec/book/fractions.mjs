// Exact fractions for labs' rules: pairs [n, d] of BigInts, d > 0. Only what is shown is reduced: comparisons cross-multiply.

export const ZERO = [0n, 1n], ONE = [1n, 1n];
export const plus = ([a, b], [c, d]) => [a * d + c * b, b * d];
export const minus = ([a, b], [c, d]) => [a * d - c * b, b * d];
export const times = ([a, b], [c, d]) => [a * c, b * d];
export const over = ([a, b], [c, d]) => [a * d, b * c]; // c > 0
export const power = ([n, d], k) => [n ** BigInt(k), d ** BigInt(k)];
export const below = ([a, b], [c, d]) => a * d < c * b;
export const equal = ([a, b], [c, d]) => a * d === c * b;
export const total = (values) => reduced(values.reduce(plus, ZERO));

export function reduced([n, d]) {
  let [a, b] = [n < 0n ? -n : n, d];
  while (b) [a, b] = [b, a % b];
  return [n / a, d / a];
}

export function shown(q) {
  const [n, d] = reduced(q);
  return d === 1n ? String(n) : `${n}/${d}`;
}

// A Number near a fraction: 17 digits of the quotient, since n and d may each be beyond what a Number holds.
export function near([n, d]) {
  const size = n < 0n ? -n : n, up = BigInt(Math.max(0, d.toString().length - size.toString().length + 18));
  return (Number(n < 0n ? -1n : 1n) * Number((size * 10n ** up) / d)) / 10 ** Number(up);
}

// Text such as "0.42", ".42" or "1/5"; null for anything else.
export function fraction(text) {
  const [, above, under] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
  if (above !== undefined) return BigInt(under) > 0n ? [BigInt(above), BigInt(under)] : null;
  const [, before, after = ""] = /^(\d*)(?:\.(\d*))?$/.exec(text) ?? [];
  return before === undefined || before + after === "" ? null : [BigInt(before + after), 10n ** BigInt(after.length)];
}
