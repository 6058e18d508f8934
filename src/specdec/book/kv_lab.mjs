// The KV calculator's interface on the shared page of labs. kv_lab.py has the same keys and defaults.
import { entered, escaped, figure, head, mounted, node, picture, refill, table, text } from "./lab_page.mjs";
import {
  DTYPES, ENGINES, GIB, Ideal, Plan, Speculation, ValueError, available, bytes_per_token, decimals, engine, fixed_bytes,
  json, learn, parse, read, shown, size, with_dtypes,
} from "./kv_rules.mjs";

// ---- from a setting to a plan --------------------------------------------------------------------------------------------

const OPTIONS = {
  vllm: ["block", "hybrid", "batched_tokens", "state_blocks"],
  "llama.cpp": ["ubatch", "unified", "swa_full"],
};

// Decimal text times a unit, rounded down to a whole number of bytes.
function scaled(name, text, unit = GIB) {
  const [, before, after = ""] = /^\s*(\d+)(?:\.(\d*))?\s*$/.exec(text) ?? [];
  if (before === undefined) throw new ValueError(`${name} is ${text.trim() || "empty"}: give a number of GiB, such as 79.5`);
  return (BigInt(before + after) * unit) / 10n ** BigInt(after.length);
}

// Parameters as the model's name says it (8x7B: 56 billion); null where it doesn't.
export function parameters(name) {
  if (/-\d+E(?![A-Za-z0-9])/.test(name)) return null; // 17B-16E: of one expert in sixteen
  const [, times = "1", number, unit] = /(?:^|[^A-Za-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])/i.exec(name) ?? [];
  if (number === undefined) return null;
  return BigInt(times) * scaled("parameters", number, unit.toUpperCase() === "B" ? 10n ** 9n : 10n ** 6n);
}

const per = (number, ranks) => (number + ranks - 1n) / ranks;

// Bytes of weights on one rank, and where the number comes from. 2 bytes a parameter; the draft is split over tp alone, and
// charged on every stage: on all but the last that is too much.
function weights(setting, target, draft, tp, pp) {
  if (setting.weights.trim()) return [scaled("weights", setting.weights), "given"];
  const own = parameters(target.name), beside = draft ? parameters(draft.name) : 0n;
  const missing = [own === null && target.name, beside === null && draft.name].filter(Boolean);
  const bytes = per(2n * (own ?? 0n), tp * pp) + per(2n * (beside ?? 0n), tp);
  const where = draft && pp > 1n ? ", the draft's on every stage" : "";
  return [bytes, `assumed: 2 bytes for each parameter that the name says${where}`, missing];
}

function shape_of(setting, catalogue) {
  if (setting.config.trim()) return parse(setting.config);
  return named(setting.model, catalogue);
}

const shapes = {};
function named(name, catalogue) {
  if (!Object.hasOwn(catalogue, name)) throw new ValueError(`model ${name} is not in the catalogue: choose one, or paste its config.json`);
  return shapes[name] ??= read(catalogue[name], name);
}

// What a length and a number of sequences do not change; kept, with all that its plans have worked out, until something else does.
let last = { key: null };
function prepared(setting, catalogue) {
  const key = JSON.stringify({ ...setting, length: 0, sequences: 0 });
  if (last.key === key) return last;
  const number = (key, name, low) => entered(name, setting[key], low);
  const dtypes = { k: setting.k || null, v: setting.v || null };
  const target = with_dtypes(shape_of(setting, catalogue), dtypes);
  const options = {};
  for (const key of OPTIONS[setting.engine] ?? []) {
    if (["hybrid", "unified", "swa_full"].includes(key)) options[key] = setting[key] === "yes";
    else if (key !== "batched_tokens" || setting[key].trim()) options[key] = number(key, key.replace("_", " "), 1n);
  }
  const gamma = number("gamma", "gamma");
  const draft = gamma && setting.draft ? draft_of(setting, catalogue, dtypes) : null;
  const tp = number("tp", "tensor parallelism", 1n), pp = number("pp", "pipeline parallelism", 1n);
  if (pp > 1000n) throw new ValueError(`pipeline parallelism is ${pp}: more than 1000 stages are not shown here`);
  const shared = number("shared", "shared tokens"), profile = engine(setting.engine, options);
  const speculation = gamma ? Speculation(gamma, { draft }) : null;
  const planned = (engine, speculation) => new Plan(target, { engine, speculation, tp, pp, shared });
  const memory = scaled("memory", setting.memory), activations = scaled("activations", setting.activations);
  const utilisation = [number("utilisation", "utilisation", 1n), 100n];
  const [weight, origin, unnamed = []] = weights(setting, target, draft, tp, pp);
  const left = (weights) => available(memory, { weights, activations, utilisation });
  last = {
    key, target, draft, memory, activations, gamma, tp, pp, shared, weights: weight, origin, unnamed,
    plan: planned(profile, speculation), exact: planned(Ideal(), speculation), budget: left(weight),
    alone: gamma ? planned(profile, null) : null, alone_budget: left(weights(setting, target, null, tp, pp)[0]),
    reserve: memory - (memory * utilisation[0]) / 100n,
  };
  return last;
}

// Everything that the page shows of a setting, or an error.
export function computed(setting, catalogue) {
  const p = prepared(setting, catalogue), { plan, budget, alone } = p;
  const length = entered("length", setting.length, 1n), sequences = entered("sequences", setting.sequences);
  return {
    ...p, length, sequences, storage: plan.storage(length, sequences), ideal: p.exact.storage(length, sequences),
    one: plan.storage(length, 1n).bytes,
    most: plan.sequences(length, budget),
    longest: sequences ? plan.length(sequences, budget) : Infinity,
    without: alone && alone.sequences(length, p.alone_budget),
  };
}

// A draft without latent attention keeps its own dtype beside a target in fp8_ds_mla.
function draft_of(setting, catalogue, { k, v }) {
  const draft = named(setting.draft, catalogue);
  const fits = k !== "fp8_ds_mla" || draft.groups.some((group) => group.kind === "latent");
  return with_dtypes(draft, { k: fits ? k : null, v });
}

// ---- pictures --------------------------------------------------------------------------------------------------------------

const tokens = (number) => (number >= 2 ** 20 ? `${number / 2 ** 20}M` : number >= 1024 ? `${number / 1024}k` : `${number}`);

// A size in four letters or so, in binary units.
function brief(bytes) {
  const units = ["", "K", "M", "G", "T", "P", "E"];
  let value = Number(bytes), i = 0;
  while (value >= 999.5 && i < units.length - 1) [value, i] = [value / 1024, i + 1];
  return value >= 999.5 ? ">" : (value >= 9.95 || i === 0 ? value.toFixed(0) : value.toFixed(1)) + units[i];
}

const PARTS = ["weights", "activations", "target cache", "speculative slots", "draft cache", "row buffers", "waste by rounding", "free", "kept back"];

// The memory of one rank as parts that add up: what an engine takes beyond the ideal is waste, whichever part it is in. A draft
// whose layers fill what the target's groups waste can take less than nothing.
export function stacked(c) {
  const parts = { weights: c.weights, activations: c.activations, "waste by rounding": 0n };
  for (const [name, bytes] of Object.entries(c.storage.parts)) {
    const ideal = c.ideal.parts[name] ?? 0n;
    parts[name] = bytes < 0n ? 0n : bytes < ideal ? bytes : ideal;
    parts["waste by rounding"] += bytes - parts[name];
  }
  const left = c.budget - c.storage.bytes;
  Object.assign(parts, { free: left > 0n ? left : 0n, "kept back": c.reserve });
  return PARTS.filter((name) => parts[name] > 0n).map((name) => [name, parts[name]]);
}

function bar(c, width) {
  const parts = stacked(c), available = c.memory - c.reserve, over = c.storage.bytes - c.budget, fits = over <= 0n;
  const whole = over > c.reserve ? available + over : c.memory;
  const wide = (bytes) => (Number(bytes) / Number(whole)) * (width - 2), limit = wide(available) + 1;
  const excess = (x, y, width, height) => `<rect class="kv-frontier" x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${height}"/>`;
  let inside = "", letters = "", x = 1;
  parts.forEach(([name, bytes], i) => {
    const letter = "ABCDEFGHI"[i], own = wide(bytes), kind = PARTS.indexOf(name);
    const [top, high] = fits || name !== "kept back" ? [20, 34] : [58, 13]; // below what runs over it
    if (name === "kept back") x = limit;
    inside += `<rect class="kv-part kv-part-${kind}" x="${x.toFixed(1)}" y="${top}" width="${Math.max(own, 0.5).toFixed(1)}" height="${high}"/>`;
    if (own > 14) letters += text((x + own / 2).toFixed(1), top + high / 2 + 5, letter, 'text-anchor="middle" class="lab-strong lab-over"');
    x += own;
    const y = 84 + 22 * i;
    inside += `<rect class="kv-part kv-part-${kind}" x="1" y="${y - 13}" width="18" height="17"/>`;
    inside += text(32, y, letter, 'text-anchor="middle" class="lab-strong"') + text(44, y, name) + text(Math.min(width - 2, 420), y, size(bytes), 'text-anchor="end"');
  });
  inside += `<path class="kv-frontier" d="M${limit.toFixed(1)} 15V59"/>`;
  const near = limit > width / 2;
  inside += text(limit.toFixed(1), 11, `limit ${size(available)}`, `text-anchor="${near ? "end" : "start"}"`);
  const row = (name, bytes) => `${name} ${size(bytes)}`;
  const label = `Memory of one rank, ${fits ? "within its limit" : row("over its limit by", over)}: ${parts.map((part) => row(...part)).join(", ")}`;
  const rows = parts.length + (fits ? 0 : 1), y = 62 + 22 * rows;
  if (!fits) {
    inside += excess(limit, 20, wide(over), 34) + excess(2, y - 12, 16, 15);
    inside += text(44, y, "over the limit") + text(Math.min(width - 2, 420), y, size(over), 'text-anchor="end"');
  }
  return picture(width, 74 + 22 * rows, label, inside + letters);
}

const ROWS = 10;

// The map without its ring, which alone moves with a length and a number of sequences inside of it; and where the ring goes.
function heat(c, width, drawn) {
  const near = (number, usual, cells) => {
    const at = Math.log2(Math.max(1, Number(number)));
    return Math.max(0, Math.min(usual, Math.floor(at)), Math.ceil(at) - cells + 1);
  };
  const columns = width < 480 ? 8 : 12;
  const first = near(c.length, columns < 12 ? 10 : 9, columns), lowest = near(c.sequences, 0, ROWS);
  const left = 34, top = 34, wide = (width - left - 1) / columns, high = 24;
  const bottom = top + ROWS * high;
  const at = (number, begin) => Math.log2(Math.max(1, Number(number))) - begin + 0.5;
  const ring = [left + at(c.length, first) * wide, bottom - at(c.sequences, lowest) * high, Math.min(wide, high) / 2];
  const key = [c.key, width, first, lowest].join();
  if (key === drawn) return { key, ring };
  let inside = "", frontier = "", spoken = [];
  for (let i = 0; i < columns; i++) {
    const length = 2n ** BigInt(first + i), x = left + i * wide, middle = (x + wide / 2).toFixed(1);
    inside += text(middle, bottom + 14, tokens(Number(length)), 'text-anchor="middle"');
    if (length <= c.shared) continue;
    const most = c.plan.sequences(length, c.budget);
    let fitting = 0;
    for (let j = 0; j < ROWS; j++) {
      const number = 2n ** BigInt(lowest + j), y = bottom - (j + 1) * high;
      const bytes = c.plan.storage(length, number).bytes, fits = number <= most;
      if (fits) fitting = j + 1;
      const share = Math.min(1, Math.max(0, 1 + Math.log2(Number(bytes) / Number(c.budget)) / 12));
      inside += `<rect class="${fits ? "kv-cell" : "kv-over"}" x="${x.toFixed(1)}" y="${y}" width="${wide.toFixed(1)}" height="${high}"`
        + (fits ? ` fill-opacity="${(0.04 + 0.42 * share * share).toFixed(2)}"/>` : "/>");
      if (fits) inside += text(middle, y + 16, brief(bytes), 'text-anchor="middle"');
    }
    const y = bottom - fitting * high;
    frontier += `${frontier ? "L" : "M"}${x.toFixed(1)} ${y}H${(x + wide).toFixed(1)}`;
    inside += text(middle, top - 5, most === Infinity ? "∞" : brief_count(most), 'text-anchor="middle" class="lab-strong"');
    spoken.push(`${most === Infinity ? "any number" : shown(most)} at ${shown(length)} tokens`);
  }
  for (let j = 0; j < ROWS; j++) inside += text(left - 5, bottom - j * high - 8, 2 ** (lowest + j), 'text-anchor="end"');
  inside += `<path class="kv-frontier" d="${frontier}"/><circle class="kv-now"/>`;
  inside += text(left, 11, "sequences that fit at each length:") + text(width - 2, bottom + 30, "length in tokens", 'text-anchor="end"');
  inside += text(2, bottom + 30, "↑ sequences");
  const label = `Bytes of the cache over length and number of sequences. Fitting into the budget: ${spoken.join("; ")}.`;
  return { key, ring, svg: picture(width, bottom + 36, label, inside) };
}

const brief_count = (number) => (number < 10000n ? String(number) : number < 10n ** 7n ? `${number / 1000n}k` : number < 10n ** 10n ? `${number / 10n ** 6n}M` : ">");

// ---- the form --------------------------------------------------------------------------------------------------------------

const K_DTYPES = ["", ...Object.keys(DTYPES).filter((name) => name !== "fp8_128"), "fp8_ds_mla"];
const V_DTYPES = K_DTYPES.filter((name) => name !== "fp8_ds_mla");
const own = (name) => name || "model's own";
const groups = (names) => [
  ["Model", [
    ["model", "Model", "select", names.map((name) => [name, name])],
    ["config", "or paste its config.json", "area", "{ … }"],
    ["k", "Cache dtype of K", "select", K_DTYPES.map((name) => [name, own(name)])],
    ["v", "Cache dtype of V", "select", V_DTYPES.map((name) => [name, own(name)])],
  ]],
  ["Texts", [
    ["length", "Length in tokens", "log", 22],
    ["sequences", "Sequences at once", "log", 12],
    ["shared", "Shared prefix, tokens", "number"],
  ]],
  ["Speculation", [
    ["gamma", "Proposals a round (γ)", "number"],
    ["draft", "Draft model", "select", [["", "none (prompt lookup)"], ...names.map((name) => [name, name])]],
  ]],
  ["Engine", [
    ["engine", "Allocation rules of", "select", Object.keys(ENGINES).map((name) => [name, ENGINES[name]().name])],
    ["block", "Tokens a block", "number"],
    ["batched_tokens", "Batched tokens (if reserved)", "number", "none"],
    ["state_blocks", "Blocks of a state (vLLM's default with prefix caching since early 2026: 2)", "number"],
    ["hybrid", "Hybrid cache manager", "check"],
    ["ubatch", "Micro-batch (ubatch)", "number"],
    ["unified", "Unified cache (kv-unified)", "check"],
    ["swa_full", "Windows in full (swa-full)", "check"],
  ]],
  ["Machine", [
    ["memory", "Memory of one GPU, GiB", "number"],
    ["utilisation", "Utilisation, %", "number"],
    ["weights", "Weights on one GPU, GiB", "number", "assumed"],
    ["activations", "Activations' peak, GiB", "number"],
    ["tp", "Tensor parallel ranks", "number"],
    ["pp", "Pipeline stages", "number"],
  ]],
];

// What depends on a setting in the form.
function follow(setting, { inputs, holders }) {
  for (const [name, keys] of Object.entries(OPTIONS)) for (const key of keys) holders[key].hidden = setting.engine !== name;
  inputs.model.disabled = setting.config.trim() !== "";
  inputs.draft.disabled = /^\s*0*\s*$/.test(setting.gamma);
}

// ---- what is shown -------------------------------------------------------------------------------------------------------

const number_of = (value) => (value === Infinity ? "no limit" : shown(value));

function answers(c) {
  const fixed = fixed_bytes(c.target, c.tp), one = bytes_per_token(c.target, c.tp);
  const exact = (bytes) => `${shown(bytes)} B${bytes >= 1024n ? ` = ${size(bytes)}` : ""}`;
  const most = c.unnamed.length ? "at most " : ""; // with weights that are not known, counted as 0
  const stages = c.pp > 1n ? ", all stages" : "";
  const rows = [
    [`Bytes per token${stages}`, exact(one)],
    [`Fixed bytes per sequence${stages}`, exact(fixed)],
    ["One sequence of this length", exact(c.one)],
    [`Total for ${shown(c.sequences)} sequences`, exact(c.storage.bytes)],
    ["Budget for caches", most + exact(c.budget)],
    ["Sequences that fit at this length", most + number_of(c.most)],
    ["Longest length for so many sequences", most + number_of(c.longest)],
  ];
  if (c.draft) rows.splice(2, 0, ["Draft: bytes per token, fixed bytes", `${shown(bytes_per_token(c.draft, c.tp))} B, ${shown(fixed_bytes(c.draft, c.tp))} B`]);
  if (c.without !== null) {
    const cost = c.without === Infinity || c.most === Infinity ? "" : `; speculation costs ${shown(c.without - c.most)}`;
    rows.push(["Sequences without speculation", `${number_of(c.without)}${cost}`]);
  }
  rows.push(["Weights on one rank", `${exact(c.weights)} (${c.origin})`]);
  return rows;
}

function steps(c) {
  return [
    ...c.storage.lines.map((line) => [line.label, line.formula, ...both(line.bytes)]),
    ["total", "", ...both(c.storage.bytes)],
  ];
}
const both = (bytes) => [shown(bytes), decimals(bytes, GIB), decimals(bytes, 10n ** 9n)];

function panel() {
  const parts = {
    total: node("p", { class: "lab-total" }),
    warnings: node("ul", { class: "kv-warnings", "aria-label": "Warnings" }),
    answers: node("tbody"),
    bar: node("div"),
    heat: node("div"),
    steps: node("tbody"),
  };
  const results = node("div", { class: "kv-results" },
    parts.total, parts.warnings, table("On the fullest rank", parts.answers),
    figure(parts.bar, "The memory of one rank. Waste by rounding is what the engine allocates beyond the ideal."),
    figure(parts.heat, "What all sequences take together, in KiB to EiB. Above the thick line, hatched, it does not fit. The ring is this setting."),
    table("The total, line by line", head("what", "how", "bytes", "GiB", "GB"), parts.steps));
  return { ...parts, results };
}

// Draws a setting into a panel; returns what to say.
function draw(parts, setting, catalogue, width) {
  const c = computed(setting, catalogue);
  const fits = c.storage.bytes <= c.budget;
  const total = `${size(c.storage.bytes)} for ${shown(c.sequences)} sequences of ${shown(c.length)} tokens: ${fits ? "fits" : "does not fit"}`;
  parts.total.textContent = total;
  const missing = c.unnamed.map((name) => `${name} does not say how many parameters it has: its weights are counted as 0, so give them`);
  parts.warnings.replaceChildren(...[...c.storage.warnings, ...missing].map((words) => node("li", {}, words)));
  refill(parts.answers, answers(c));
  parts.bar.innerHTML = bar(c, width);
  const { key, ring, svg } = heat(c, width, parts.drawn);
  if (svg) parts.heat.innerHTML = svg;
  parts.drawn = key;
  const circle = parts.heat.querySelector(".kv-now");
  ["cx", "cy", "r"].forEach((name, i) => circle.setAttribute(name, ring[i].toFixed(1)));
  refill(parts.steps, steps(c));
  return `${total}; ${number_of(c.most)} sequences would fit`;
}

const STYLE = `
.kv-warnings:empty { display: none; }
.lab-key-model, .lab-key-draft { grid-template-columns: minmax(0, 1fr); }
.kv-cell { fill: var(--blue); stroke: currentColor; stroke-opacity: 0.15; }
.kv-over { fill: var(--hatch); fill-opacity: 0.35; stroke: currentColor; stroke-opacity: 0.15; }
.kv-frontier { fill: none; stroke: var(--orange); stroke-width: 3; }
.kv-now { fill: none; stroke: currentColor; stroke-width: 3; }
.kv-part { stroke: currentColor; stroke-width: 1; }
.kv-part-0 { fill: var(--blue); fill-opacity: 0.55; }
.kv-part-1 { fill: var(--hatch-orange); }
.kv-part-2 { fill: var(--dots-green); }
.kv-part-3 { fill: var(--purple); fill-opacity: 0.45; } .kv-part-4 { fill: var(--hatch-purple); } .kv-part-5 { fill: var(--dots-purple); }
.kv-part-6 { fill: var(--hatch); }
.kv-part-7, .kv-part-8 { fill: none; stroke: var(--grey); }
.kv-part-8 { stroke-dasharray: 3 3; }
.kv-lab tbody th { min-width: 7rem; }
.kv-lab td:nth-child(2) { min-width: 11rem; }
.kv-lab :is(thead th, td):nth-child(n+3) { text-align: right; white-space: nowrap; }
`;

// `data` is JSON text, since its numbers become BigInt: the catalogue's configs, and the rules' tables.
export const render = (given) => mounted(given, (data) => {
  const { tables, models: catalogue } = json(data), parts = panel();
  learn(tables);
  return {
    name: "kv", groups: groups(Object.keys(catalogue)), follow, results: parts.results, style: STYLE,
    draw: (setting, width) => draw(parts, setting, catalogue, width),
  };
});
