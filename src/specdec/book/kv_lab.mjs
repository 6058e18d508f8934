// The KV calculator's interface. One module for both places: in Jupyter anywidget calls the default export's `render`; on the
// static page book/site.py puts the module into the page and calls `start`, and the page's address takes the kernel's place.
// A setting is an object of strings, as fields and addresses hold it; kv_lab.py has the same keys and defaults.
import {
  DTYPES, ENGINES, GIB, Ideal, Plan, Speculation, ValueError, available, bytes_per_token, decimals, engine, fixed_bytes,
  json, learn, parse, read, shown, size, with_dtypes,
} from "./kv_rules.mjs";

// ---- from a setting to a plan --------------------------------------------------------------------------------------------

const OPTIONS = {
  vllm: ["block", "hybrid", "batched_tokens", "state_blocks"],
  "llama.cpp": ["ubatch", "unified", "swa_full"],
};

function entered(name, text, low = 0n) {
  const plain = text.trim().replace(/[ _,](?=\d{3}(\D|$))/g, "");
  if (!/^\d+$/.test(plain)) throw new ValueError(`${name} is ${text.trim() || "empty"}: give a whole number of at least ${low}`);
  if (BigInt(plain) < low) throw new ValueError(`${name} is ${plain}: it must be at least ${low}`);
  return BigInt(plain);
}

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

const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const text = (x, y, words, more = "") => `<text x="${x}" y="${y}" ${more}>${escaped(words)}</text>`;
const picture = (width, height, label, inside) =>
  `<svg role="img" aria-label="${escaped(label)}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">${inside}</svg>`;
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
  const parts = stacked(c);
  const over = c.storage.bytes > c.budget;
  const whole = Number(parts.reduce((sum, [, bytes]) => sum + bytes, 0n));
  const wide = (bytes) => (Number(bytes) / whole) * (width - 2);
  let inside = "", x = 1;
  parts.forEach(([name, bytes], i) => {
    const letter = "ABCDEFGHI"[i], own = wide(bytes), kind = PARTS.indexOf(name);
    inside += `<rect class="kv-part kv-part-${kind}" x="${x.toFixed(1)}" y="20" width="${Math.max(own, 0.5).toFixed(1)}" height="34"/>`;
    if (own > 14) inside += text((x + own / 2).toFixed(1), 42, letter, 'text-anchor="middle" class="kv-strong"');
    x += own;
    const y = 84 + 22 * i;
    inside += `<rect class="kv-part kv-part-${kind}" x="1" y="${y - 13}" width="18" height="17"/>${text(10, y, letter, 'text-anchor="middle" class="kv-strong"')}`;
    inside += text(28, y, name) + text(Math.min(width - 2, 420), y, size(bytes), 'text-anchor="end"');
  });
  const limit = wide(c.memory - c.reserve) + 1;
  inside += `<path class="kv-frontier" d="M${limit.toFixed(1)} 15V59"/>`;
  const near = limit > width / 2;
  inside += text(limit.toFixed(1), 11, `limit ${size(c.memory - c.reserve)}`, `text-anchor="${near ? "end" : "start"}"`);
  const label = `Memory of one rank, ${over ? "more than there is" : "within its limit"}: `
    + parts.map(([name, bytes]) => `${name} ${size(bytes)}`).join(", ");
  return picture(width, 74 + 22 * parts.length, label, inside);
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
    inside += text(middle, top - 5, most === Infinity ? "∞" : brief_count(most), 'text-anchor="middle" class="kv-strong"');
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
// [group, [key, label, kind, choices or placeholder or the slider's end]]; `log` is a slider over powers of two with a field for exact numbers.
const FIELDS = [
  ["Model", [
    ["model", "Model", "models"],
    ["config", "or paste its config.json", "area"],
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
    ["draft", "Draft model", "drafts"],
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

function node(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

let forms = 0; // so that ids stay apart

// The fields and buttons; `changed(key, value)` hears of every change, `buttons` are [words, what a press does; it may return what
// to say]. Returns the form, and a function that shows a setting.
function controls(names, changed, buttons) {
  const prefix = `kv-${++forms}-`, inputs = {}, holders = {}, sliders = {};
  const form = node("form", { class: "kv-form" });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const [legend, fields] of FIELDS) {
    const group = node("fieldset", {}, node("legend", {}, legend));
    for (const [key, label, kind, more] of fields) {
      const id = prefix + key;
      const choices = { select: more, models: names.map((name) => [name, name]), drafts: [["", "none (prompt lookup)"], ...names.map((name) => [name, name])] }[kind];
      let input;
      if (choices) input = node("select", { id }, ...choices.map(([value, words]) => node("option", { value }, words)));
      else if (kind === "area") input = node("textarea", { id, rows: 3, spellcheck: "false", placeholder: "{ … }" });
      else if (kind === "check") input = node("input", { id, type: "checkbox" });
      else input = node("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", placeholder: kind === "number" ? more ?? null : null });
      const holder = node("div", { class: `kv-field kv-${kind}` }, node("label", { for: id }, label), input);
      input.addEventListener("input", () => changed(key, kind === "check" ? (input.checked ? "yes" : "") : input.value));
      if (kind === "log") {
        const slider = node("input", { type: "range", min: 0, max: more, step: 0.25, "aria-label": `${label}, slider` });
        slider.addEventListener("input", () => changed(key, String(Math.round(2 ** Number(slider.value)))));
        holder.append(slider);
        sliders[key] = slider;
      }
      inputs[key] = input, holders[key] = holder;
      group.append(holder);
    }
    form.append(group);
  }
  const said = node("output");
  const pressed = buttons.map(([words, press]) => {
    const button = node("button", { type: "button" }, words);
    button.addEventListener("click", async () => {
      said.textContent = ""; // so that the same words are said again
      said.textContent = (await press()) ?? "";
    });
    return button;
  });
  form.append(node("p", { class: "kv-buttons" }, ...pressed, said));
  function show(setting) {
    said.textContent = "";
    for (const [key, input] of Object.entries(inputs)) {
      if (input.type === "checkbox") input.checked = setting[key] === "yes";
      else if (input.value !== setting[key]) input.value = setting[key];
    }
    for (const [key, slider] of Object.entries(sliders)) {
      const value = Number(setting[key]);
      if (value >= 1) slider.value = Math.log2(value);
      slider.setAttribute("aria-valuetext", setting[key]);
    }
    for (const [name, keys] of Object.entries(OPTIONS)) for (const key of keys) holders[key].hidden = setting.engine !== name;
    inputs.model.disabled = setting.config.trim() !== "";
    inputs.draft.disabled = /^\s*0*\s*$/.test(setting.gamma);
  }
  return { form, show, inputs };
}

// ---- what is shown -------------------------------------------------------------------------------------------------------

const row = (...cells) => node("tr", {}, ...cells.map((cell, i) => node(i ? "td" : "th", i ? {} : { scope: "row" }, cell)));

// A table's rows of texts; cells that stay the same are left alone, which is most of them and spares the browser the most.
function refill(body, rows) {
  while (body.rows.length > rows.length) body.lastChild.remove();
  rows.forEach((cells, i) => {
    if (!body.rows[i]) body.append(row(...cells));
    cells.forEach((text, j) => { if (body.rows[i].cells[j].textContent !== text) body.rows[i].cells[j].textContent = text; });
  });
}
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
    error: node("p", { class: "kv-error", role: "alert" }),
    total: node("p", { class: "kv-total" }),
    spoken: node("p", { class: "kv-spoken", role: "status" }),
    warnings: node("ul", { class: "kv-warnings", "aria-label": "Warnings" }),
    answers: node("tbody"),
    bar: node("div"),
    heat: node("div"),
    steps: node("tbody"),
  };
  const table = (caption, ...inside) => node("div", { class: "kv-table", tabindex: 0, role: "region", "aria-label": caption },
    node("table", {}, node("caption", {}, caption), ...inside));
  const figure = (drawing, caption) => node("figure", {}, drawing, node("figcaption", {}, caption));
  const heads = ["what", "how", "bytes", "GiB", "GB"].map((name) => node("th", { scope: "col" }, name));
  const results = node("div", { class: "kv-results" },
    parts.total, parts.warnings, table("On the fullest rank", parts.answers),
    figure(parts.bar, "The memory of one rank. Waste by rounding is what the engine allocates beyond the ideal."),
    figure(parts.heat, "What all sequences take together, in KiB to EiB. Above the thick line, hatched, it does not fit. The ring is this setting."),
    table("The total, line by line", node("thead", {}, node("tr", {}, ...heads)), parts.steps));
  return { ...parts, results, whole: node("div", { class: "kv-panel" }, parts.error, parts.spoken, results) };
}

// Draws a setting into a panel; an error takes the place of all numbers.
function draw(parts, setting, catalogue, width) {
  let c;
  try {
    c = computed(setting, catalogue);
  } catch (error) {
    const words = error instanceof ValueError ? error.message : `the calculator failed: ${error.message}`;
    if (parts.error.textContent !== words) parts.error.textContent = words; // else it would be read out again
    parts.results.hidden = true;
    return "";
  }
  parts.error.textContent = "";
  parts.results.hidden = false;
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
.kv-lab { color: inherit; margin: 1rem 0; }
.kv-lab [hidden] { display: none !important; }
.kv-form { columns: 2 18rem; column-gap: 0.75rem; }
.kv-form fieldset { border: 1px solid var(--pst-color-border, #8888); border-radius: 0.4rem; padding: 0.25rem 0.75rem 0.6rem;
  margin: 0 0 0.75rem; min-width: 0; break-inside: avoid; }
.kv-form legend { float: none; width: auto; font-size: 1em; font-weight: 600; margin: 0; padding: 0 0.3rem; }
.kv-field { display: grid; grid-template-columns: minmax(0, 1fr) 8.5rem; gap: 0.15rem 0.6rem; align-items: center; margin: 0.3rem 0; }
.kv-field label { margin: 0; }
.kv-field :is(input, select, textarea) { box-sizing: border-box; width: 100%; font: inherit; color: inherit; background: transparent;
  border: 1px solid var(--pst-color-text-muted, #888); border-radius: 0.25rem; padding: 0.15rem 0.4rem; }
.kv-field option { color: CanvasText; background: Canvas; }
.kv-field :disabled { opacity: 0.5; }
.kv-models, .kv-drafts, .kv-area { grid-template-columns: minmax(0, 1fr); }
.kv-area textarea { font-family: monospace; font-size: 0.85em; resize: vertical; }
.kv-check input { width: 1.2rem; height: 1.2rem; }
.kv-log input[type=range] { grid-column: 1 / -1; padding: 0; accent-color: #1b7bbf; }
.kv-buttons { display: flex; flex-wrap: wrap; gap: 0.6rem; align-items: center; margin: 0; break-inside: avoid; }
.kv-buttons button { font: inherit; color: inherit; background: transparent; border: 1px solid var(--pst-color-text-muted, #888);
  border-radius: 0.25rem; padding: 0.2rem 0.8rem; cursor: pointer; }
.kv-lab :is(input, select, textarea, button, .kv-table):focus-visible { outline: 3px solid var(--pst-color-link, #1b7bbf); outline-offset: 2px; }
.kv-panel { margin-top: 1rem; contain: layout style; }
.kv-total { font-size: 1.25em; font-weight: 600; margin: 0.5rem 0; }
.kv-error:not(:empty) { border: 2px solid currentColor; border-left-width: 0.6rem; padding: 0.5rem 0.75rem; overflow-wrap: anywhere; }
.kv-spoken { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.kv-warnings:empty { display: none; }
.kv-lab figure { margin: 1rem 0; }
.kv-lab figcaption { color: inherit; font-size: 0.9em; font-weight: normal; text-align: left; }
.kv-lab svg { display: block; max-width: 100%; height: auto; }
.kv-lab svg text { fill: currentColor; font-size: 12px; font-family: inherit; }
.kv-narrow svg text { font-size: 11px; }
.kv-lab svg .kv-strong { font-weight: 600; }
.kv-cell { fill: #1b7bbf; stroke: currentColor; stroke-opacity: 0.15; }
.kv-over { fill: url(#kv-hatch); stroke: currentColor; stroke-opacity: 0.15; }
.kv-frontier { fill: none; stroke: currentColor; stroke-width: 3; }
.kv-now { fill: none; stroke: #d55e00; stroke-width: 3; }
.kv-part { stroke: currentColor; stroke-width: 1; fill-opacity: 0.45; }
.kv-part-0 { fill: #808080; } .kv-part-1 { fill: #b565a7; } .kv-part-2 { fill: #1b7bbf; } .kv-part-3 { fill: #009e73; }
.kv-part-4 { fill: #d55e00; } .kv-part-5 { fill: #e6b800; } .kv-part-6 { fill: url(#kv-hatch); fill-opacity: 1; }
.kv-part-7 { fill: none; } .kv-part-8 { fill: none; stroke-dasharray: 3 3; }
.kv-table { overflow-x: auto; margin: 0.5rem 0 1rem; position: relative; }
.kv-table table { width: auto; margin: 0; border-collapse: collapse; color: inherit; font-size: 0.9em; }
.kv-table caption { caption-side: top; text-align: left; color: inherit; font-weight: 600; padding: 0 0 0.3rem; }
.kv-table :is(th, td) { padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; color: inherit; background: transparent; border: 0;
  border-bottom: 1px solid var(--pst-color-border, #8888); font-variant-numeric: tabular-nums; }
.kv-table tbody th { font-weight: normal; min-width: 7rem; }
.kv-table td:nth-child(2) { min-width: 11rem; }
.kv-table thead :is(th:nth-child(n+3)), .kv-table td:nth-child(n+3) { text-align: right; white-space: nowrap; }
`;
const HATCH = `<svg aria-hidden="true" width="0" height="0" style="position:absolute"><defs><pattern id="kv-hatch" width="6" height="6"
  patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" stroke="currentColor" stroke-opacity="0.45" stroke-width="1.5"/></pattern></defs></svg>`;

// ---- where it runs ---------------------------------------------------------------------------------------------------------

// Fills an element. `model` is anywidget's, or the address. It holds `setting`, and `data`: the catalogue's configs and the
// rules' tables, as JSON text, since its numbers become BigInt. An address has a `preset`, which
// it may have replaced, and is `listed` if it is the page's own: then `link` gives a setting's.
function render({ model, el }) {
  const { tables, models: catalogue } = json(model.get("data"));
  learn(tables);
  const parts = panel();
  const preset = model.preset ?? model.get("setting");
  let setting = { ...model.get("setting") }, told = 0, width = 0;
  async function copy() {
    try {
      await navigator.clipboard.writeText(model.link(setting));
      return "copied";
    } catch {
      return "not copied, as the browser does not allow it: the address of this page is the link";
    }
  }
  const buttons = [["Reset", () => update({ ...preset }, true)], ...(model.listed ? [["Copy link", copy]] : [])];
  const form = controls(Object.keys(catalogue), (key, value) => update({ ...setting, [key]: value }, true), buttons);
  function update(next, save) {
    setting = next;
    form.show(setting);
    const words = draw(parts, setting, catalogue, width);
    clearTimeout(told); // read out and saved when the hand rests
    told = setTimeout(() => {
      parts.spoken.textContent = words;
      if (save) model.set("setting", setting), model.save_changes();
    }, 250);
  }
  const heard = () => {
    if (JSON.stringify(model.get("setting")) !== JSON.stringify(setting)) update({ ...setting, ...model.get("setting") }, false);
  };
  model.on("change:setting", heard);
  const style = node("style", {}, STYLE), hatch = node("div");
  hatch.innerHTML = HATCH;
  el.classList.add("kv-lab");
  el.replaceChildren(style, hatch, form.form, parts.whole);
  const fit = () => {
    const room = Math.round(Math.max(300, Math.min(720, el.clientWidth || 720)));
    if (room === width) return;
    width = room;
    el.classList.toggle("kv-narrow", room < 480);
    draw(parts, setting, catalogue, width);
  };
  form.show(setting);
  fit();
  const watch = new ResizeObserver(fit);
  watch.observe(el);
  return () => { watch.disconnect(), clearTimeout(told), model.off("change:setting", heard); };
}

// The page's address as a model: `#kv:length=8192&...` holds what is set, all of it, so that a link means the same later.
class Address {
  constructor(state, listed) {
    Object.assign(this, { state, listed, preset: state.setting, hear: null });
    this.read();
    if (listed) addEventListener("hashchange", () => { this.read(); this.hear?.(); });
  }
  read() {
    if (!this.listed || !location.hash.startsWith("#kv:")) return;
    const given = Object.fromEntries(new URLSearchParams(location.hash.slice(4)));
    const known = Object.keys(this.preset).filter((key) => Object.hasOwn(given, key));
    this.state.setting = { ...this.preset, ...Object.fromEntries(known.map((key) => [key, given[key]])) };
  }
  get(key) { return this.state[key]; }
  set(key, value) { this.state[key] = value; }
  on(_, hear) { this.hear = hear; }
  off() { this.hear = null; }
  link(setting) { return `${location.href.split("#")[0]}#kv:${new URLSearchParams(setting)}`; }
  save_changes() {
    if (this.listed) history.replaceState(history.state, "", this.link(this.state.setting));
  }
}

// On a static page: put a calculator into every form that Python left; the first one has the address.
export function start(data) {
  document.querySelectorAll("[data-kv-setting]").forEach((el, i) => {
    const setting = JSON.parse(el.dataset.kvSetting);
    render({ model: new Address({ setting, data }, i === 0), el });
  });
}

export default { render };
