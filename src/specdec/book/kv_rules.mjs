// What a KV cache takes, in the browser: the rules of specdec/kv (dtypes, shape, engines, plan, config), rule by rule and
// under the same names, so that each can be read beside its Python. Whole numbers are BigInt. No page is touched here.
// Differences: no arrays; a formula is built when it is read, since most never are; layouts are kept between calls.

export class ValueError extends Error {
  name = "ValueError"; // as lab_page.mjs knows it
}

// Python's tables come as data, set by ``learn``: kv_lab.py names them.
let T = {};
export const learn = (tables) => { T = tables; };

// ---- counts ------------------------------------------------------------------------------------------------------------

export const shown = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const gcd = (a, b) => (b ? gcd(b, a % b) : a);
const least = (a, b) => (a < b ? a : b);
const greatest = (a, b) => (a > b ? a : b);
const blocks = (cells, size) => (cells + size - 1n) / size; // cells are never below 0, so / rounds down
const padded = (cells, size) => blocks(cells, size) * size;
const total = (values) => values.reduce((sum, value) => sum + value, 0n);

export function _whole(name, value, low = 0n) {
  if (typeof value !== "bigint" || value < low) {
    throw new ValueError(`${name} is ${repr(value)}: it must be an integer of at least ${low}`);
  }
  return value;
}

function count(name, value, low = 0n) {
  if (typeof value !== "bigint") {
    throw new ValueError(`${name} is ${repr(value)}: it must be an integer, or an array of integers, of at least ${low}`);
  }
  if (value < low) throw new ValueError(`${name} is ${value}: it must be at least ${low}`);
  return value;
}

// A value as Python prints it.
export function repr(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return real(value);
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  return `{${Object.entries(value).map(([key, each]) => `${quoted(key)}: ${repr(each)}`).join(", ")}}`;
}

const str = (value) => (typeof value === "string" ? value : repr(value));

function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escapes = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", [mark]: "\\" + mark };
  return mark + Array.from(text, (letter) => escapes[letter] ?? letter).join("") + mark;
}

// Only the integer part and the exponent's two digits are written otherwise in Python.
function real(value) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  if (size >= 1e16 || (size > 0 && size < 1e-4)) {
    return value.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return Number.isInteger(value) ? (Object.is(value, -0) ? "-0.0" : `${value}.0`) : String(value);
}

// ---- dtypes ------------------------------------------------------------------------------------------------------------

const dtype = (name, bytes, values = 1n) => [name, { name, bytes, values }];
export const DTYPES = Object.fromEntries([
  dtype("f32", 4n), dtype("f16", 2n), dtype("bf16", 2n), dtype("fp8", 1n), dtype("int8", 1n),
  dtype("q8_0", 34n, 32n), dtype("q5_1", 24n, 32n), dtype("q5_0", 22n, 32n), dtype("q4_1", 20n, 32n),
  dtype("q4_0", 18n, 32n), dtype("iq4_nl", 18n, 32n), dtype("nvfp4", 9n, 16n), dtype("mxfp4", 17n, 32n),
  dtype("fp8_128", 132n, 128n),
]);
const ALIASES = {
  float32: "f32", fp32: "f32", float: "f32", float16: "f16", fp16: "f16", half: "f16", bfloat16: "bf16",
  fp8_e4m3: "fp8", fp8_e5m2: "fp8", float8_e4m3fn: "fp8", float8_e5m2: "fp8", f8: "fp8",
  q8: "q8_0", q5: "q5_0", q4: "q4_0", fp4: "nvfp4",
};

export const dtype_size = (dtype, values) => blocks(values, dtype.values) * dtype.bytes;

export function cache_dtype(name) {
  if (name !== null && typeof name === "object" && "bytes" in name) return name;
  let short = str(name).toLowerCase().replace(/^torch\./, "");
  short = Object.hasOwn(ALIASES, short) ? ALIASES[short] : short;
  if (!Object.hasOwn(DTYPES, short)) {
    throw new ValueError(`cache dtype ${repr(name)} is not known; known are ${Object.keys(DTYPES).join(", ")}`);
  }
  return DTYPES[short];
}

// ---- shape -------------------------------------------------------------------------------------------------------------

// A part is {role, heads, width, dtype, depth}; layers are {kind, count, token, state, window}.
const Part = (role, heads, width, dtype, depth = 1n) => ({ role, heads, width, dtype, depth });
const Layers = (kind, count, token = [], state = [], window = null) => ({ kind, count, token, state, window });

export function per_rank(part, tp) {
  if (part.heads % tp && tp % part.heads) {
    throw new ValueError(`tensor parallelism ${tp} and ${part.heads} heads of ${part.role}: one must divide the other`);
  }
  return greatest(1n, part.heads / tp);
}

const part_size = (part, tp) => dtype_size(part.dtype, per_rank(part, tp) * part.width * part.depth);

function part_formula(part, tp) {
  const { bytes, values } = part.dtype;
  const per = values === 1n ? `${bytes} B` : `${bytes}/${values} B`;
  const shared = tp > 1n && part.heads > 1n ? ` (of ${part.heads}, over ${tp} ranks)` : tp > 1n ? " (on each rank)" : "";
  const deep = part.depth > 1n ? ` x ${part.depth}` : "";
  return `${part.role} ${per_rank(part, tp)} x ${part.width}${deep} x ${per}${shared}`;
}

export const token_bytes = (layers, tp = 1n) => total(layers.token.map((part) => part_size(part, tp)));
export const state_bytes = (layers, tp = 1n) => total(layers.state.map((part) => part_size(part, tp)));
const deeper = (layers, inputs) => ({
  ...layers, state: layers.state.map((part) => (part.role === "conv" ? { ...part, depth: part.depth + inputs } : part)),
});
const name_of = (layers) => (layers.window === null ? layers.kind : `${layers.kind} ${layers.window}`);

const KINDS = ["full", "sliding", "chunked", "latent", "recurrent", "shared", "none"];

export function attention(count, heads, width, { value_width = null, window = null, chunked = false, k = "bf16", v = "bf16" } = {}) {
  _whole("layers", count, 1n), _whole("key-value heads", heads, 1n), _whole("head size", width, 1n);
  const value = value_width === null ? width : _whole("value size", value_width, 1n);
  const parts = [Part("K", heads, width, cache_dtype(k)), Part("V", heads, value, cache_dtype(v))];
  if (chunked && window === null) throw new ValueError("chunked layers need a window: the length of a chunk");
  if (window === null) return Layers("full", count, parts);
  return Layers(chunked ? "chunked" : "sliding", count, parts, [], _whole("window", window, 1n));
}

export function latent(count, rank, rope, { index = 0n, dtype = "bf16" } = {}) {
  _whole("layers", count, 1n), _whole("kv_lora_rank", rank, 1n), _whole("qk_rope_head_dim", rope, 1n);
  const mixed = dtype === "fp8_ds_mla";
  const parts = [
    Part("latent", 1n, rank, mixed ? DTYPES.fp8_128 : cache_dtype(dtype)),
    Part("rope", 1n, rope, mixed ? DTYPES.bf16 : cache_dtype(dtype)),
  ];
  if (index) parts.push(Part("index", 1n, _whole("index_head_dim", index, 1n), DTYPES.fp8_128));
  return Layers("latent", count, parts);
}

export function gated_delta(count, { value_heads, key_heads, key_width, value_width, kernel, state = "f32", conv = "bf16" }) {
  const sizes = { layers: count, "value heads": value_heads, "key heads": key_heads, "key size": key_width, "value size": value_width };
  for (const [name, value] of Object.entries(sizes)) _whole(name, value, 1n);
  const past = _whole("convolution kernel", kernel, 2n) - 1n;
  return Layers("recurrent", count, [], [
    Part("state", value_heads, key_width * value_width, cache_dtype(state)),
    Part("conv", value_heads, value_width, cache_dtype(conv), past),
    Part("conv", key_heads, 2n * key_width, cache_dtype(conv), past),
  ]);
}

export function mamba(count, { channels, state_size, kernel, state = "f32", conv = "bf16" }) {
  _whole("layers", count, 1n), _whole("inner channels", channels, 1n), _whole("state size", state_size, 1n);
  const past = _whole("convolution kernel", kernel, 2n) - 1n;
  const parts = [Part("state", channels, state_size, cache_dtype(state)), Part("conv", channels, 1n, cache_dtype(conv), past)];
  return Layers("recurrent", count, [], parts);
}

export function mamba2(count, { heads, width, state_size, groups, kernel, state = "f32", conv = "bf16" }) {
  const sizes = { layers: count, heads, "head size": width, "state size": state_size, groups };
  for (const [name, value] of Object.entries(sizes)) _whole(name, value, 1n);
  const past = _whole("convolution kernel", kernel, 2n) - 1n;
  return Layers("recurrent", count, [], [
    Part("state", heads, width * state_size, cache_dtype(state)),
    Part("conv", heads, width, cache_dtype(conv), past),
    Part("conv", groups, 2n * state_size, cache_dtype(conv), past),
  ]);
}

// ``order`` holds plain numbers: they are positions in ``groups``.
export function CacheShape({ name, groups, order = [], family = "", vocabulary = null, longest = null, warnings = [] }) {
  for (const group of groups) {
    if (!KINDS.includes(group.kind)) throw new ValueError(`layers of kind ${repr(group.kind)}: known kinds are ${KINDS.join(", ")}`);
  }
  if (total(groups.map((group) => _whole("layers", group.count))) > 100_000n) {
    throw new ValueError(`${name || "this shape"} has more than 100,000 layers, which can't be meant`);
  }
  order = order.length ? order.map(Number) : groups.flatMap((group, i) => Array(Number(group.count)).fill(i));
  if (groups.some((group, i) => times(order, i) !== group.count)) {
    throw new ValueError("the order of the layers and the groups' counts do not agree");
  }
  return { name, groups, order, family, vocabulary, longest, warnings };
}

const times = (order, i) => BigInt(order.filter((each) => each === i).length);

const is_empty = (shape) => !shape.groups.some((group) => group.token.length || group.state.length);

export const bytes_per_token = (shape, tp = 1n) =>
  total(shape.groups.filter((group) => group.window === null).map((group) => group.count * token_bytes(group, tp)));

export function fixed_bytes(shape, tp = 1n) {
  const windows = shape.groups.filter((group) => group.window !== null);
  return total(windows.map((group) => group.count * token_bytes(group, tp) * group.window))
    + total(shape.groups.map((group) => group.count * state_bytes(group, tp)));
}

export function with_dtypes(shape, { k = null, v = null, state = null, conv = null }) {
  const mixed = k === "fp8_ds_mla";
  if (mixed && !shape.groups.some((group) => group.kind === "latent")) {
    throw new ValueError("fp8_ds_mla is a layout of latent attention, which this model does not have");
  }
  const asked = { K: mixed ? null : k, V: v, latent: mixed ? "fp8_128" : k, rope: mixed ? "bf16" : k, state, conv };
  const chosen = Object.entries(asked).filter(([, dtype]) => dtype !== null).map(([role, dtype]) => [role, cache_dtype(dtype)]);
  const of = Object.fromEntries(chosen), changed = (part) => ({ ...part, dtype: of[part.role] ?? part.dtype });
  const groups = shape.groups.map((group) => ({ ...group, token: group.token.map(changed), state: group.state.map(changed) }));
  const unused = v !== null && !groups.some((group) => group.token.some((part) => part.role === "V"));
  const cautions = unused ? ["no values are cached beside the keys: the dtype of V is not used"] : [];
  return CacheShape({ ...shape, groups, warnings: [...shape.warnings, ...cautions] });
}

export function stages(shape, pp, partition = null) {
  _whole("pipeline parallelism", pp, 1n);
  const layers = BigInt(shape.order.length);
  const sizes = partition === null ? _even(layers, pp) : partition.map((size) => _whole("layers of a stage", size, 1n));
  if (BigInt(sizes.length) !== pp || total(sizes) !== layers || sizes.some((size) => size < 1n)) {
    throw new ValueError(`stages of ${repr(sizes)} layers: ${pp} stages of one layer or more must make ${layers}`);
  }
  const found = [];
  let begin = 0;
  for (const size of sizes.map(Number)) {
    const order = shape.order.slice(begin, begin + size);
    const used = [...new Set(order)].sort((a, b) => a - b);
    const groups = used.map((i) => ({ ...shape.groups[i], count: times(order, i) }));
    found.push(CacheShape({ ...shape, groups, order: order.map((i) => used.indexOf(i)) }));
    begin += size;
  }
  return found;
}

function _even(layers, pp) {
  const sizes = Array(Number(pp)).fill(layers / pp);
  for (let i = 2; i < Number(layers % pp) + 2; i++) sizes[sizes.length - i] += 1n;
  return sizes;
}

// ---- engines -----------------------------------------------------------------------------------------------------------

const Line = (label, formula, bytes) => ({ label, bytes, get formula() { return formula(); } });
export function Use(length, sequences, { lookahead = 0n, shared = 0n, tp = 1n, drafted = false } = {}) {
  _whole("lookahead", lookahead), _whole("shared tokens", shared), _whole("tensor parallelism", tp, 1n);
  count("length", length, greatest(1n, shared)), count("sequences", sequences);
  return { length, sequences, lookahead, shared, tp, drafted };
}

// What ``make`` gives for an object and keys, made once.
function kept(make) {
  const known = new WeakMap();
  return (object, ...keys) => {
    if (!known.has(object)) known.set(object, new Map());
    const found = known.get(object), key = keys.length > 1 ? keys.join() : keys[0];
    if (!found.has(key)) found.set(key, make(object, ...keys));
    return found.get(key);
  };
}
const _token = kept(token_bytes);
const _part = kept(part_size);
const _deeper = kept(deeper);

function _token_lines(shape, use, cells) {
  return shape.groups.filter((group) => group.token.length).map((group) => {
    const held = cells(group);
    const parts = () => group.token.map((part) => part_formula(part, use.tp)).join(" + ");
    const formula = () => `${group.count} layers x ${shown(held)} cells x (${parts()})`;
    return Line(name_of(group), formula, group.count * _token(group, use.tp) * held);
  });
}

function _state_lines(shape, use, inputs) {
  return shape.groups.map((group) => _deeper(group, inputs)).flatMap((group) => group.state.map((part) => {
    const held = (part.role === "conv" && inputs ? 1n : 1n + use.lookahead) * use.sequences;
    const formula = () => `${group.count} layers x ${shown(held)} x (${part_formula(part, use.tp)})`;
    return Line(`${name_of(group)}: ${part.role}`, formula, group.count * _part(part, use.tp) * held);
  }));
}

export const Ideal = () => ({
  name: "ideal",
  lines(shape, use) {
    const cells = (group) => {
      if (group.window === null) return use.shared + use.sequences * (use.length + use.lookahead - use.shared);
      const once = greatest(0n, use.shared - greatest(0n, use.length - group.window));
      return once + use.sequences * (least(use.length, group.window) + use.lookahead - once);
    };
    return [..._token_lines(shape, use, cells), ..._state_lines(shape, use, use.lookahead)];
  },
  warnings: () => [],
});

export const Paged = (page = 1n, name = "paged") => (_whole("tokens a page", page, 1n), {
  name,
  lines(shape, use) {
    const once = (use.shared / page) * page;
    const cells = () => once + use.sequences * (padded(use.length + use.lookahead, page) - once);
    return [..._token_lines(shape, use, cells), ..._state_lines(shape, use, use.lookahead)];
  },
  warnings: (shape) => shape.groups.some((group) => group.window !== null)
    ? [`${name}: windows are not modelled, every layer is counted in full`] : [],
});

const _wide = kept((shape) => with_dtypes(shape, { state: "f32", conv: "f32" }));

export const LlamaCpp = ({ ubatch = 512n, unified = false, swa_full = false, pad = 256n } = {}) => (
  _whole("ubatch", ubatch, 1n), _whole("padding", pad, 1n), {
  name: "llama.cpp",
  lines(shape, use) {
    const windows = !T.LLAMA_CPP_FULL.includes(shape.family) && !swa_full;
    let room = use.length + use.lookahead, streams = use.sequences;
    if (unified) [room, streams] = [use.shared + use.sequences * (room - use.shared), 1n];
    const base = padded(room, pad);
    const cells = (group) => {
      if (group.window === null || !windows) return streams * base;
      const seen = (unified ? use.sequences : 1n) * group.window + ubatch;
      return streams * padded(least(base, seen), pad);
    };
    return [..._token_lines(shape, use, cells), ..._state_lines(_wide(shape), use, 0n)];
  },
  warnings(shape, use) {
    const found = [];
    if (shape.groups.some((group) => group.window !== null)) {
      if (T.LLAMA_CPP_FULL.includes(shape.family)) {
        found.push(`llama.cpp caches every token of ${shape.family} models: the window is not used`);
      } else if (!["", ...T.LLAMA_CPP_WINDOWS].includes(shape.family)) {
        found.push(`whether llama.cpp uses the windows of ${shape.family} models is not known here: they are counted`);
      }
    }
    if (use.shared && !unified) {
      found.push("llama.cpp slots share a prefix only in a unified cache: it is counted once a slot");
    }
    return found;
  },
});

// Two kinds of layers are the same if all but their counts agree.
const _plain = (_, value) => (typeof value === "bigint" ? String(value) : value);
const _kind = (group) => JSON.stringify({ ...group, count: 0 }, _plain);

function _apart(group) {
  const pieces = [{ ...group, state: [] }, { ...group, kind: "recurrent", token: [], window: null }];
  return pieces.filter((piece) => piece.token.length || piece.state.length);
}

export function VLLM({ block = 16n, hybrid = true, batched_tokens = null, state_blocks = 1n, grain = null } = {}) {
  _whole("tokens a block", block, 1n), _whole("blocks of a state", state_blocks, 1n);
  if (batched_tokens !== null) _whole("batched tokens", batched_tokens, 1n);
  if (grain !== null) _whole("grain of a block", grain, 1n);

  function layout(shape, tp, lookahead = 0n) {
    const kinds = [], pieces = shape.groups.flatMap(_apart).map((piece) => deeper(piece, lookahead));
    const full = pieces.some((piece) => piece.token.length && piece.window === null);
    for (let group of pieces) {
      if (group.token.length && full && !hybrid) group = { ...group, kind: "full", window: null };
      const same = kinds.findIndex((kind) => _kind(kind) === _kind(group));
      if (same >= 0) kinds[same] = { ...group, count: group.count + kinds[same].count };
      else kinds.push(group);
    }
    if (kinds.every((group) => group.token.length) && new Set(kinds.map((group) => group.window)).size === 1) {
      const page = total(kinds.map((group) => group.count * token_bytes(group, tp))) * block;
      return Layout(page, 1n, [[kinds[0], block, 1n]]);
    }
    if (kinds.length === 1) return Layout(state_bytes(kinds[0], tp), kinds[0].count, [[kinds[0], block, 1n]]);
    return _mixed(kinds, tp);
  }

  function _mixed(kinds, tp) {
    const tokens = kinds.filter((group) => group.token.length).map((group) => token_bytes(group, tp));
    const states = kinds.filter((group) => group.state.length).map((group) => state_bytes(group, tp));
    if (states.length && !tokens.length) throw new ValueError("vLLM: states of different sizes without attention are not modelled");
    const largest = tokens.reduce(greatest);
    const step = grain || (kinds.some((group) => group.kind === "latent") ? 64n : 16n);
    const tall = states.length ? greatest(block, step * blocks(states.reduce(greatest), step * largest)) : block;
    const page = [largest * tall, ...states].reduce(greatest);
    const counts = kinds.map((group) => group.count);
    const [most, fewest] = [counts.reduce(greatest), counts.reduce(least)];
    const size = 2n * most < 3n * fewest ? most : fewest;
    return Layout(page, size, kinds.map((group) => {
      const own = token_bytes(group, tp) * tall;
      if (group.token.length && page % own) {
        throw new ValueError(
          `vLLM: a page of ${own} bytes (${name_of(group)}) does not divide one of ${page}, so the kinds can't share a pool:`
          + " where a window is among them, hybrid=False counts it in full",
        );
      }
      return [group, group.token.length ? tall * (page / own) : tall, blocks(group.count, size)];
    }));
  }

  function blocks_of(group, size, use) {
    if (group.state.length) return state_blocks + use.lookahead;
    const ahead = use.drafted ? 2n * use.lookahead : use.lookahead, cells = use.length + ahead;
    if (group.window === null) return blocks(cells, size);
    const chunked = group.kind === "chunked", seen = group.window - (chunked ? 0n : 1n);
    if (batched_tokens !== null) return blocks(least(seen + batched_tokens, cells), size) + (chunked ? 0n : 1n);
    const step = chunked ? gcd(group.window, size) : 1n;
    return least(blocks(cells, size), blocks(group.window - step + ahead, size) + 1n);
  }

  const Layout = (page, size, kinds) => ({ page, size, kinds, block_bytes: page * size });
  const laid = kept(layout);
  return {
    name: "vLLM",
    layout: laid,
    lines(shape, use) {
      if (is_empty(shape)) return [];
      const pool = laid(shape, use.tp, use.lookahead), several = pool.kinds.length > 1;
      return pool.kinds.map(([group, size, groups]) => {
        const each = blocks_of(group, size, use);
        const once = group.token.length && group.window === null ? use.shared / size : 0n;
        const held = groups * (once + use.sequences * (each - once));
        const unit = several ? `${groups} x ${pool.size} layers, ` : "";
        const tokens = group.token.length ? `${size} tokens a block` : "a state a block";
        const formula = () => `${shown(held)} blocks x ${shown(pool.block_bytes)} B (${unit}${tokens})`;
        return Line(several ? name_of(group) : "all layers", formula, held * pool.block_bytes);
      });
    },
    warnings(shape) {
      const kinds = new Set(shape.groups.filter((group) => group.token.length).map((group) => group.window === null));
      return !hybrid && kinds.size === 2 ? ["vLLM without the hybrid manager: every layer is counted in full"] : [];
    },
    // ``concurrency`` is a quotient of two integers, numerator first.
    log(shape, budget, length, tp = 1n, lookahead = 0n) {
      const pool = laid(shape, _whole("tp", tp, 1n), _whole("lookahead", lookahead));
      const use = Use(_whole("length", length, 1n), 1n, { tp }), number = _whole("budget", budget) / pool.block_bytes;
      const of = (group, groups) => (group.state.length ? groups * lookahead : 0n);
      const each = total(pool.kinds.map(([group, size, groups]) => groups * blocks_of(group, size, use) + of(group, groups)));
      const smallest = pool.kinds.map(([, size]) => size).reduce(least);
      return {
        blocks: number, blocks_per_request: each, concurrency: [number, each], tokens: (number * length) / each,
        tokens_by_groups: (number / total(pool.kinds.map(([, , groups]) => groups))) * smallest,
      };
    },
  };
}

export const ENGINES = {
  ideal: Ideal,
  vllm: VLLM,
  "llama.cpp": LlamaCpp,
  sglang: () => Paged(1n, "SGLang"),
  "tensorrt-llm": () => Paged(64n, "TensorRT-LLM"),
};

// Unlike in Python the options come along: {block, hybrid, ...}.
export function engine(name, options = {}) {
  if (!Object.hasOwn(ENGINES, name)) {
    throw new ValueError(`engine ${repr(name)} is not modelled; modelled are ${Object.keys(ENGINES).join(", ")}`);
  }
  return ENGINES[name](options);
}

// ---- plan --------------------------------------------------------------------------------------------------------------

export const GIB = 2n ** 30n;

// A quotient with two decimals, as Python's f"{a / b:,.2f}" prints it: ties, which are odd eighths, go to the even digit.
export function decimals(number, unit) {
  const value = Number(number) / Number(unit);
  if (value >= 1e21) return `${shown(BigInt(value))}.00`;
  let text = value.toFixed(2);
  if (Number.isInteger(value * 8) && (value * 8) % 2 && Number(text.at(-1)) % 2) text = (value - 0.005).toFixed(2);
  const [whole, part] = text.split(".");
  return `${shown(whole)}.${part}`;
}

export function size(number) {
  for (const [gib, gb, binary, decimal] of [["GiB", "GB", GIB, 10n ** 9n], ["MiB", "MB", 2n ** 20n, 10n ** 6n], ["KiB", "kB", 2n ** 10n, 1000n]]) {
    if (number >= binary) return `${decimals(number, binary)} ${gib} (${decimals(number, decimal)} ${gb})`;
  }
  return `${shown(number)} B`;
}

export function available(memory, { weights = 0n, activations = 0n, utilisation = [9n, 10n] } = {}) {
  _whole("memory", memory, 1n), _whole("weights", weights), _whole("activations", activations);
  const [over, under] = utilisation;
  if (!(typeof over === "bigint" && typeof under === "bigint" && 0n < over && over <= under)) {
    throw new ValueError(`utilisation is (${utilisation.map(repr).join(", ")}): it must be two integers (a, b) with 0 < a <= b`);
  }
  const left = (memory * over) / under - weights - activations;
  if (left <= 0n) {
    throw new ValueError(
      `${size(memory)} at ${over}/${under} leave nothing for a cache beside weights of ${size(weights)}`
      + ` and activations of ${size(activations)}`,
    );
  }
  return left;
}

export function Speculation(gamma, { draft = null, vocabulary = null, rows = "f32" } = {}) {
  _whole("gamma", gamma), cache_dtype(rows);
  if (vocabulary !== null) _whole("vocabulary", vocabulary, 1n);
  return { gamma, draft, vocabulary, rows };
}

export class Plan {
  constructor(target, { engine = Ideal(), speculation = null, tp = 1n, pp = 1n, partition = null, shared = 0n } = {}) {
    Object.assign(this, { target, engine, speculation, tp, pp, partition, shared });
    _whole("shared tokens", shared);
    this.gamma = speculation ? speculation.gamma : 0n;
    this.draft = this.gamma ? speculation.draft : null;
    this.vocabulary = speculation ? speculation.vocabulary || target.vocabulary : null;
    for (const shape of [target, this.draft]) {
      if (shape !== null && is_empty(shape)) throw new ValueError(`${shape.name || "this shape"} keeps nothing: no layer has a cache`);
    }
    if (this.gamma && this.vocabulary === null) {
      throw new ValueError("the config names no vocab_size: give the vocabulary of the row buffers");
    }
    this.stages = stages(target, pp, partition);
    // Equal stages need as much, so one of them is enough; the last one holds the draft as well.
    const last = this.stages.length - 1, keys = this.stages.map((stage) => JSON.stringify(stage.groups, _plain));
    this.distinct = keys.flatMap((key, i) => (i === last || keys.indexOf(key) === i ? [i] : []));
    this.storage(shared + 1n, 1n); // refuses heads that the ranks can't share, pages that can't be made equal
  }

  storage(length, sequences, stage = null) {
    count("length", length, greatest(1n, this.shared)), count("sequences", sequences);
    if (stage !== null) return this._on_stage(stage, length, sequences);
    const found = this.distinct.map((i) => this._on_stage(i, length, sequences));
    return found.reduce((fullest, other) => (other.bytes > fullest.bytes ? other : fullest));
  }

  _on_stage(stage, length, sequences) {
    const shape = this.stages[stage], { shared, tp, gamma } = this;
    const plain = Use(length, sequences, { shared, tp });
    const ahead = Use(length, sequences, { lookahead: gamma, shared, tp, drafted: this.draft !== null });
    const lines = this.engine.lines(shape, plain);
    const parts = { "target cache": total(lines.map((line) => line.bytes)) };
    if (gamma) {
      const with_slots = total(this.engine.lines(shape, ahead).map((line) => line.bytes)), slots = with_slots - parts["target cache"];
      lines.push(Line("speculative slots", () => `as above for ${gamma} tokens more a sequence, less the above`, slots));
      parts["speculative slots"] = slots;
      if (stage === this.stages.length - 1) lines.push(...this._beside(shape, ahead, with_slots, parts));
    }
    return { lines, parts, warnings: this._warnings(ahead), bytes: total(Object.values(parts)) };
  }

  _beside(shape, use, target, parts) {
    const { draft, gamma, vocabulary, engine } = this, { rows } = this.speculation;
    let lines = [];
    if (draft !== null && engine.name === "vLLM") {
      this.both ??= CacheShape({ ...shape, groups: [...shape.groups, ...draft.groups], order: [] }); // kept for its layout
      const held = total(engine.lines(this.both, use).map((line) => line.bytes)) - target;
      lines = [Line("draft", () => "the layers of both in one pool, less the target's", held)];
    } else if (draft !== null) {
      lines = engine.lines(draft, use).map((line) => Line(`draft: ${line.label}`, () => line.formula, line.bytes));
    }
    if (draft !== null) parts["draft cache"] = total(lines.map((line) => line.bytes));
    const dtype = cache_dtype(rows);
    const number = draft !== null ? 2n * gamma + 1n : gamma + 1n;
    const what = draft !== null ? `(${gamma}+1 target + ${gamma} draft)` : `(${gamma}+1 target)`;
    const held = use.sequences * number * dtype_size(dtype, vocabulary);
    parts["row buffers"] = held;
    const formula = () => `sequences x ${what} rows x ${shown(vocabulary)} x ${dtype.bytes} B`;
    return [...lines, Line("row buffers", formula, held)];
  }

  _warnings(use) {
    const found = [];
    for (const [name, shape] of [["", this.target], ["draft: ", this.draft]]) {
      if (shape === null) continue;
      found.push(...[...shape.warnings, ...this.engine.warnings(shape, use)].map((text) => name + text));
      if (shape.longest !== null && use.length > shape.longest) {
        found.push(`${name}a length of ${shown(use.length)} is past the model's maximum of ${shown(shape.longest)}`);
      }
    }
    const own = this.target.vocabulary, other = this.draft === null ? null : this.draft.vocabulary;
    if (own !== null && other !== null && own !== other) {
      found.push(`target and draft have vocabularies of ${shown(own)} and ${shown(other)}: they must share one`);
    }
    return found;
  }

  // ---- what fits: a budget is one number, or a list with one for each stage

  fits(length, sequences, budget) {
    const budgets = this._budgets(budget);
    const asked = Array.isArray(budget) ? budgets.map((_, i) => i) : this.distinct;
    return asked.every((i) => this.storage(length, sequences, i).bytes <= budgets[i]);
  }

  _budgets(budget) {
    const budgets = Array.isArray(budget) ? budget : this.stages.map(() => budget);
    if (budgets.length !== this.stages.length) {
      throw new ValueError(`${budgets.length} budgets for ${this.stages.length} pipeline stages: give one, or one for each`);
    }
    return budgets.map((each) => _whole("budget", each));
  }

  sequences(length, budget) {
    count("length", length, this.shared + 1n);
    return _most((number) => this.fits(length, number, budget));
  }

  // Infinity where storage stops growing. No other type of the rules is a plain number.
  length(sequences, budget) {
    _whole("sequences", sequences, 1n);
    const [far, farther] = [10n ** 15n, 10n ** 16n].map((length) => this.storage(length, sequences).bytes);
    if (far === farther && this.fits(10n ** 15n, sequences, budget)) return Infinity;
    const found = _most((extra) => this.fits(this.shared + extra, sequences, budget));
    return found ? this.shared + found : 0n;
  }
}

function _most(fits) {
  let high = 1n;
  while (fits(high)) high *= 2n;
  let low = high / 2n;
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}

// ---- config ------------------------------------------------------------------------------------------------------------

// JSON with its integers as BigInt, its other numbers as numbers, and Infinity and NaN, which Python's reader takes too.
export function json(text) {
  const literal = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  JSON.parse(text.replace(literal, (found) => (/Infinity|NaN/.test(found) && found[0] !== '"' ? "0" : found)));
  const marked = text.replace(literal, (found) => (found[0] === '"' ? found : `"\\u0000${found}"`));
  return JSON.parse(marked, (_, value) => {
    if (typeof value !== "string" || value[0] !== "\0") return value;
    return /^-?\d+$/.test(value.slice(1)) ? BigInt(value.slice(1)) : Number(value.slice(1));
  });
}

const LAYERS_MOST = 10_000n, SIZE_MOST = 10_000_000n, LENGTH_MOST = 10n ** 12n;

const is_dict = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const at = (dict, key) => (is_dict(dict) && Object.hasOwn(dict, key) ? dict[key] : null);
const truthy = (value) => Boolean(value) && (typeof value !== "object" || Object.keys(value).length > 0);
const names_of = (key) => at(T.NAMES, key) ?? [key];

function whole(name, value, most = SIZE_MOST, low = 1n) {
  if (Number.isInteger(value)) value = BigInt(value); // 32.0
  if (typeof value !== "bigint") throw new ValueError(`${name} is ${repr(value)}: it must be a whole number`);
  if (value < low) throw new ValueError(`${name} is ${value}: it must be at least ${low}`);
  if (value > most) throw new ValueError(`${name} is ${value}: more than ${shown(most)} can't be meant`);
  return value;
}

class Fields {
  constructor(values, family) {
    Object.assign(this, { values, family, warnings: [] });
  }
  warn(sentence) {
    if (!this.warnings.includes(sentence)) this.warnings.push(sentence);
  }
  named(key) {
    for (const name of names_of(key)) {
      const value = name.split(".").reduce(at, this.values);
      if (value !== null) return [name, value];
    }
    return [key, null];
  }
  get(key) {
    const value = this.named(key)[1], known = at(at(T.DEFAULTS, this.family), key);
    if (value !== null || known === null || names_of(key).some((name) => Object.hasOwn(this.values, name))) return value;
    const said = Array.isArray(known) ? `(${known.map(repr).join(", ")})` : known;
    if (typeof known !== "boolean") this.warn(`config lacks ${key}: ${said} is taken, the default of ${this.family}`);
    return known;
  }
  whole(key, most = SIZE_MOST, low = 1n) {
    const value = this.get(key);
    return value === null ? null : whole(this.named(key)[0], value, most, low);
  }
  need(key, what, most = SIZE_MOST) {
    const value = this.whole(key, most);
    if (value === null) throw new ValueError(`config lacks ${key}: ${what}`);
    return value;
  }
  flag(key) {
    const value = this.get(key);
    if (value !== null && typeof value !== "boolean") throw new ValueError(`${key} is ${repr(value)}: it must be true or false`);
    return value;
  }
  items(key) {
    const value = this.get(key);
    if (value !== null && !Array.isArray(value)) throw new ValueError(`${this.named(key)[0]} is ${repr(value)}: it must be a list`);
    return value;
  }
  at(key, layer, most = SIZE_MOST) {
    const own = at(at(at(this.values, "per_layer_config"), String(layer)), key);
    if (own !== null) return whole(`${key} of layer ${layer}`, own, most);
    const [name, value] = this.named(key);
    if (!Array.isArray(value)) return this.whole(key, most);
    if (layer >= value.length) throw new ValueError(`${name} holds ${value.length} numbers: layer ${layer} has none`);
    return whole(`${name}[${layer}]`, value[layer], most);
  }
  get count() {
    const layers = this.need("num_hidden_layers", "how many layers there are", LAYERS_MOST);
    const doubled = this.family.startsWith("longcat_flash") && this.named("num_hidden_layers")[0] === "num_layers";
    return doubled ? 2n * layers : layers;
  }
}

// A kind for each layer, from its number.
const each_layer = (c, kind) => Array.from({ length: Number(c.count) }, (_, i) => kind(i));

export function parse(text, name = "") {
  let config;
  try {
    config = json(text);
  } catch (error) {
    throw new ValueError(`this is not JSON: ${error.message}`);
  }
  return read(config, name);
}

export function read(config, name = "") {
  if (!is_dict(config)) {
    const type = config === null ? "NoneType" : Array.isArray(config) ? "list"
      : { string: "str", bigint: "int", number: "float", boolean: "bool" }[typeof config];
    throw new ValueError(`a config is a JSON object of keys and values, not a ${type}`);
  }
  const values = _merged(config), family = at(values, "model_type"), path = at(values, "_name_or_path");
  const c = new Fields(values, truthy(family) ? str(family) : "");
  _refuse(c);
  const own = _dtype(c, config);
  const layers = _layers(c, own, own), keys = layers.map(_kind), different = [...new Set(keys)];
  const order = keys.map((key) => different.indexOf(key));
  _remark(c);
  const groups = different.map((key, i) => ({ ...layers[keys.indexOf(key)], count: times(order, i) }));
  const vocabulary = c.whole("vocab_size"), longest = c.whole("max_position_embeddings", LENGTH_MOST);
  name ||= truthy(path) ? str(path) : c.family || "config";
  return CacheShape({ name, groups, order, family: c.family, vocabulary, longest, warnings: c.warnings });
}

function _merged(config) {
  for (const key of T.NESTED) {
    if (!is_dict(at(config, key))) continue;
    const around = Object.fromEntries(Object.entries(config).filter(([name]) => !T.NESTED.includes(name)));
    return _merged({ ...around, ...config[key] });
  }
  return config;
}

function _refuse(c) {
  if (at(T.UNMODELLED, c.family) !== null) {
    throw new ValueError(`models of type ${c.family} are not modelled: ${T.UNMODELLED[c.family]}`);
  }
  if (c.flag("is_encoder_decoder")) throw new ValueError("is_encoder_decoder: cross-attention over an encoded text is not modelled");
  if (c.get("compress_ratios") !== null) {
    throw new ValueError("compress_ratios: attention that keeps one entry for several tokens is not modelled");
  }
}

function _dtype(c, outer) {
  const named = [outer, c.values].flatMap((place) => ["dtype", "torch_dtype"].map((key) => at(place, key)));
  const given = named.find((value) => value !== null) ?? null;
  const short = str(given).replace(/^torch\./, "");
  if (short === "float32") c.warn("the model's dtype is float32: the cache is counted so, though engines may cast it to 16 bits");
  if (["bfloat16", "float16", "float32"].includes(short)) return cache_dtype(short);
  const said = given === null ? "config lacks torch_dtype" : `torch_dtype is ${repr(given)}`;
  c.warn(`${said}: the cache is counted in bfloat16`);
  return cache_dtype("bf16");
}

function _remark(c) {
  if (!c.family) c.warn("config lacks model_type: read by the general rules");
  else if (!Object.hasOwn(T.DEFAULTS, c.family) && !T.ALL_SLIDE.includes(c.family) && !T.PLAIN.includes(c.family)) {
    c.warn(`model_type ${c.family} is not known here: read by the general rules`);
  }
  const quantised = c.get("quantization_config");
  if (["kv_cache_scheme", "kv_cache_quant_algo"].some((key) => truthy(at(quantised, key)))) {
    c.warn("quantization_config asks for a quantised cache, which engines may follow: give its dtype to count it so");
  }
  if (truthy(c.get("use_sconv"))) c.warn("use_sconv: short convolutions beside the attention keep a few inputs a layer, not counted");
  if (c.get("index_head_dim") !== null && c.get("kv_lora_rank") === null) {
    c.warn("index_head_dim without latent attention: the indexer's keys are not modelled and not counted");
  }
  for (const key of ["num_nextn_predict_layers", "mtp_num_hidden_layers"]) {
    const extra = c.whole(key, LAYERS_MOST, 0n);
    if (extra) c.warn(`${key} is ${extra}: layers that cache only where the model drafts for itself, not counted`);
  }
}

// ---- config: a kind for each layer

function _known(name, value, table = T.KINDS) {
  if (typeof value !== "string" || !Object.hasOwn(table, value)) {
    throw new ValueError(`${name} names ${repr(value)}, which is not known here; known are ${Object.keys(table).join(", ")}`);
  }
  return table[value];
}

function _fitting(c, name, kinds) {
  const layers = c.whole("num_hidden_layers", LAYERS_MOST);
  const extra = layers === null ? 0n : BigInt(kinds.length) - layers;
  if (extra && extra !== c.whole("num_nextn_predict_layers", LAYERS_MOST, 0n)) {
    throw new ValueError(`${name} names ${kinds.length} layers, num_hidden_layers is ${layers}`);
  }
  return layers === null ? kinds : kinds.slice(0, Number(layers));
}

function _by_layer_types(c) {
  const names = c.items("layer_types");
  if (names === null) return null;
  const name = c.named("layer_types")[0];
  const kinds = _fitting(c, name, names.map((value) => _known(name, value)));
  return c.flag("use_sliding_window") === false ? kinds.map((kind) => (kind === "sliding" ? "full" : kind)) : kinds;
}

function _by_block_types(c) {
  const names = c.items("block_types");
  if (!names?.length) return null;
  const kinds = names.map((value) => _known("block_types", value));
  const local = c.get("local_window") !== null;
  return each_layer(c, (i) => (local && kinds[i % kinds.length] === "full" ? "sliding" : kinds[i % kinds.length]));
}

function _by_attention_types(c) {
  const pairs = c.items("attention_types");
  if (pairs === null) return null;
  if (!pairs.every((pair) => Array.isArray(pair) && pair.length === 2 && Array.isArray(pair[0]))) {
    throw new ValueError(`attention_types is ${repr(pairs)}: it must be a list of [names, how often]`);
  }
  const kinds = pairs.flatMap(([names, times]) => Array(Number(whole("attention_types", times, LAYERS_MOST))).fill(names).flat()
    .map((name) => _known("attention_types", name)));
  return _fitting(c, "attention_types", kinds);
}

function _by_letters(c) {
  const letters = c.get("hybrid_override_pattern");
  if (letters === null) return null;
  if (typeof letters !== "string") throw new ValueError(`hybrid_override_pattern is ${repr(letters)}: it must be a text of letters`);
  return _fitting(c, "hybrid_override_pattern", [...letters].map((one) => _known("hybrid_override_pattern", one, T.LETTERS)));
}

function _by_numbers(c) {
  for (const [key, kinds] of [["attn_type_list", ["linear", "full"]], ["hybrid_layer_pattern", ["full", "sliding"]]]) {
    const numbers = c.items(key);
    if (numbers !== null) return _fitting(c, key, numbers.map((number) => kinds[whole(key, number, 1n, 0n)]));
  }
  return null;
}

function _by_blocks(c) {
  const blocks = c.items("block_configs");
  if (blocks === null) return null;
  const kinds = blocks.map((block, i) => {
    const own = at(block, "attention");
    if (!is_dict(own)) throw new ValueError(`block_configs[${i}] lacks attention: what the layer keeps`);
    if (at(own, "window_length") !== null || at(own, "sparsify") !== null) {
      throw new ValueError(`block_configs[${i}].attention: window_length and sparsify are not modelled`);
    }
    return truthy(at(own, "no_op")) || truthy(at(own, "replace_with_linear")) ? "none" : "full";
  });
  return _fitting(c, "block_configs", kinds);
}

function _by_indices(c) {
  const state = c.get("conv_L_cache") !== null ? "conv" : "linear";
  for (const [key, listed, others] of [
    ["linear_attn_config.full_attn_layers", "full", "linear"], ["attn_layer_indices", "full", state],
    ["hybrid_layer_ids", "both", "linear"], ["local_layer_ids", "sliding", "full"], ["cross_attention_layers", "none", "full"],
  ]) {
    const numbers = c.items(key);
    if (numbers === null) continue;
    let found = new Set(numbers.map((number) => whole(key, number, LAYERS_MOST, 0n)));
    if (key.startsWith("linear_attn_config")) {
      const all = [...found, ...(c.items("linear_attn_config.kda_layers") ?? [])];
      if (!all.some((one) => one === 0n || one === 0 || one === false)) found = new Set([...found].map((one) => one - 1n));
    }
    if (key === "cross_attention_layers") c.warn("cross_attention_layers keep the keys of an image, not of the text: not counted");
    const last = [...found].reduce(greatest, -1n);
    if (last >= c.count) throw new ValueError(`${key} names layer ${last} of ${c.count}`);
    return each_layer(c, (i) => (found.has(BigInt(i)) ? listed : others));
  }
  return null;
}

function _by_period(c) {
  let period = c.whole("attn_layer_period");
  if (period !== null) {
    const offset = c.whole("attn_layer_offset", SIZE_MOST, 0n) ?? 0n;
    return each_layer(c, (i) => (BigInt(i) % period === offset ? "full" : "linear"));
  }
  period = c.whole("full_attention_interval") ?? c.whole("layer_group_size");
  return period === null ? null : each_layer(c, (i) => ((BigInt(i) + 1n) % period ? "linear" : "full"));
}

function _by_state(c) {
  if (c.get("mamba_d_state") === null) return null;
  if (c.get("mamba_d_ssm") !== null || c.family === "falcon_h1") return each_layer(c, () => "both");
  if (c.get("num_attention_heads") === null || ["mamba", "mamba2", "falcon_mamba"].includes(c.family)) return each_layer(c, () => "linear");
  throw new ValueError("config lacks layer_types: which layers are Mamba and which are attention");
}

function _by_chunks(c) {
  if (!["llama4", "llama4_text"].includes(c.family) || c.whole("attention_chunk_size", LENGTH_MOST) === null) return null;
  const rope = c.items("no_rope_layers");
  if (!rope?.length) {
    const every = c.need("no_rope_layer_interval", "every how many layers attention is full");
    return each_layer(c, (i) => ((BigInt(i) + 1n) % every ? "chunked" : "full"));
  }
  return _fitting(c, "no_rope_layers", rope.map((one) => (whole("no_rope_layers", one, 1n, 0n) ? "chunked" : "full")));
}

function _by_windows(c) {
  if (c.flag("use_sliding_window") === false || c.get("sliding_window") === null) return null;
  const pattern = c.get("sliding_window_pattern");
  if (typeof pattern === "string" && pattern) {
    const kinds = [...pattern].map((one) => _known("sliding_window_pattern", one, { L: "sliding", G: "full" }));
    return each_layer(c, (i) => kinds[i % kinds.length]);
  }
  if (pattern !== null) {
    const every = whole("sliding_window_pattern", pattern);
    return each_layer(c, (i) => ((BigInt(i) + 1n) % every ? "sliding" : "full"));
  }
  const first = c.whole("max_window_layers", LAYERS_MOST, 0n);
  if (first !== null) return each_layer(c, (i) => (BigInt(i) >= first ? "sliding" : "full"));
  const window = c.whole("sliding_window", LENGTH_MOST), longest = c.whole("max_position_embeddings", LENGTH_MOST);
  if (window && longest && window >= longest) {
    c.warn(`sliding_window ${window} reaches the model's maximum of ${longest}: read as full attention`);
    return null;
  }
  if (!T.ALL_SLIDE.includes(c.family)) c.warn("the config has a sliding_window and no pattern: all layers are read as sliding");
  return each_layer(c, () => "sliding");
}

const RULES = [
  _by_layer_types, _by_block_types, _by_attention_types, _by_letters, _by_numbers, _by_blocks, _by_indices, _by_period,
  _by_state, _by_chunks, _by_windows,
];

function _kinds(c) {
  for (const rule of RULES) {
    const kinds = rule(c);
    if (kinds !== null) return kinds;
  }
  return each_layer(c, () => "full");
}

// ---- config: what a layer of a kind keeps

function _layers(c, dtype, own) {
  const kinds = _kinds(c);
  if (!kinds.length) throw new ValueError("config names no layers");
  return _shared(c, kinds.map((kind, i) => _layer(c, kind, i, dtype, own)));
}

function _layer(c, kind, i, dtype, own) {
  if (kind === "none") return Layers("none", 1n);
  if (["full", "sliding", "chunked"].includes(kind)) return _attention(c, kind, i, dtype);
  if (kind === "both") return { ..._attention(c, "full", i, dtype), state: _mamba(c, own).state };
  return { linear: _linear, conv: _conv, lru: _lru }[kind](c, own);
}

function _attention(c, kind, i, dtype) {
  const window = _window(c, kind, i);
  if (c.get("kv_lora_rank") !== null && c.flag("use_mla") !== false) return _latent(c, kind, i, window, dtype);
  const width = _head_size(c, kind, i), heads = _kv_heads(c, kind, i), value_width = _value_size(c, kind, i);
  return attention(1n, heads, width, { value_width, window, chunked: kind === "chunked", k: dtype, v: dtype });
}

function _window(c, kind, i) {
  if (kind === "sliding") {
    const own = c.whole("local_window", LENGTH_MOST) || c.at("sliding_window", i, LENGTH_MOST);
    return own || c.need("sliding_window", "how many tokens a sliding layer looks at", LENGTH_MOST);
  }
  return kind === "chunked" ? c.need("attention_chunk_size", "how many tokens a chunk has", LENGTH_MOST) : null;
}

function _kv_heads(c, kind, i) {
  let own = kind === "sliding" ? c.at("swa_num_key_value_heads", i) : null;
  if (own !== null) return own;
  own = c.whole("global_num_key_value_heads");
  if (kind === "full" && own !== null && c.flag("attention_k_eq_v") !== false) return own;
  const group = _block_group(c, i);
  if (group !== null) return _quotient(c, "num_attention_heads", c.need("num_attention_heads", "which a block's groups divide"), group);
  const one = _multi_query(c);
  if (one !== null) return one;
  const given = c.at("num_key_value_heads", i), heads = c.at("num_attention_heads", i);
  if (given !== null) {
    if (heads !== null && heads % given && !truthy(at(c.values, "num_attention_heads_per_layer"))) {
      throw new ValueError(`${heads} attention heads can't share ${given} key-value heads: one must divide the other`);
    }
    return given;
  }
  if (heads === null) {
    throw new ValueError("config lacks num_attention_heads: how many heads there are, as num_key_value_heads is missing too");
  }
  return heads;
}

function _block_group(c, i) {
  const blocks = c.get("block_configs");
  const group = at(at(Array.isArray(blocks) ? blocks[i] ?? null : null, "attention"), "n_heads_in_group");
  return group === null ? null : whole(`block_configs[${i}].attention.n_heads_in_group`, group);
}

function _multi_query(c) {
  if (c.flag("multi_query_attention")) return c.need("multi_query_group_num", "how many key-value heads there are");
  if (c.get("attn_config.attn_type") === "multiquery_attention") return 1n;
  if (c.flag("multi_query") === null || c.flag("new_decoder_architecture") || c.named("n_head_kv")[1] !== null) return null;
  return c.flag("multi_query") ? 1n : c.need("num_attention_heads", "how many heads there are");
}

function _head_size(c, kind, i) {
  const given = (kind === "full" ? c.whole("global_head_dim") : null) ?? (kind === "sliding" ? c.at("swa_head_dim", i) : null)
    ?? c.at("head_dim", i);
  if (given !== null) return given;
  const hidden = c.need("hidden_size", "the head size, as head_dim is missing too");
  const heads = c.need("num_attention_heads", "the head size, as head_dim is missing too");
  const size = _quotient(c, "hidden_size", hidden, heads);
  c.warn(`config lacks head_dim: ${size} is taken, hidden_size ${hidden} over ${heads} heads`);
  return size;
}

function _quotient(c, name, whole, parts) {
  if (whole % parts) throw new ValueError(`config lacks head_dim: ${name} ${whole} does not divide by ${parts}`);
  return whole / parts;
}

function _value_size(c, kind, i) {
  if (c.flag("use_mla") === false) return null;
  return (kind === "sliding" ? c.at("swa_v_head_dim", i) : null) ?? c.at("v_head_dim", i);
}

function _latent(c, kind, i, window, dtype) {
  const rank = c.need("kv_lora_rank", "the width of the latent vector");
  const rope = c.whole("qk_rope_head_dim", SIZE_MOST, 0n);
  if (rope === null) throw new ValueError("config lacks qk_rope_head_dim: the width of the part with positions");
  const index = kind === "full" && _indexes(c, i) ? c.whole("index_head_dim") || 0n : 0n;
  if (index && (c.whole("index_kpool") || 1n) > 1n) c.warn("index_kpool is not modelled: the indexer's keys are counted for every token");
  const layer = latent(1n, rank, rope || 1n, { index, dtype });
  const token = layer.token.filter((part) => rope || part.role !== "rope");
  return { ...layer, kind: window === null ? layer.kind : kind, token, window };
}

function _indexes(c, i) {
  const types = c.items("indexer_types");
  if (types !== null) return i >= types.length || types[i] !== "shared";
  const pattern = c.get("index_topk_pattern");
  if (typeof pattern === "string" || Array.isArray(pattern)) return i >= pattern.length || !["S", "shared"].includes(pattern[i]);
  const every = c.whole("index_topk_freq") || 1n, offset = c.whole("index_skip_topk_offset", SIZE_MOST, 0n);
  return greatest(BigInt(i) - (offset ?? 2n) + 1n, 0n) % every === 0n;
}

function _state_dtype(c, own) {
  const given = c.get("mamba_ssm_dtype");
  if (given !== null && given !== "auto") return cache_dtype(given);
  c.warn(`config lacks mamba_ssm_dtype: states are counted in ${own.name}`);
  return own;
}

function _linear(c, own) {
  if (c.get("linear_num_value_heads") !== null) {
    return gated_delta(1n, {
      value_heads: c.need("linear_num_value_heads", "the heads of the linear layers' values"),
      key_heads: c.need("linear_num_key_heads", "the heads of the linear layers' keys"),
      key_width: c.need("linear_key_head_dim", "the size of a linear layer's key"),
      value_width: c.need("linear_value_head_dim", "the size of a linear layer's value"),
      kernel: c.need("linear_conv_kernel_dim", "the length of the linear layers' convolution"),
      state: _state_dtype(c, own), conv: own,
    });
  }
  if (c.get("linear_num_heads") !== null || c.get("short_conv_kernel_size") !== null) {
    const heads = c.whole("linear_num_heads") || c.need("num_attention_heads", "the heads of the linear layers");
    const width = c.whole("linear_head_dim") || _head_size(c, "linear", 0);
    const kernel = c.need("linear_conv_kernel_dim", "the length of the linear layers' convolution");
    return gated_delta(1n, { value_heads: heads, key_heads: heads, key_width: width, value_width: width, kernel, state: _state_dtype(c, DTYPES.f32), conv: own });
  }
  if (c.get("mamba_d_state") !== null) return _mamba(c, own);
  if (["minimax", "bailing"].some((begin) => c.family.startsWith(begin))) {
    const heads = c.need("num_attention_heads", "the heads of lightning attention"), width = _head_size(c, "linear", 0);
    return Layers("recurrent", 1n, [], [Part("state", heads, width * width, _state_dtype(c, DTYPES.f32))]);
  }
  throw new ValueError("config lacks linear_num_value_heads: the sizes of its linear layers (or those of Mamba: mamba_d_state)");
}

function _mamba(c, own) {
  const state_size = c.need("mamba_d_state", "the size of a Mamba state");
  const kernel = c.need("mamba_d_conv", "the length of the Mamba layers' convolution");
  if (c.get("mamba_n_groups") === null) {
    return mamba(1n, { channels: _channels(c), state_size, kernel, state: _state_dtype(c, own), conv: own });
  }
  const heads = c.need("mamba_num_heads", "the heads of the Mamba layers");
  return mamba2(1n, {
    heads, width: _mamba_width(c, heads), state_size, groups: c.need("mamba_n_groups", "the groups of the Mamba layers"), kernel,
    state: _state_dtype(c, own), conv: own,
  });
}

function _channels(c) {
  const inner = at(c.values, "mamba_expand") === null ? c.whole("intermediate_size") : null;
  return inner ?? c.need("mamba_expand", "inner channels over hidden_size") * c.need("hidden_size", "the width of the model");
}

function _mamba_width(c, heads) {
  const given = c.get("mamba_head_dim");
  if (given !== null && given !== "auto") return c.need("mamba_head_dim", "the size of a Mamba head");
  const width = c.family === "mamba2" ? c.whole("head_dim") : null;
  return width ?? _quotient(c, "the inner width", c.whole("mamba_d_ssm") || _channels(c), heads);
}

function _conv(c, own) {
  const past = c.need("conv_L_cache", "the length of the convolution") - 1n;
  const width = c.whole("conv_dim") || c.need("hidden_size", "the width of the convolution");
  return Layers("recurrent", 1n, [], [Part("conv", width, 1n, own, greatest(1n, past))]);
}

function _lru(c, own) {
  const width = c.whole("lru_width") || c.need("hidden_size", "the width of the recurrence");
  const past = (c.whole("conv1d_width") || 4n) - 1n;
  return Layers("recurrent", 1n, [], [Part("state", width, 1n, cache_dtype("f32")), Part("conv", width, 1n, own, greatest(1n, past))]);
}

function _shared(c, layers) {
  const number = BigInt(layers.length), last = c.whole("num_kv_shared_layers", LAYERS_MOST, 0n) || 0n;
  if (last >= number) throw new ValueError(`num_kv_shared_layers is ${last}: some of the ${number} layers must keep a cache`);
  const factor = c.flag("use_cla") === false ? 1n : c.whole("cla_share_factor", LAYERS_MOST) || 1n;
  if (factor > 1n && c.flag("use_cla") === null) c.warn(`config lacks use_cla: cla_share_factor ${factor} is followed`);
  const reads = (i) => i >= number - last || i % factor !== 0n;
  return layers.map((layer, i) => (reads(BigInt(i)) && layer.token.length ? Layers("shared", 1n) : layer));
}
