// The lab *yield and cost*: what a setting shows. The rules are yield_rules.mjs's, all numbers exact until they are drawn.
import { ONE, ZERO, below, equal, near, over, power, reduced, shown, times } from "./fractions.mjs";
import { escaped, figure, head, mounted, node, picture, refill, table, text } from "./lab_page.mjs";
import { COSTS, LARGEST, best_gamma, break_even_alpha, computed, means, rational, read, speedup } from "./yield_rules.mjs";

// ---- numbers in words ----------------------------------------------------------------------------------------------------

// A fraction as a decimal number if it ends within so many places, else null.
function ended(q, places = 12) {
  const [n, d] = reduced(q);
  for (let k = 0; k <= places; k++) {
    const unit = 10n ** BigInt(k);
    if (unit % d) continue;
    const digits = ((n * unit) / d).toString().padStart(k + 1, "0");
    return k ? `${digits.slice(0, -k)}.${digits.slice(-k)}` : digits;
  }
  return null;
}
const typed = (q) => ended(q) ?? shown(q); // exactly, as a field takes it
const told = (q, digits = 4) => String(Number(near(q).toPrecision(digits)));
const probability = (q) => ended(q, 8) ?? (reduced(q)[1] < 10n ** 7n ? shown(q) : `≈ ${near(q).toPrecision(6)}`);
const listed = (numbers) => (numbers.length < 2 ? `${numbers}` : `${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`);

const UNITS = { ms: "ms", steps: "target steps" };
const unit_of = (setting) => (setting.unit === "steps" ? "steps" : "ms");
const rate = (c, unit) => (unit === "ms" ? `${(near(c.rate) * 1000).toFixed(1)} tokens/s` : `${near(c.rate).toFixed(3)} tokens per target step`);

function headline(c, unit) {
  if (c.gamma === 0) return `γ = 0, the target alone: ${rate(c, unit)}`;
  const verdict = equal(c.ratio, ONE) ? "exactly as fast" : below(c.ratio, ONE) ? "slower" : "faster";
  return `${rate(c, unit)} at assumed costs: ${near(c.ratio).toFixed(3)} times the target alone, ${verdict}`;
}

function best_in_words({ ties, ratio }) {
  const most = `${near(ratio).toFixed(3)} times the target alone`;
  if (ties.length > 1) return `${listed(ties)} tie: ${most}${ties[0] === 0 ? ", so no γ is faster" : ""}`;
  if (ties[0] === 0) return "0: no γ pays";
  return `${ties[0]}${ties[0] === LARGEST ? ", the largest looked at" : ""}: ${most}`;
}

function even_in_words(c) {
  if (c.gamma === 0) return "none: γ = 0 is the target alone";
  if (c.even_alpha === null) return `none: ${c.gamma + 1} tokens are the most that a round yields`;
  return equal(c.even_alpha, ZERO) ? "0: even without an accepted proposal" : near(c.even_alpha).toFixed(4);
}

function answers(c, unit) {
  const cost = (q) => `${told(q)} ${UNITS[unit]}`, { draft, verify, overhead } = c.parts;
  const none = !below(ZERO, c.even_verify) ? ": none is fast enough" : "";
  return [
    ["Mean tokens a round, E[K]", ended(c.mean, 6) ?? `${near(c.mean).toFixed(6)}`],
    ["A round lasts (assumed)", `${told(draft)} + ${told(verify)} + ${told(overhead)} = ${cost(c.time)}`],
    ["Speculation, on these assumptions", rate(c, unit)],
    ["The target alone", rate({ rate: over(ONE, c.costs.baseline) }, unit)],
    ["Ratio", `${near(c.ratio).toFixed(3)}`],
    ["Verification may take, at most, to pay", `${cost(c.even_verify)}${none}`],
    ["Acceptance needed to pay at this γ", even_in_words(c)],
    [`Best γ up to ${LARGEST}`, best_in_words(c.best)],
  ];
}

function warnings(c, unit) {
  const found = [];
  if (c.cheap) {
    found.push(`Verification of ${c.gamma + 1} positions is assumed to take ${told(c.parts.verify)} ${UNITS[unit]}, less than a target step over one, `
      + `${told(c.costs.baseline)}. A pass over more positions does not do less work: check what the two times hold.`);
  }
  if (c.best.gamma === 0) found.push("At this acceptance and these costs no γ is faster than the target alone: γ = 0 is the right answer.");
  return found;
}

// ---- pictures --------------------------------------------------------------------------------------------------------------

function count_picture(c, width) {
  const left = 8, slot = (width - 2 * left) / (c.gamma + 1), wide = Math.min(60, slot * 0.8), foot = 150;
  const tallest = Math.max(...c.law.map(near)), labelled = (j) => slot > 34 || j === 0 || j === c.gamma;
  let inside = "";
  c.law.forEach((share, j) => {
    const high = (115 * near(share)) / tallest, middle = left + (j + 0.5) * slot;
    const kind = j === c.gamma ? "yield-full" : "yield-stopped";
    inside += `<rect class="${kind}" x="${(middle - wide / 2).toFixed(1)}" y="${(foot - high).toFixed(1)}" width="${wide.toFixed(1)}" height="${high.toFixed(1)}"/>`;
    // at the ends a label may be wider than its bar
    const anchor = slot > 34 ? "middle" : j ? "end" : "start", from = { start: -wide / 2, middle: 0, end: wide / 2 }[anchor];
    if (labelled(j)) inside += text((middle + from).toFixed(1), (foot - high - 4).toFixed(1), told(share, 3), `text-anchor="${anchor}"`);
    inside += text(middle.toFixed(1), foot + 15, j + 1, 'text-anchor="middle"');
  });
  const x = left + (near(c.mean) - 0.5) * slot, end = x > width / 2;
  inside += `<path class="yield-axis" d="M${left} ${foot}H${width - left}"/><path class="yield-mean" d="M${x.toFixed(1)} ${foot + 20}l-6 10h12z"/>`;
  inside += text((x + (end ? -10 : 10)).toFixed(1), foot + 31, `mean ${told(c.mean)}`, `text-anchor="${end ? "end" : "start"}" class="lab-strong"`);
  const label = `Probability of each number of tokens in a round: ${c.law.map((share, j) => `${j + 1}: ${told(share, 3)}`).join(", ")}. Mean ${told(c.mean)}.`;
  return picture(width, foot + 36, label, inside);
}

const PARTS = [["draft", "drafting"], ["verify", "verification"], ["overhead", "overhead"]];

// The round, and the time in which the target alone makes as many tokens: the shorter bar wins.
function time_picture(c, width, unit) {
  const alone = times(c.mean, c.costs.baseline), longest = Math.max(near(c.time), near(alone)), wide = (q) => (near(q) / longest) * (width - 2);
  const cost = (q) => `${told(q)} ${UNITS[unit]}`;
  let inside = text(1, 12, `a round: ${cost(c.time)}`), x = 1;
  for (const [key] of PARTS) {
    const own = wide(c.parts[key]);
    inside += `<rect class="yield-${key}" x="${x.toFixed(1)}" y="18" width="${own.toFixed(1)}" height="28"/>`;
    x += own;
  }
  inside += text(1, 66, `the target alone, ${told(c.mean)} tokens: ${cost(alone)}`);
  const step = wide(c.costs.baseline), whole = Math.floor(near(c.mean));
  inside += `<rect class="yield-alone" x="1" y="72" width="${wide(alone).toFixed(1)}" height="28"/>`;
  for (let i = 1; i <= whole; i++) inside += `<path class="yield-axis" d="M${(1 + i * step).toFixed(1)} 72v28"/>`;
  PARTS.forEach(([key, name], i) => {
    const at = 1 + i * Math.min(170, (width - 2) / 3);
    inside += `<rect class="yield-${key}" x="${at.toFixed(1)}" y="112" width="16" height="14"/>${text((at + 21).toFixed(1), 124, `${name} ${told(c.parts[key])}`)}`;
  });
  const label = `A round takes ${cost(c.time)}: ${PARTS.map(([key, name]) => `${name} ${told(c.parts[key])}`).join(", ")}. `
    + `The target alone takes ${cost(alone)} for as many tokens.`;
  return picture(width, 130, label, inside);
}

// ---- the map ---------------------------------------------------------------------------------------------------------------

const TENTHS = Array.from({ length: 11 }, (_, i) => [BigInt(i), 10n]);
const ROWS = 9;
const DRAFTS = [0n, 5n, 10n, 20n, 30n, 40n, 50n, 80n, 100n].map((part) => [part, 100n]); // in target steps

// The rows from the lowest up: what a row's label says, its cost and γs, and the setting that it stands for.
function map_rows(c, kind, unit) {
  const first = Math.max(0, c.gamma - ROWS + 1);
  if (kind === "gamma") {
    return Array.from({ length: ROWS }, (_, j) => ({ name: String(first + j), costs: c.costs, gammas: [first + j], change: { gamma: String(first + j) } }));
  }
  return DRAFTS.map((share) => {
    const draft = times(share, c.costs.baseline), gammas = Array.from({ length: LARGEST }, (_, g) => g + 1);
    return { name: told(draft, 3), costs: { ...c.costs, draft }, gammas, change: { draft: typed(draft) } };
  });
}

// A row's cells: the ratio at each α, and the γ that has it.
function map_cells({ costs, gammas }) {
  return TENTHS.map((alpha) => {
    if (gammas.length > 1) return best_gamma(alpha, costs);
    return { gamma: gammas[0], ratio: speedup(means(alpha, gammas[0])[gammas[0]], costs, gammas[0]) };
  });
}

// Where a value lies among growing marks, as a number of marks; beyond the ends, at the end.
function place(q, marks) {
  const at = marks.findIndex((mark) => !below(mark, q));
  if (at < 1) return at < 0 ? marks.length - 1 : 0;
  const [low, high] = [near(marks[at - 1]), near(marks[at])];
  return at - 1 + (near(q) - low) / (high - low);
}

function map_of(c, kind, unit) {
  const rows = map_rows(c, kind, unit);
  const cells = rows.map(map_cells);
  const best = TENTHS.map((alpha) => best_gamma(alpha, c.costs).gamma);
  const even = rows.map((row) => (row.gammas[0] ? break_even_alpha(row.costs, row.gammas, 20) : null)); // a millionth: enough to draw
  return { rows, cells, best, even };
}

function map_picture(map, kind, unit, width) {
  const left = 34, top = 8, wide = (width - left - 1) / TENTHS.length, high = 26, bottom = top + map.rows.length * high;
  let inside = "", line = "", numbers = "";
  map.rows.forEach(({ name }, j) => {
    const y = bottom - (j + 1) * high, even = map.even[j] === null ? TENTHS.length : near(map.even[j]) * 10 + 0.5; // no α: beyond the last column
    const border = left + Math.min(TENTHS.length, even) * wide;
    map.cells[j].forEach(({ gamma, ratio }, i) => {
      const x = left + i * wide, number = near(ratio), pays = below(ONE, ratio), best = kind === "gamma" && map.best[i] === gamma;
      const look = pays ? "yield-pays" : kind === "gamma" && equal(ratio, ONE) ? "yield-even" : "yield-loses";
      const shade = pays ? ` fill-opacity="${(0.08 + 0.4 * Math.min(1, Math.log2(number) / 2)).toFixed(2)}"` : "";
      inside += `<rect class="${look}" x="${x.toFixed(1)}" y="${y}" width="${wide.toFixed(1)}" height="${high}"${shade}/>`;
      const words = kind === "gamma" ? (number < 9.995 ? number.toFixed(2) : number.toFixed(1)) : String(gamma);
      const rim = look === "yield-loses" || Math.abs(x + wide / 2 - border) <= wide / 2 ? " lab-over" : "";
      numbers += text((x + wide / 2).toFixed(1), y + 17, words, `text-anchor="middle" class="${best ? "yield-best" : ""}${rim}"`);
    });
    inside += text(left - 5, y + 17, name, 'text-anchor="end"');
    if (map.rows[j].gammas[0]) line += `${line ? "L" : "M"}${border.toFixed(1)} ${y + high}V${y}`;
  });
  TENTHS.forEach((alpha, i) => { inside += text((left + (i + 0.5) * wide).toFixed(1), bottom + 15, told(alpha), 'text-anchor="middle"'); });
  inside += `<path class="yield-line" d="${line}"/>${numbers}<rect class="yield-now" rx="4" width="${wide.toFixed(1)}" height="${high}"/>`;
  inside += text(width - 2, bottom + 31, "acceptance α", 'text-anchor="end"') + text(2, bottom + 31, kind === "gamma" ? "↑ γ" : `↑ draft step, ${UNITS[unit]}`);
  const spoken = map.rows.map(({ name, gammas }, j) => {
    const row = kind === "gamma" ? `γ ${name}` : `draft step ${name}`;
    return `${row}: ${!gammas[0] ? "the target alone" : map.even[j] === null ? "never" : `from α ${near(map.even[j]).toFixed(2)}`}`;
  });
  const label = `Map of ${kind === "gamma" ? "speed in times the target alone" : "the best γ"} over α and ${kind === "gamma" ? "γ" : "the draft's cost"}. Pays, ${spoken.join("; ")}.`;
  return { svg: picture(width, bottom + 37, label, inside), at: (i, j) => [left + i * wide, bottom - (j + 1) * high], left, wide, bottom, high };
}

const cell_words = ({ gamma, ratio }, kind, best) => `${kind === "draft" ? `γ ${gamma}: ` : ""}${near(ratio).toFixed(3)}${below(ratio, ONE) ? ", slower" : ""}${best ? ", best γ" : ""}`;

// ---- predictions -----------------------------------------------------------------------------------------------------------

const speeds = (than) => [["faster", (c) => below(than(c), c.rate)], ["slower", (c) => below(c.rate, than(c))]];
const gammas = (...numbers) => numbers.map((g) => [String(g), (c) => c.best.gamma === g]);
// Each from the lesson's first budget: the question, what changes, the answers with their tests, and why.
const prompts = (first) => [
  ["Verification takes 12 ms instead of 6, and α stays .6. Against the target alone, decoding is", { verify: "12" },
    speeds((c) => over(ONE, c.costs.baseline)), "The round yields as many tokens as before and lasts 15 ms, in which the target alone makes two and a half."],
  ["A better draft: α is .7 instead of .6, and its step takes 2 ms instead of 1. Against the first budget, decoding is", { alpha: "0.7", draft: "2" },
    speeds(() => computed(first).rate), "More proposals are accepted, and each costs more than it brings."],
  ["Drafting takes no time at all. The best γ is", { draft: "0" },
    gammas(2, 8, LARGEST), "Another proposal costs nothing and may be accepted: the largest γ wins, by less and less."],
  ["Drafting takes no time, but each proposal adds 2 ms to the verification. The best γ is", { draft: "0", growth: "2" },
    gammas(0, 2, LARGEST), "A position that verification charges for is as dear as one that the draft charges for."],
];

function predictions(first, change) {
  const said = node("output");
  const asked = prompts(first).map(([question, changes, options, why]) => {
    const buttons = options.map(([words, right]) => {
      const button = node("button", { type: "button" }, words);
      button.addEventListener("click", () => {
        const next = { ...first, ...changes }, c = computed(next);
        change(next);
        const verdict = right(c) ? "Right" : "Not so";
        const found = options.some(([name]) => /\d/.test(name)) ? `the best γ is ${best_in_words(c.best)}` : headline(c, unit_of(next));
        said.textContent = `You said ${words}. ${verdict}: ${found}. ${why}`;
      });
      return button;
    });
    return node("li", {}, `${question} `, ...buttons);
  });
  const box = node("fieldset", { class: "yield-predict" }, node("legend", {}, "Predict, then move: an answer sets the lab"), node("ol", {}, ...asked), said);
  return { box, clear: () => { said.textContent = ""; } };
}

// ---- the lab ---------------------------------------------------------------------------------------------------------------

const GROUPS = [
  ["Acceptance: assumed iid, one α after every prefix", [
    ["alpha", "Acceptance α", "range", [0, 1, 0.01]],
    ["gamma", "Proposals a round γ", "range", [0, LARGEST, 1]],
  ]],
  ["Map", [["map", "Over α and", "select", [["gamma", "γ"], ["draft", "draft cost"]]]]],
  ["Costs: all assumed, none measured", [
    ["draft", "One draft step", "range", [0, 20, 0.1]],
    ["verify", "Verification, at any γ", "range", [0, 20, 0.1]],
    ["growth", "Verification, for each proposal", "range", [0, 20, 0.1]],
    ["overhead", "Overhead of a round", "range", [0, 20, 0.1]],
    ["baseline", "One step of the target alone", "range", [0, 20, 0.1]],
  ]],
];

const STYLE = `
.yield-predict { column-span: all; margin-top: 0.75rem !important; }
.yield-predict ol { margin: 0.3rem 0; padding-left: 1.3rem; }
.yield-predict li { margin: 0.4rem 0; }
.yield-predict button { margin: 0 0.3rem 0.2rem 0; }
.yield-units label { display: inline-flex; gap: 0.4rem; align-items: center; margin-right: 1rem; }
.yield-units input { width: auto !important; }
.yield-stopped { fill: var(--blue); fill-opacity: 0.55; stroke: currentColor; }
.yield-full { fill: var(--hatch-orange); stroke: var(--orange); stroke-width: 1.5; }
.yield-axis { stroke: currentColor; fill: none; }
.yield-mean { fill: currentColor; }
.yield-draft { fill: var(--dots-blue); stroke: var(--blue); stroke-width: 1.5; }
.yield-verify { fill: var(--orange); fill-opacity: 0.55; stroke: var(--orange); stroke-width: 1.5; }
.yield-overhead { fill: var(--hatch-green); stroke: var(--green); stroke-width: 1.5; }
.yield-alone { fill: none; stroke: currentColor; stroke-width: 2; }
.yield-pays { fill: var(--blue); stroke: currentColor; stroke-opacity: 0.15; }
.yield-even { fill: none; stroke: currentColor; stroke-opacity: 0.15; }
.yield-loses { fill: var(--hatch); fill-opacity: 0.35; stroke: currentColor; stroke-opacity: 0.15; }
.book-lab svg .yield-best { font-weight: 700; text-decoration: underline; }
.lab-narrow svg .yield-best { font-weight: 400; } /* bold ones run together */
.yield-line { fill: none; stroke: var(--orange); stroke-width: 3; }
.yield-now { fill: none; stroke: currentColor; stroke-width: 3; }
.yield-map { cursor: pointer; }
`;

function panel() {
  const made = {
    total: node("p", { class: "lab-total" }), warnings: node("ul", { "aria-label": "Warnings" }), answers: node("tbody"), law: node("tbody"),
    count: node("div"), time: node("div"), legend: node("figcaption"), head: node("thead"), body: node("tbody"),
    map: node("div", { class: "yield-map", tabindex: 0, role: "application" }),
  };
  made.details = node("details", {}, node("summary", {}, "The map as a table"), table("Speed in times the target alone", made.head, made.body));
  made.results = node("div", {}, made.total, made.warnings,
    figure(made.time, "The shorter bar wins. Above, one round with its parts; below, the target alone for as many tokens, a box a step. Times are assumed."),
    figure(made.count, "The law of the output count. Filled bars: the round ends with a correction. Hatched: all proposals accepted, it ends with the bonus."),
    table("This setting: derived from assumed times and iid acceptance", made.answers),
    node("figure", {}, made.map, made.legend),
    made.details,
    node("details", {}, node("summary", {}, "The law of the count, exactly"), table("Tokens in a round", head("K", "P(K)", "P(at least K)"), made.law)));
  return made;
}

const LEGENDS = {
  gamma: "Speed in times the target alone, at these costs. Hatched is slower. Right of the thick line speculation pays. Underlined: a column's best γ. The frame is this setting; arrow keys or a click move it.",
  draft: `The best γ up to ${LARGEST} at each draft cost. Hatched, or 0: no γ pays. Right of the thick line some γ does. The frame is this setting; arrow keys or a click move it.`,
};

function make(data, change) {
  const { scenarios } = JSON.parse(data), first = scenarios[0][1], parts = panel();
  let now = first, drawn = "", map = null, sketch = null;
  const predict = predictions(first, change);
  const units = unit_choice((unit) => change(converted(now, unit)));

  function draw_map(c, setting, width) {
    const kind = setting.map === "draft" ? "draft" : "gamma", unit = unit_of(setting);
    const own = kind === "gamma" ? Math.max(0, c.gamma - ROWS + 1) : "";
    const key = JSON.stringify([kind, unit, own, width, COSTS.map((name) => (name === "draft" && kind === "draft" ? "" : setting[name])), setting.baseline]);
    if (key !== drawn) {
      map = map_of(c, kind, unit);
      sketch = map_picture(map, kind, unit, width);
      parts.map.innerHTML = sketch.svg;
      parts.map.setAttribute("aria-label", `Map. Left and right change α, up and down ${kind === "gamma" ? "γ" : "the draft's cost"}`);
      parts.legend.textContent = LEGENDS[kind];
      drawn = key;
      fill_table();
    }
    const row = kind === "gamma" ? c.gamma - own : place(over(c.costs.draft, c.costs.baseline), DRAFTS);
    const frame = parts.map.querySelector(".yield-now");
    sketch.at(near(c.alpha) * 10, row).forEach((at, i) => frame.setAttribute("xy"[i], at.toFixed(1)));
  }

  // The map as a table, once somebody opens it.
  function fill_table() {
    if (!parts.details.open) return;
    const kind = now.map === "draft" ? "draft" : "gamma", corner = kind === "gamma" ? "γ" : `draft step, ${UNITS[unit_of(now)]}`;
    parts.head.replaceChildren(...head(corner, ...TENTHS.map((alpha) => `α ${told(alpha)}`), "pays from α").children);
    refill(parts.body, map.rows.map(({ name, gammas }, j) => [
      name, ...map.cells[j].map((cell, i) => cell_words(cell, kind, kind === "gamma" && map.best[i] === cell.gamma)),
      !gammas[0] ? "" : map.even[j] === null ? "never" : near(map.even[j]).toFixed(4),
    ]).reverse());
  }
  parts.details.addEventListener("toggle", fill_table);

  // To a column and a row of the map, within it.
  function go(i, j) {
    const column = Math.max(0, Math.min(TENTHS.length - 1, i)), row = Math.max(0, Math.min(map.rows.length - 1, j));
    change({ alpha: told(TENTHS[column]), ...map.rows[row].change });
  }
  parts.map.addEventListener("click", (event) => {
    const box = parts.map.querySelector("svg").getBoundingClientRect(), scale = sketch.wide * TENTHS.length + sketch.left + 1;
    const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((at) => (at * scale) / box.width);
    if (x > sketch.left && y < sketch.bottom) go(Math.floor((x - sketch.left) / sketch.wide), Math.floor((sketch.bottom - y) / sketch.high));
  });
  parts.map.addEventListener("keydown", (event) => {
    const [right, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [];
    if (right === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(right, up);
  });
  // One column or row on; between two of them, to the next one that way.
  function move(right, up) {
    const { alpha, gamma, costs } = read(now), beside = (at, way) => (way > 0 ? Math.floor(at) + 1 : Math.ceil(at) - 1);
    const column = Math.max(0, Math.min(TENTHS.length - 1, beside(near(alpha) * 10, right)));
    if (right) change({ alpha: told(TENTHS[column]) });
    else if (now.map === "draft") change(map.rows[Math.max(0, Math.min(DRAFTS.length - 1, beside(place(over(costs.draft, costs.baseline), DRAFTS), up)))].change);
    else change({ gamma: String(Math.max(0, Math.min(LARGEST, gamma + up))) });
  }

  return {
    results: parts.results, groups: GROUPS, own: [units.box, predict.box], style: STYLE,
    presets: scenarios,
    follow(setting, form) {
      now = setting;
      predict.clear();
      units.show(unit_of(setting));
      fit_fields(setting, form);
    },
    draw(setting, width) {
      const c = computed(setting), unit = unit_of(setting);
      parts.total.textContent = headline(c, unit);
      parts.warnings.replaceChildren(...warnings(c, unit).map((words) => node("li", {}, words)));
      parts.warnings.hidden = !parts.warnings.children.length;
      refill(parts.answers, answers(c, unit));
      refill(parts.law, c.law.map((share, j) => [String(j + 1), probability(share), probability(power(c.alpha, j))]));
      parts.count.innerHTML = count_picture(c, width);
      parts.time.innerHTML = time_picture(c, width, unit);
      draw_map(c, setting, width);
      return `${headline(c, unit)}. Best γ: ${best_in_words(c.best)}`;
    },
  };
}

// Milliseconds or target steps. A change converts every cost exactly, so that the scenario stays what it is.
function unit_choice(changed) {
  const name = `yield-unit-${++choices}`, inputs = {};
  const labels = Object.entries(UNITS).map(([unit, words]) => {
    inputs[unit] = node("input", { type: "radio", name, value: unit });
    inputs[unit].addEventListener("change", () => changed(unit));
    return node("label", {}, inputs[unit], words);
  });
  const box = node("fieldset", { class: "yield-units" }, node("legend", {}, "Costs in"), ...labels);
  return { box, show: (unit) => { for (const [own, input] of Object.entries(inputs)) input.checked = own === unit; } };
}
let choices = 0; // so that groups of radio buttons stay apart

function converted(setting, unit) {
  let costs;
  try {
    costs = read({ ...setting, unit: "ms" }).costs;
  } catch {
    return { unit }; // what can't be read is complained of where the results stand
  }
  const changed = unit === "steps" ? over : times;
  return { unit, ...Object.fromEntries(COSTS.map((key) => [key, typed(changed(costs[key], costs.baseline))])) };
}

// Labels name the unit; sliders go as far as it makes sense, and stand where a fraction says.
function fit_fields(setting, { inputs, holders }) {
  const steps = unit_of(setting) === "steps", words = UNITS[unit_of(setting)];
  for (const [key, label, kind] of GROUPS.flatMap(([, fields]) => fields)) {
    if (kind !== "range") continue;
    const slider = holders[key].querySelector("[type=range]"), cost = key !== "alpha" && key !== "gamma";
    if (cost) {
      const ms = !steps || key === "baseline", unit = ms ? "ms" : words, unused = steps && ms ? ": here the unit" : "";
      holders[key].querySelector("label").textContent = `${label}, ${unit}${unused}`;
      slider.setAttribute("aria-label", `${label}, ${unit}, slider`);
      Object.assign(slider, !ms ? { max: 4, step: 0.01 } : { max: 20, step: 0.1 });
    }
    try {
      slider.value = near(rational(label, setting[key]));
    } catch { /* complained of where the results stand */ }
  }
  const target = holders.baseline.querySelector("[type=range]");
  inputs.baseline.disabled = target.disabled = steps;
}

export const render = (where) => mounted(where, make);
