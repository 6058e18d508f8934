// What every in-page lab shares. In Jupyter anywidget calls a lab's `render`; on the static page book/site.py puts this text and
// the labs' into the page and calls `start`, and the page's address takes the kernel's place. See lab.py, the other half.
// A setting is an object of strings, as fields and addresses hold it.

// Told to the reader in the place of all results. By its name, since a lab's rules may have a class of their own.
export class ValueError extends Error {
  name = "ValueError";
}

// ---- what is typed -------------------------------------------------------------------------------------------------------

// A whole number, as a BigInt.
export function entered(name, text, low = 0n, high = null) {
  const plain = text.trim().replace(/[ _,](?=\d{3}(\D|$))/g, "");
  if (!/^\d+$/.test(plain)) throw new ValueError(`${name} is ${text.trim() || "empty"}: give a whole number of at least ${low}`);
  if (BigInt(plain) < low) throw new ValueError(`${name} is ${plain}: it must be at least ${low}`);
  if (high !== null && BigInt(plain) > high) throw new ValueError(`${name} is ${plain}: it must be at most ${high}`);
  return BigInt(plain);
}

// A decimal number from low to high, as a Number.
export function real(name, text, low = 0, high = Infinity) {
  const limits = high === Infinity ? `of at least ${low}` : `from ${low} to ${high}`, plain = text.trim();
  if (!/^-?(\d+\.?\d*|\.\d+)$/.test(plain)) throw new ValueError(`${name} is ${plain || "empty"}: give a number ${limits}`);
  if (Number(plain) < low || Number(plain) > high) throw new ValueError(`${name} is ${plain}: give a number ${limits}`);
  return Number(plain);
}

// ---- elements and drawings -----------------------------------------------------------------------------------------------

export function node(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

export const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
export const text = (x, y, words, more = "") => `<text x="${x}" y="${y}" ${more}>${escaped(words)}</text>`;
export const picture = (width, height, label, inside) =>
  `<svg role="img" aria-label="${escaped(label)}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">${inside}</svg>`;
export const figure = (drawing, caption) => node("figure", {}, drawing, node("figcaption", {}, caption));

// A table that scrolls by itself.
export const table = (caption, ...inside) => node("div", { class: "lab-table", tabindex: 0, role: "region", "aria-label": caption },
  node("table", {}, node("caption", {}, caption), ...inside));
export const head = (...names) => node("thead", {}, node("tr", {}, ...names.map((name) => name ? node("th", { scope: "col" }, name) : node("td"))));

const row = (cells) => node("tr", {}, ...cells.map((cell, i) => node(i ? "td" : "th", i ? {} : { scope: "row" }, cell)));

// A tbody's rows of texts; cells that stay the same are left alone, which is most of them and spares the browser the most.
export function refill(body, rows) {
  while (body.rows.length > rows.length) body.lastChild.remove();
  rows.forEach((cells, i) => {
    if (body.rows[i]?.cells.length !== cells.length) body.rows[i] ? body.rows[i].replaceWith(row(cells)) : body.append(row(cells));
    cells.forEach((text, j) => { if (body.rows[i].cells[j].textContent !== text) body.rows[i].cells[j].textContent = text; });
  });
}

// ---- the form ------------------------------------------------------------------------------------------------------------

// Sliders beside a field for exact numbers. `log` goes over powers of two up to 2 ** more, `range` over more = [low, high, step].
const SLIDERS = {
  log: { ends: (more) => [0, more, 0.25], place: (text) => Math.log2(Number(text)), text: (place) => String(Math.round(2 ** Number(place))) },
  range: { ends: (more) => more, place: (text) => (text.trim() ? Number(text) : NaN), text: String },
};

// The field of one key. `kind` is select (more: [value, words] pairs), area, check, number (more: a placeholder), log or range.
function field(id, [key, label, kind, more], changed) {
  let input;
  if (kind === "select") input = node("select", { id }, ...more.map(([value, words]) => node("option", { value }, words)));
  else if (kind === "area") input = node("textarea", { id, rows: 3, spellcheck: "false", placeholder: more ?? null });
  else if (kind === "check") input = node("input", { id, type: "checkbox" });
  else input = node("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", placeholder: kind === "number" ? more ?? null : null });
  input.addEventListener("input", () => changed(key, kind === "check" ? (input.checked ? "yes" : "") : input.value));
  const holder = node("div", { class: `lab-field lab-${kind} lab-key-${key}` }, node("label", { for: id }, label), input);
  const slide = SLIDERS[kind];
  if (!slide) return { input, holder };
  const [min, max, step] = slide.ends(more);
  const slider = node("input", { type: "range", min, max, step, "aria-label": `${label}, slider` });
  slider.addEventListener("input", () => changed(key, slide.text(slider.value)));
  holder.append(slider);
  const move = (value) => {
    const place = slide.place(value);
    if (Number.isFinite(place)) slider.value = place;
    slider.setAttribute("aria-valuetext", value);
  };
  return { input, holder, move };
}

let forms = 0; // so that ids stay apart

// The form of [legend, fields] groups, the lab's own controls below, then buttons: [words, what a press does; it may return what
// to say]. Returns it, a function that shows a setting, and the inputs and their holders by key.
function controls(groups, own, changed, buttons) {
  const prefix = `lab-${++forms}-`, fields = {}, said = node("output");
  const form = node("form", { class: "lab-form" });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const [legend, members] of groups) {
    for (const member of members) fields[member[0]] = field(prefix + member[0], member, changed);
    form.append(node("fieldset", {}, node("legend", {}, legend), ...members.map(([key]) => fields[key].holder)));
  }
  const pressed = buttons.map(([words, press]) => {
    const button = node("button", { type: "button" }, words);
    button.addEventListener("click", async () => {
      said.textContent = ""; // so that the same words are said again
      said.textContent = (await press()) ?? "";
    });
    return button;
  });
  form.append(...own, node("p", { class: "lab-buttons" }, ...pressed, said));
  function show(setting) {
    said.textContent = "";
    for (const [key, { input, move }] of Object.entries(fields)) {
      if (input.type === "checkbox") input.checked = setting[key] === "yes";
      else if (input.value !== setting[key]) input.value = setting[key];
      move?.(setting[key]);
    }
  }
  const of = (what) => Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, field[what]]));
  return { form, show, inputs: of("input"), holders: of("holder") };
}

// ---- a lab's life --------------------------------------------------------------------------------------------------------

const STYLE = `
/* The figures' colours, as book.mplstyle has them; a test compares the two. */
.book-lab { --blue: #1193ff; --orange: #d17c0f; --green: #2b7456; --purple: #825790; --grey: #909099; color: inherit; margin: 1rem 0; }
.book-lab [hidden] { display: none !important; }
.lab-form { columns: 2 18rem; column-gap: 0.75rem; }
.lab-form fieldset { border: 1px solid var(--pst-color-border, #8888); border-radius: 0.4rem; padding: 0.25rem 0.75rem 0.6rem;
  margin: 0 0 0.75rem; min-width: 0; break-inside: avoid; }
.lab-form legend { float: none; width: auto; font-size: 1em; font-weight: 600; margin: 0; padding: 0 0.3rem; }
.lab-field { display: grid; grid-template-columns: minmax(0, 1fr) 8.5rem; gap: 0.15rem 0.6rem; align-items: center; margin: 0.3rem 0; }
.book-lab label { margin: 0; }
.book-lab :is(input:not([type=range]), select, textarea) { box-sizing: border-box; width: 100%; font: inherit; color: inherit;
  background: transparent; border: 1px solid var(--pst-color-text-muted, #888); border-radius: 0.25rem; padding: 0.15rem 0.4rem; }
.book-lab :is(input[type=text], select) { min-height: 2.1em; } /* alike: a select has its own height of lines */
.book-lab ::placeholder { color: inherit; opacity: 0.7; }
.book-lab option { color: CanvasText; background: Canvas; }
.book-lab :disabled { opacity: 0.5; }
.lab-area { grid-template-columns: minmax(0, 1fr); }
.lab-area textarea { font-family: monospace; font-size: 0.85em; resize: vertical; }
.lab-check input { width: 1.2rem !important; height: 1.2rem; }
.book-lab input[type=range] { box-sizing: border-box; width: 100%; margin: 0; padding: 0; accent-color: var(--pst-color-link, var(--blue)); }
.lab-field input[type=range] { grid-column: 1 / -1; }
.lab-buttons { column-span: all; padding-top: 0.75rem; }
.lab-buttons, .lab-presets { display: flex; flex-wrap: wrap; gap: 0.4rem 0.6rem; align-items: center; margin: 0; break-inside: avoid; }
.lab-presets { margin: 0 0 0.75rem; }
.lab-narrow .lab-presets button { min-height: 44px; font-size: 0.85em; padding: 0.2rem 0.6rem; }
.book-lab button { font: inherit; color: inherit; background: transparent; border: 1px solid var(--pst-color-text-muted, #888);
  border-radius: 0.25rem; padding: 0.2rem 0.8rem; cursor: pointer; }
.book-lab button[aria-pressed=true] { box-shadow: inset 0 0 0 2px currentColor; }
.book-lab :is(input, select, textarea, button, .lab-table, [tabindex]):focus-visible { outline: 3px solid var(--pst-color-link, var(--blue));
  outline-offset: 2px; }
.lab-panel { margin-top: 1rem; contain: layout style; }
.lab-total { font-size: 1.25em; font-weight: 600; margin: 0.5rem 0; }
.lab-error:not(:empty) { border: 2px solid currentColor; border-left-width: 0.6rem; padding: 0.5rem 0.75rem; overflow-wrap: anywhere; }
.lab-spoken { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.book-lab figure { margin: 1rem 0; padding: 0; }
.book-lab figcaption { margin-top: 0.4rem; padding: 0; color: inherit; font-size: 0.9em; font-weight: normal; text-align: left; }
.book-lab svg { display: block; max-width: 100%; height: auto; }
.book-lab svg text { fill: currentColor; font-size: 12px; font-family: inherit; }
.lab-narrow svg text { font-size: 11px; }
.book-lab svg .lab-strong { font-weight: 600; }
/* Words on a pattern or a line keep a rim of the page's own colour. */
.book-lab svg .lab-over { paint-order: stroke; stroke: var(--pst-color-background, var(--jp-layout-color0, transparent)); stroke-width: 4px; stroke-linejoin: round; }
.lab-table { overflow-x: auto; margin: 0.5rem 0 1rem; position: relative; }
.lab-table table { width: auto; margin: 0; border-collapse: collapse; color: inherit; font-size: 0.9em; }
.lab-table caption { caption-side: top; text-align: left; color: inherit; font-weight: 600; padding: 0 0 0.3rem; }
.lab-table :is(th, td) { padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; color: inherit; background: transparent; border: 0;
  border-bottom: 1px solid var(--pst-color-border, #8888); font-variant-numeric: tabular-nums; }
.lab-table tbody th { font-weight: normal; }
@media (prefers-reduced-motion: reduce) { .book-lab * { transition: none !important; animation: none !important; } }
@media print { .lab-buttons, .lab-presets, .book-lab input[type=range] { display: none; } .book-lab :is(figure, tr) { break-inside: avoid; } }
`;

// Patterns, so that nothing is told by colour alone: var(--hatch), var(--dots), or var(--hatch-orange) as a fill in a lab's styles.
const PATTERNS = {
  hatch: [45, '<path d="M3 0V6" fill="none" stroke="currentColor" stroke-width="2"/>'],
  dots: [0, '<circle cx="3" cy="3" r="1.5" fill="currentColor"/>'],
};
const PAINTS = ["", "-blue", "-orange", "-green", "-purple"];
let patterned = 0;
function patterns(el) {
  const holder = node("div"), own = `lab-pattern-${++patterned}`;
  const made = Object.entries(PATTERNS).flatMap(([shape, [turn, inside]]) => PAINTS.map((paint) => {
    const name = `-${shape}${paint}`, ink = paint && ` style="color: var(-${paint})"`;
    el.style.setProperty(`-${name}`, `url("#${own}${name}")`);
    return `<pattern id="${own}${name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(${turn})"${ink}>${inside}</pattern>`;
  }));
  holder.innerHTML = `<svg aria-hidden="true" width="0" height="0" style="position:absolute"><defs>${made.join("")}</defs></svg>`;
  return holder;
}

async function copied(link) {
  try {
    await navigator.clipboard.writeText(link);
    return "copied";
  } catch {
    return "not copied, as the browser does not allow it: the address of this page is the link";
  }
}

// Fills an element with a lab; call it as `render({ model, el })` does. `model` is anywidget's, or the address; it holds `setting`,
// and `data`, the text of Lab.facts(). An address also has the `preset` that it may have replaced, and `link` gives a setting's.
// `make(data, change)` is the lab: it may call `change({ key: value, ... })`, and returns an object of
//   name                  as in Python; a class of its own begins with it
//   draw(setting, width)  shows a setting and returns what to say of it; a ValueError is shown in the place of all results
//   results               the element drawn into
//   groups                [legend, fields] pairs, see `field`
//   presets               [words, setting's differences from the lab's first setting] pairs
//   own                   the lab's own controls, elements that stay when there is an error
//   follow(setting, form) adapts what depends on a setting, errors or none; form has `inputs` and `holders` by key
//   style                 CSS
export function mounted({ model, el }, make) {
  const lab = make(model.get("data"), (changes) => update({ ...setting, ...changes }, true));
  const preset = model.preset ?? model.get("setting");
  let setting = { ...model.get("setting") }, told = 0, width = 0;
  const buttons = [["Reset", () => update({ ...preset }, true)]];
  if (model.link) buttons.push(["Copy link", () => copied(model.link(setting))]);
  const form = controls(lab.groups ?? [], lab.own ?? [], (key, value) => update({ ...setting, [key]: value }, true), buttons);
  const presets = (lab.presets ?? []).map(([words, changes]) => {
    const button = node("button", { type: "button", "aria-pressed": "false" }, words), wanted = { ...preset, ...changes };
    button.addEventListener("click", () => update({ ...wanted }, true));
    return { button, wanted };
  });
  const error = node("p", { class: "lab-error", role: "alert" });
  const spoken = node("p", { class: "lab-spoken", role: "status" });
  const same = (one, other) => Object.keys(one).every((key) => one[key] === other[key]);

  function draw() {
    let words = "", wrong = "";
    try {
      words = lab.draw(setting, width);
    } catch (failure) {
      wrong = failure.name === "ValueError" ? failure.message : `the lab failed: ${failure.message}`;
    }
    if (error.textContent !== wrong) error.textContent = wrong; // else it would be read out again
    lab.results.hidden = wrong !== "";
    return words;
  }
  function show() {
    form.show(setting);
    lab.follow?.(setting, form);
    for (const { button, wanted } of presets) button.setAttribute("aria-pressed", same(wanted, setting));
  }
  function update(next, save) {
    setting = next;
    show();
    const words = draw();
    clearTimeout(told); // read out and saved when the hand rests
    told = setTimeout(() => {
      spoken.textContent = words;
      if (save) model.set("setting", setting), model.save_changes();
    }, 250);
  }
  const heard = () => {
    if (JSON.stringify(model.get("setting")) !== JSON.stringify(setting)) update({ ...setting, ...model.get("setting") }, false);
  };
  model.on("change:setting", heard);
  const above = presets.length ? [node("div", { class: "lab-presets", role: "group", "aria-label": "Examples" }, ...presets.map(({ button }) => button))] : [];
  el.classList.add("book-lab", `${lab.name}-lab`);
  el.replaceChildren(node("style", {}, STYLE + (lab.style ?? "")), patterns(el), ...above, form.form,
    node("div", { class: "lab-panel" }, error, spoken, lab.results));
  const fit = () => {
    const room = Math.round(Math.max(300, Math.min(720, el.clientWidth || 720)));
    if (room === width) return;
    width = room;
    el.classList.toggle("lab-narrow", room < 480);
    draw();
  };
  show();
  fit();
  const watch = new ResizeObserver(fit);
  watch.observe(el);
  return () => { watch.disconnect(), clearTimeout(told), model.off("change:setting", heard); };
}

// ---- in Jupyter ----------------------------------------------------------------------------------------------------------

// A lab as anywidget takes it. A key that nobody stops is a command of JupyterLab's notebook: an arrow leaves the cell, Enter edits
// it, Space scrolls, and the letter that looks for a choice in a menu cuts the cell. So the keys that controls use end at the lab.
// Ctrl+S, Shift+Enter and Escape go on to the notebook. On the site nobody else wants a key.
const USED = /^(Arrow.*|Home|End|Page.*|Enter| )$/;
const widget = (render) => ({
  render(given) {
    given.el.addEventListener("keydown", (event) => {
      const { key, target, altKey, ctrlKey, metaKey, shiftKey } = event;
      if (altKey || ctrlKey || metaKey || shiftKey) return;
      if (USED.test(key) || (target.matches("select") && key.length === 1)) event.stopPropagation();
    });
    return render(given);
  },
});

// ---- on a static page ----------------------------------------------------------------------------------------------------

// What the address holds of each lab: `#kv:length=8192&...;overlap:p=6%2C3%2C1&...`, all of a setting, so that a link means the
// same later. Keys and values are escaped, so no part has a `;` of its own.
function addressed() {
  const parts = location.hash.slice(1).split(";").map((part) => /^([\w-]+):(.*)$/.exec(part)).filter(Boolean);
  return new Map(parts.map(([, name, query]) => [name, query]));
}

// The page's address as a model.
class Address {
  constructor(name, setting, data) {
    Object.assign(this, { name, state: { setting, data }, preset: setting, hear: null });
    this.read();
    addEventListener("hashchange", () => { this.read(); this.hear?.(); });
  }
  read() {
    const query = addressed().get(this.name);
    if (query === undefined) return;
    const given = Object.fromEntries(new URLSearchParams(query));
    const known = Object.keys(this.preset).filter((key) => Object.hasOwn(given, key));
    this.state.setting = { ...this.preset, ...Object.fromEntries(known.map((key) => [key, given[key]])) };
  }
  get(key) { return this.state[key]; }
  set(key, value) { this.state[key] = value; }
  on(_, hear) { this.hear = hear; }
  off() { this.hear = null; }
  link(setting) { // this lab first: whoever follows the link wants to see it
    const parts = new Map([[this.name, new URLSearchParams(setting)]]);
    for (const [name, query] of addressed()) if (name !== this.name) parts.set(name, query);
    return `${location.href.split("#")[0]}#${[...parts].map(([name, query]) => `${name}:${query}`).join(";")}`;
  }
  save_changes() { history.replaceState(history.state, "", this.link(this.state.setting)); }
}

// Each lab's `render` by its name; lab.py puts them in.
const renders = {};

// Puts a lab into every element that Python left, and shows the one that the address begins with. A second lab of one name has the
// address's part NAME-2.
function start() {
  const first = [...addressed().keys()][0], times = {};
  for (const el of document.querySelectorAll(".book-lab[data-lab]")) {
    const { lab, setting } = el.dataset, number = (times[lab] = (times[lab] ?? 0) + 1);
    const name = number > 1 ? `${lab}-${number}` : lab;
    const data = document.getElementById(`lab-data-${lab}`).textContent;
    renders[lab]({ model: new Address(name, JSON.parse(setting), data), el });
    if (name === first) el.dataset.asked = "";
  }
  if (performance.getEntriesByType("navigation")[0]?.type === "navigate") document.querySelector("[data-asked]")?.scrollIntoView();
}
