// The overlap lab's interface on the shared page of labs. overlap_lab.py has the same keys and defaults.
import { ONE, equal, minus, near, reduced, shown, total } from "./fractions.mjs";
import { escaped, figure, head, mounted, node, picture, refill, table, text } from "./lab_page.mjs";
import { MOST, SYMBOLS, law, verified } from "./overlap_rules.mjs";

const CHOICES = [
  ["residual", "drawn from the residual (right)"],
  ["p", "drawn from p (wrong)"],
  ["argmax", "always p's likeliest symbol (wrong)"],
  ["p - q", "drawn from (p − q)₊, not normalised (wrong)"],
];
const NAMES = { p: "the target p", q: "the draft q" };
function both(value) {
  const [, d] = reduced(value);
  return d === 1n ? shown(value) : `${shown(value)} ${1000n % d ? "≈" : "="} ${near(value).toFixed(3)}`;
}
const letters = (values) => values.map((_, i) => SYMBOLS[i]);
const tuple = (values) => `(${values.map(shown).join(", ")})`;

// ---- the weights ---------------------------------------------------------------------------------------------------------

// A grid of fields and sliders, one row a symbol; all six rows stand, and those beyond the laws' length are hidden.
function grid(change) {
  let now = { p: "", q: "" };
  const parts = (name) => now[name].split(",");
  const put = (name, i, value) => change({ [name]: parts(name).map((old, j) => (j === i ? value.replaceAll(",", ".") : old)).join(",") });
  const count = node("select", { id: null, "aria-label": "Number of symbols" }, ...[2, 3, 4, 5, 6].map((n) => node("option", { value: n }, `${n} symbols`)));
  count.addEventListener("input", () => {
    const fit = (name) => Array.from({ length: Number(count.value) }, (_, i) => parts(name)[i] ?? "1").join(",");
    change({ p: fit("p"), q: fit("q") });
  });
  const cells = [...SYMBOLS].map((symbol, i) => Object.fromEntries(["p", "q"].map((name) => {
    const label = `Weight of ${symbol} in ${NAMES[name]}`;
    const field = node("input", { type: "text", inputmode: "numeric", autocomplete: "off", "aria-label": label, "data-weight": `${name}${symbol}` });
    const slider = node("input", { type: "range", min: 0, max: 20, step: 1, "aria-label": `${label}, slider` });
    for (const input of [field, slider]) input.addEventListener("input", () => put(name, i, input.value));
    return [name, { field, slider, holder: node("div", { class: "overlap-weight" }, field, slider) }];
  })));
  const rows = cells.map(({ p, q }, i) => node("div", { class: "overlap-row" }, node("span", {}, SYMBOLS[i]), p.holder, q.holder));
  const names = node("div", { class: "overlap-row", "aria-hidden": "true" }, node("span"), node("span", {}, NAMES.p), node("span", {}, NAMES.q));
  const whole = node("fieldset", { class: "overlap-grid" }, node("legend", {}, "Weights, divided by their sum"), count, names, ...rows);
  function follow(setting) {
    now = setting;
    const long = Math.max(parts("p").length, parts("q").length);
    count.value = long;
    cells.forEach((pair, i) => {
      rows[i].hidden = i >= long;
      for (const name of ["p", "q"]) {
        const value = parts(name)[i] ?? "", { field, slider } = pair[name];
        if (field.value !== value) field.value = value;
        slider.max = Math.max(20, Number(value) || 0);
        if (/^\s*\d+\s*$/.test(value)) slider.value = Number(value);
      }
    });
  }
  return { whole, follow, parts, put };
}

// ---- the picture ---------------------------------------------------------------------------------------------------------

const TALL = 170, TOP = 30, LEFT = 30; // pixels of probability 1, above it, and left of the bars

// One panel: bars of accepted mass with more on top, a handle, and a mark at the height that the handle sets.
function panel(x, y, width, { title, name, values, accepted, more, kind, marks }) {
  const base = y + TOP + TALL, wide = (width - LEFT - 6) / values.length, at = (value) => base - near(value) * TALL;
  let inside = text(x + LEFT, y + 12, title, 'class="lab-strong"');
  for (const share of [0, 0.5, 1]) {
    inside += `<path class="overlap-line" d="M${x + LEFT} ${base - share * TALL}h${width - LEFT - 6}"/>`;
    inside += text(x + LEFT - 4, base - share * TALL + 4, share, 'text-anchor="end"');
  }
  values.forEach((value, i) => {
    const left = x + LEFT + i * wide + wide * 0.12, room = wide * 0.76, middle = (left + room / 2).toFixed(1);
    const bar = (style, low, high) => `<rect class="${style}" x="${left.toFixed(1)}" y="${high.toFixed(1)}" width="${room.toFixed(1)}" height="${Math.max(0, low - high).toFixed(1)}"/>`;
    const kept = at(accepted[i]), end = kept - near(more[i]) * TALL;
    inside += bar("overlap-accepted", base, kept) + (more[i][0] ? bar(`overlap-${kind}`, kept, end) : "");
    const mark = at(value);
    if (marks) inside += `<path class="overlap-mark" d="M${(left - wide * 0.08).toFixed(1)} ${mark.toFixed(1)}h${(room + wide * 0.16).toFixed(1)}"/>`;
    inside += text(middle, (Math.min(mark, end) - 7).toFixed(1), near(value).toFixed(2), 'text-anchor="middle"');
    inside += text(middle, base + 15, SYMBOLS[i], 'text-anchor="middle" class="lab-strong"');
    inside += `<rect class="overlap-handle" data-bar="${name}${SYMBOLS[i]}" x="${left.toFixed(1)}" y="${(mark - 14).toFixed(1)}" width="${room.toFixed(1)}" height="28"><title>${escaped(`drag ${name}(${SYMBOLS[i]})`)}</title></rect>`;
  });
  return inside;
}

function legend(x, y, parts) {
  let inside = "";
  for (const [style, words, room] of parts) {
    inside += style === "overlap-mark" ? `<path class="overlap-mark" d="M${x} ${y - 4}h18"/>` : `<rect class="${style}" x="${x}" y="${y - 11}" width="18" height="13"/>`;
    inside += text(x + 23, y, words);
    x += room;
  }
  return inside;
}

// Both panels, side by side or one below the other, and what they say in words. `boxes` is where each is, for the hand.
function drawing(c, width) {
  const narrow = width < 480, each = narrow ? width : width / 2, down = TOP + TALL + 24;
  const places = { q: [0, 0], p: narrow ? [0, down + 4] : [each, 0] };
  const high = (narrow ? 2 * down + 4 : down) + 24;
  const inside = panel(...places.q, each, { title: "What the draft proposes: q", name: "q", values: c.q, accepted: c.accepted, more: c.rejected, kind: "rejected" })
    + panel(...places.p, each, { title: "What comes out, and p", name: "p", values: c.p, accepted: c.accepted, more: c.corrected, kind: "corrected", marks: true })
    + legend(narrow ? 2 : LEFT, high - 6, narrow
      ? [["overlap-accepted", "accepted", 86], ["overlap-rejected", "rejected", 84], ["overlap-corrected", "refilled", 80], ["overlap-mark", "p", 0]]
      : [["overlap-accepted", "accepted", 110], ["overlap-rejected", "rejected", 110], ["overlap-corrected", "refilled by the correction", 190], ["overlap-mark", "the target p", 0]]);
  const label = `Two bar charts of probability mass. ${letters(c.p).map((symbol, i) =>
    `${symbol}: accepted ${shown(c.accepted[i])}, rejected ${shown(c.rejected[i])}, refilled ${shown(c.corrected[i])}, out ${shown(c.output[i])}, target ${shown(c.p[i])}`).join("; ")}.`;
  return { svg: picture(width, high, label, inside), places };
}

// The pointer on a handle sets the weight that brings the bar nearest to it; the others keep their weights.
function drags(holder, state, { parts, put }) {
  let held = null;
  const move = (event) => {
    if (!held) return;
    const { name, i } = held, box = holder.querySelector("svg").getBoundingClientRect();
    const y = ((event.clientY - box.top) * state.high) / box.height, base = state.places[name][1] + TOP + TALL;
    const share = Math.min(0.97, Math.max(0, (base - y) / TALL));
    const rest = parts(name).reduce((sum, part, j) => sum + (j === i ? 0 : Number(part)), 0);
    const weight = Math.min(Number(MOST), Math.round((share * rest) / (1 - share)));
    if (rest > 0 && String(weight) !== parts(name)[i]) put(name, i, String(weight));
  };
  holder.addEventListener("pointerdown", (event) => {
    const bar = event.target.dataset?.bar;
    if (!bar) return;
    held = { name: bar[0], i: SYMBOLS.indexOf(bar[1]) };
    holder.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  holder.addEventListener("pointermove", move);
  for (const end of ["pointerup", "pointercancel"]) holder.addEventListener(end, () => { held = null; });
}

// ---- the words -----------------------------------------------------------------------------------------------------------

function sentences(c, correction) {
  const right = c.wrong[0] === 0n, told = [];
  if (!c.residual) told.push("p = q: nothing is ever rejected, so there is no residual and no correction to draw.");
  else if (c.alpha[0] === 0n) told.push("p and q share no symbol: α = 0, every proposal is rejected, and the residual is p itself.");
  else told.push(`A rejection has probability ${both(c.lack)}; the residual is ${tuple(c.residual)}.`);
  if (!equal(c.sum, ONE)) {
    told.push(`(p − q)₊ has the mass ${shown(c.lack)} and is no law: what comes out sums to ${both(c.sum)}. The missing `
      + `${shown(minus(ONE, c.sum))} falls on whatever symbol the code's search ends on.`);
  } else if (right && correction === "residual") told.push(`Out comes ${tuple(c.output)} = p, symbol by symbol, whatever q is.`);
  else if (right) told.push(`Out comes ${tuple(c.output)} = p all the same: ${c.residual ? "on this pair the wrong correction and the residual agree" : "the correction is never drawn"}.`);
  else told.push(`Out comes ${tuple(c.output)}, not p: the distance from p is ${both(c.wrong)}.`);
  return told;
}

function rows(c) {
  const cells = (values) => [...values.map(both), both(total(values))];
  const columns = [c.p, c.q, c.accepted, c.rejected, c.refilled].map(cells);
  columns.push(c.residual ? cells(c.residual) : [...c.p.map(() => "none"), "none"], cells(c.output));
  return [...letters(c.p), "sum"].map((name, i) => [name, ...columns.map((column) => column[i])]);
}

const STYLE = `
.overlap-lab .lab-form { columns: auto 1; }
.overlap-lab .lab-key-correction { grid-template-columns: auto minmax(0, 24rem); justify-content: start; }
.lab-narrow.overlap-lab .lab-key-correction { grid-template-columns: minmax(0, 1fr); }
.overlap-grid > select { width: auto !important; margin: 0.2rem 0 0.4rem; }
.overlap-row { display: grid; grid-template-columns: 1.2rem minmax(0, 1fr) minmax(0, 1fr); gap: 0.2rem 0.9rem; align-items: center; margin: 0.25rem 0; }
.overlap-row > span { font-weight: 600; }
.overlap-weight { display: grid; grid-template-columns: 3.4rem minmax(0, 1fr); gap: 0.6rem; align-items: center; }
.overlap-picture { user-select: none; -webkit-user-select: none; }
.overlap-line { fill: none; stroke: currentColor; stroke-opacity: 0.25; }
.overlap-accepted { fill: var(--blue); }
.overlap-rejected { fill: var(--hatch-orange); stroke: var(--orange); stroke-width: 1.5; }
.overlap-corrected { fill: var(--dots-orange); stroke: var(--orange); stroke-width: 1.5; }
.overlap-mark { fill: none; stroke: currentColor; stroke-width: 3; }
.overlap-handle { fill: transparent; cursor: ns-resize; touch-action: none; }
.overlap-handle:hover { stroke: currentColor; stroke-dasharray: 2 3; }
.overlap-words { margin: 0.3rem 0; padding-left: 1.2rem; }
.overlap-lab :is(tbody th, td) { white-space: nowrap; }
.overlap-lab .lab-table table { font-size: 0.8em; }
.overlap-lab :is(th, td) { padding-right: 0.4rem !important; }
.overlap-lab thead th { min-width: 4rem; vertical-align: bottom; }
`;

const PRESETS = [
  ["one symbol in the residual", { p: "6,3,1", q: "2,3,5" }],
  ["two symbols", { p: "5,3,2", q: "2,2,6" }],
  ["equal laws", { p: "5,3,2", q: "5,3,2" }],
  ["disjoint laws", { p: "5,3,0,0", q: "0,0,1,1" }],
  ["one-hot draft", { p: "5,3,2", q: "0,1,0" }],
];

export const render = (given) => mounted(given, (_, change) => {
  const headline = node("p", { class: "lab-total" }), words = node("ul", { class: "overlap-words" });
  const holder = node("div", { class: "overlap-picture" }), body = node("tbody"), state = {};
  const weights = grid(change);
  drags(holder, state, weights);
  const results = node("div", {}, headline,
    figure(holder, "Drag the top of a bar of q, or a mark of p. Solid and dots together reach every mark exactly when the output is p."),
    words, table("Bar by bar", head("", "p", "q", "accepted min(p, q)", "rejected (q − p)₊", "refilled (p − q)₊", "residual", "output"), body));
  function draw(setting, width) {
    const c = verified(law("p", setting.p), law("q", setting.q), setting.correction);
    headline.textContent = `α = Σ min(p, q) = 1 − TV(p, q) = ${both(c.alpha)}`;
    const told = sentences(c, setting.correction);
    words.replaceChildren(...told.map((line) => node("li", {}, line)));
    const drawn = drawing(c, width);
    holder.innerHTML = drawn.svg;
    Object.assign(state, { places: drawn.places, high: Number(holder.firstChild.getAttribute("height")) });
    refill(body, rows(c));
    return `α is ${both(c.alpha)}. ${told.at(-1)}`;
  }
  return {
    name: "overlap", presets: PRESETS, style: STYLE, results, draw, own: [weights.whole], follow: weights.follow,
    groups: [["After a rejection", [["correction", "The correction is", "select", CHOICES]]]],
  };
});
