"""The KV calculator in the browser: its rules equal Python's to the byte, and its page works without a kernel.

Needs Chromium; without it these tests are skipped, except in CI, where they fail.
"""

import json
import math
import random
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright import sync_api

import specdec.book
from lab_pages import browser, busy, free_tabs, javascript, open_labs, settled, tab  # noqa: F401  (fixtures)
from specdec.book import kv_lab
from specdec.kv import catalogue, config, engines, plan, shape
from specdec.kv.dtypes import DTYPES

FOLDER = Path(specdec.book.__file__).parent
RULES = (FOLDER / "kv_rules.mjs").read_text("utf-8")
RUN = """
globalThis.imported = ([tables, texts]) => {
  learn(json(tables).tables);
  const plain = (key, value) => (typeof value === "bigint" ? String(value) : key === "dtype" ? value.name : value);
  return JSON.stringify(texts.map((text) => {
    try {
      return parse(text);
    } catch (error) {
      return { error: error instanceof ValueError ? error.message : `not a ValueError: ${error}` };
    }
  }), plain);
};
globalThis.run = ([tables, text]) => {
  learn(json(tables).tables);
  const plain = (key, value) => (typeof value === "bigint" || value === Infinity ? String(value) : value);
  return JSON.stringify(json(text).map((given) => {
    try {
      return outcome(given);
    } catch (error) {
      return error instanceof ValueError ? { error: error.message } : { failed: String(error) };
    }
  }), plain);
};
function made(given, dtypes) {
  if (given === null) return null;
  const own = (part) => ({ ...part, dtype: DTYPES[part.dtype.name] });
  const groups = given.groups.map((group) => ({ ...group, token: group.token.map(own), state: group.state.map(own) }));
  return with_dtypes(CacheShape({ ...given, groups }), dtypes);
}
function outcome(given) {
  const dtypes = { k: given.k, v: given.v }, { tp, pp, shared, gamma, length, sequences } = given;
  const target = made(given.target, dtypes), draft = made(given.draft, {});
  const speculation = gamma === null ? null : Speculation(gamma, { draft, rows: given.rows });
  const profile = engine(given.engine, given.options), { partition, weights, activations, utilisation } = given;
  const plan = new Plan(target, { engine: profile, speculation, tp, pp, shared, partition });
  const budget = available(given.memory, { weights, activations, utilisation });
  const found = plan.storage(length, sequences);
  return {
    lines: found.lines.map((line) => [line.label, line.formula, line.bytes]), parts: found.parts, warnings: found.warnings,
    bytes: found.bytes, token: bytes_per_token(target, tp), fixed: fixed_bytes(target, tp),
    fits: plan.fits(length, sequences, budget),
    solved: given.solve ? [plan.sequences(length, budget), plan.length(sequences, budget)] : null,
    log: given.engine === "vllm" ? plan.engine.log(target, budget, length, tp, gamma ?? 0n) : null,
  };
}
"""
PYTHON = {"ideal": engines.Ideal, "vllm": engines.VLLM, "llama.cpp": engines.LlamaCpp}


# ---- random settings -------------------------------------------------------------------------------------------------------

SIZES = [1, 2, 3, 8, 16, 64, 80, 100, 128, 192, 256, 512, 576]
NUMBERS = [1, 2, 3, 5, 16, 24, 32, 61]
HEADS = [1, 2, 4, 8, 10, 16, 32]


def layers(rng, heads, width, value_width):
    """One group of layers, of any kind."""
    number = rng.choice(NUMBERS)
    kind = rng.randrange(9)
    if kind < 2:
        return shape.attention(number, heads, width, value_width=value_width, k=rng.choice(["bf16", "bf16", *DTYPES]))
    if kind < 4:
        window = rng.choice([1, 128, 1000, 1024, 4096])
        chunked = rng.random() < 0.5
        return shape.attention(number, heads, width, value_width=value_width, window=window, chunked=chunked)
    if kind == 4:
        return shape.latent(number, 512, 64, index=rng.choice([0, 128]), dtype=rng.choice(["bf16", "fp8_ds_mla"]))
    if kind == 5:
        return shape.gated_delta(number, value_heads=32, key_heads=16, key_width=128, value_width=width, kernel=4)
    if kind == 6:
        return shape.mamba2(number, heads=64, width=64, state_size=128, groups=8, kernel=4)
    if kind == 7:
        return shape.mamba(number, channels=64 * width, state_size=16, kernel=4)
    return rng.choice([shape.Layers("none", number), shape.Layers("shared", number), both(number, heads, width)])


def both(number, heads, width):
    """Attention and a state in one layer, as in Falcon-H1."""
    state = shape.mamba2(number, heads=24, width=64, state_size=128, groups=1, kernel=4).state
    return replace(shape.attention(number, heads, width), state=state)


FALCON_H1 = {
    "model_type": "falcon_h1", "num_hidden_layers": 36, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
    "hidden_size": 2048, "mamba_d_ssm": 3072, "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 256, "mamba_d_conv": 4,
    "mamba_n_groups": 1, "torch_dtype": "bfloat16", "vocab_size": 65536,
}  # fmt: skip
SPECIAL = [  # states with attention, alternating or in one layer; stages that keep nothing; what llama.cpp drops, keeps, or may
    config.read(FALCON_H1, name="Falcon-H1"),
    *map(catalogue.load, ["Qwen3.5-27B", "Jamba-v0.1", "Nemotron-3-Nano-30B-A3B", "Gemma-4-E4B"]),
    *map(catalogue.load, ["Mistral-7B-v0.1", "gpt-oss-20b", "Llama-4-Scout-17B-16E"]),
]


def model(rng):
    """A model: one of the catalogue, or groups put together at random."""
    if rng.random() < 0.4:
        return catalogue.load(rng.choice(catalogue.names())) if rng.random() < 0.5 else rng.choice(SPECIAL)
    sizes = rng.choice(HEADS), rng.choice(SIZES), None  # as of most models; else each kind of layers has its own
    alike, number = rng.random() < 0.7, rng.choice([1, 1, 2, 2, 3])
    groups = [
        layers(rng, *(sizes if alike else (rng.choice(HEADS), rng.choice(SIZES), rng.choice([None, *SIZES]))))
        for _ in range(number)
    ]
    if not any(group.token or group.state for group in groups) and rng.random() < 0.9:
        groups.append(shape.attention(2, 2, 64))
    order = [i for i, group in enumerate(groups) for _ in range(group.count)]
    rng.shuffle(order)
    family = rng.choice(["", "gemma3", *["mistral", "unheard_of"] * 2])
    vocabulary, longest = rng.choice([None, *[32_000, 128_256, 151_936] * 4]), rng.choice([None, 4096, 131_072])
    return shape.CacheShape("random", tuple(groups), tuple(order), family, vocabulary, longest, ("noted",))


def setting(rng):
    """Everything that a plan is made of, as JSON takes it; some totals pass 2^63."""
    name = rng.choice([*engines.ENGINES, "vllm", "vllm", "vllm", "llama.cpp"])
    options = {
        "vllm": lambda: {
            "block": rng.choice([1, 16, 32, 48, 128]), "hybrid": rng.random() < 0.7, "state_blocks": rng.choice([1, 2]),
            "batched_tokens": rng.choice([None, None, 2048, 8192]), "grain": rng.choice([None, None, 8]),
        },
        "llama.cpp": lambda: {
            "ubatch": rng.choice([1, 512, 2048]), "unified": rng.random() < 0.5, "swa_full": rng.random() < 0.3,
        },
    }.get(name, dict)()  # fmt: skip
    shared = rng.choice([0, 0, 1, 100, 1024, 4000])
    target, tp, pp = model(rng), rng.choice([*[1, 1, 1, 2, 2, 4, 8] * 3, 3]), rng.choice([1, 1, 2, 3, 4])
    latent, partition = any(group.kind == "latent" for group in target.groups), None
    if pp == 2 and target.layers > 2 and rng.random() < 0.5:
        first = rng.randrange(target.layers)
        partition = [first, target.layers - first]
    return {
        "target": target, "draft": rng.choice([None, *[model(rng)] * 2]), "gamma": rng.choice([None, 0, 1, 4, 7, 8]),
        "rows": "f32",
        "k": rng.choice([*[None, None, "fp8", "q8_0", "torch.float16", "fp8_ds_mla" if latent else "bf16"] * 5, "fp3"]),
        "v": rng.choice([None, None, "q4_0", "nvfp4", "F16"]),
        "engine": name if rng.random() < 0.98 else "lmdeploy", "options": options, "tp": tp, "pp": pp, "partition": partition,
        "shared": shared, "length": shared + 1 + int(2 ** rng.uniform(0, rng.choice([16, 16, 50]))),
        "sequences": int(2 ** rng.uniform(0, rng.choice([10, 10, 40]))), "memory": int(2 ** rng.uniform(30, 60)),
        "weights": int(2 ** rng.uniform(20, 34)), "activations": rng.choice([0, 10**9]),
        "solve": rng.random() < 0.3,
        "utilisation": rng.choice([*[(9, 10), (1, 1), (95, 100), (1, 2)] * 8, (11, 10)]),
    }  # fmt: skip


def outcome(given):
    """What Python says of a setting, or the error that it raises."""
    try:
        target = given["target"].with_dtypes(given["k"], given["v"])
        speculation = None if given["gamma"] is None else plan.Speculation(given["gamma"], given["draft"], rows=given["rows"])
        profile = engines.engine(given["engine"])
        if given["options"]:
            profile = PYTHON[given["engine"]](**given["options"])
        tp, length, sequences = given["tp"], given["length"], given["sequences"]
        whole = plan.Plan(target, profile, speculation, tp, given["pp"], given["partition"], given["shared"])
        budget = plan.available(
            given["memory"], weights=given["weights"], activations=given["activations"], utilisation=given["utilisation"]
        )
        found = whole.storage(length, sequences)
        solved = [whole.sequences(length, budget), whole.length(sequences, budget)] if given["solve"] else None
        return {
            "lines": [[line.label, line.formula, line.bytes] for line in found.lines], "parts": found.parts,
            "warnings": found.warnings, "bytes": found.bytes,
            "token": target.bytes_per_token(tp), "fixed": target.fixed_bytes(tp),
            "fits": whole.fits(length, sequences, budget), "solved": solved,
            "log": log(profile, target, budget, length, tp, given["gamma"]),
        }  # fmt: skip
    except ValueError as error:
        return {"error": str(error)}


def log(profile, target, budget, length, tp, gamma):
    """The lines of vLLM's log, concurrency as a quotient that is not reduced."""
    if not isinstance(profile, engines.VLLM):
        return None
    said = profile.log(target, budget, length, tp, gamma or 0)
    return {**asdict(said), "concurrency": (said.blocks, said.blocks_per_request)}


def plain(value):
    """Integers as text, which JSON keeps exactly everywhere; tuples as lists."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return "Infinity" if value == math.inf else str(int(value))


def sent(settings):
    """The settings as JavaScript takes them."""
    models = lambda given: {key: given[key] and asdict(given[key]) for key in ("target", "draft")}  # noqa: E731
    return json.dumps([{**given, **models(given)} for given in settings])


def asked(page, text):
    """What JavaScript says of the settings, in one call."""
    return json.loads(page.evaluate("given => run(given)", [kv_lab.KVLab.facts(), text]))


@pytest.fixture(scope="module")
def cases():
    """500 settings and what Python says of them."""
    rng = random.Random(8)
    settings = [setting(rng) for _ in range(500)]
    return settings, [plain(outcome(given)) for given in settings]


@pytest.fixture(scope="module")
def parts(cases):
    """The same by the hundred, as text, without what is searched for: a wrong rule could search without end."""
    settings = [{**given, "solve": False} for given in cases[0]]
    expected = [{**case, "solved": None} if "error" not in case else case for case in cases[1]]
    return [(sent(settings[i : i + 100]), expected[i : i + 100]) for i in range(0, len(settings), 100)]


def test_the_browser_equals_python_to_the_byte(javascript, cases):  # noqa: F811
    settings, expected = cases
    for given, python, browser in zip(settings, expected, asked(javascript(RULES + RUN), sent(settings)), strict=True):  # noqa: F402
        assert browser == python, given
    solved = [(given, case) for given, case in zip(settings, expected, strict=True) if "error" not in case]
    assert len(solved) >= 270
    assert len({case["error"].split()[0] for case in expected if "error" in case}) >= 5
    counted = Counter(fact for given, case in solved for fact in facts(given, case))
    assert {fact: number for fact, number in counted.items() if number < 5} == {}
    assert len(counted) == 12


def facts(given, case):
    """What makes a setting worth comparing."""
    target, draft, vllm, llama = given["target"], given["draft"], given["engine"] == "vllm", given["engine"] == "llama.cpp"
    tokens, states = (any(getattr(group, kind) for group in target.groups) for kind in ("token", "state"))
    windows = {group.window is not None for group in target.groups if group.token}
    kept = [target.family in families for families in (engines.LLAMA_CPP_WINDOWS, engines.LLAMA_CPP_FULL, ("unheard_of",))]
    beside = bool(given["gamma"]) and draft is not None
    yield from ["past int64"] * (int(case["bytes"]) >= 2**63)
    yield from ["a hybrid with proposals"] * (bool(given["gamma"]) and tokens and states)
    yield from ["attention and state in one layer"] * any(group.token and group.state for group in target.groups)
    yield from ["a stage that keeps nothing"] * any(stage.empty for stage in target.stages(given["pp"], given["partition"]))
    yield from ["a draft in vLLM's pool"] * (vllm and beside)
    yield from ["a draft in vLLM's pool, with states"] * (vllm and beside and any(group.state for group in draft.groups))
    yield from ["a draft of its own, in another engine"] * (not vllm and beside and draft != target)
    yield from ["windows among full layers in vLLM"] * (vllm and given["options"]["hybrid"] and len(windows) == 2)
    yield from ["windows given up in vLLM"] * (vllm and not given["options"]["hybrid"] and len(windows) == 2)
    yield from [f"llama.cpp and windows: {kept}"] * (llama and True in windows and any(kept))


def test_refusals_are_the_same(javascript):  # noqa: F811
    """Each number of a plan, below what it may be."""
    rng = random.Random(1)
    sound = {
        **setting(rng), "target": catalogue.load("Qwen3-8B"), "draft": None, "gamma": 2, "k": None, "v": None, "engine": "vllm",
        "options": {}, "tp": 1, "pp": 1, "partition": None, "shared": 0, "length": 100, "sequences": 2, "memory": 2**36,
        "weights": 0, "activations": 0, "utilisation": (9, 10),
    }  # fmt: skip
    assert "error" not in outcome(sound)
    low = {"tp": 0, "pp": 0, "length": 0, "memory": 0}
    low |= dict.fromkeys(("shared", "sequences", "gamma", "weights", "activations"), -1)
    wrong = [{**sound, key: value} for key, value in low.items()]
    options = {"vllm": ("block", "state_blocks", "batched_tokens", "grain"), "llama.cpp": ("ubatch", "pad")}
    wrong += [{**sound, "engine": name, "options": {key: 0}} for name, keys in options.items() for key in keys]
    expected = [plain(outcome(given)) for given in wrong]
    assert all("error" in each for each in expected)
    assert asked(javascript(RULES + RUN), sent(wrong)) == expected


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("pad = 256n", "pad = 255n"),
        ("(cells + size - 1n) / size", "cells / size"),
        ("greatest(1n, part.heads / tp)", "part.heads / tp"),
        ("2n * gamma + 1n", "2n * gamma"),
        ("groups * (once + use.sequences * (each - once))", "groups * use.sequences * each"),
        ("step * blocks(states.reduce(greatest), step * largest)", "blocks(states.reduce(greatest), largest)"),
        ("2n * most < 3n * fewest", "2n * most <= 3n * fewest"),
        ("other.bytes > fullest.bytes", "other.bytes < fullest.bytes"),
        ("depth: part.depth + inputs", "depth: part.depth"),
        ("inputs ? 1n : 1n + use.lookahead", "inputs ? 1n : 1n"),
        ("_state_lines(_wide(shape), use, 0n)", "_state_lines(_wide(shape), use, use.lookahead)"),
        ("use.drafted ? 2n * use.lookahead", "use.drafted ? use.lookahead"),
        ("piece.token.length && piece.window === null)", "piece.token.length)"),
        ("64n : 16n", "16n : 16n"),
        ("chunked ? gcd(group.window, size) : 1n", "1n"),
        ("bytes)) - target", "bytes))"),
        ("!T.LLAMA_CPP_FULL.includes(shape.family)", "T.LLAMA_CPP_WINDOWS.includes(shape.family)"),
        ("own !== other", "own < other"),
        ("groups * lookahead : 0n", "groups * 0n : 0n"),
    ],
)
def test_a_wrong_rule_is_caught(javascript, parts, right, wrong):  # noqa: F811
    assert right in RULES
    module = javascript(RULES.replace(right, wrong) + RUN)
    assert any(asked(module, text) != expected for text, expected in parts)  # most are caught early


# ---- the importer ----------------------------------------------------------------------------------------------------------

ODD = [
    "", "{", "[]", "null", '"text"', "3", "4.5", "true", "{}", '{"model_type": "bert"}', '{"model_type": 7}',
    '{"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 256.0, "time_step_limit": [0.0, Infinity]}',
    '{"num_hidden_layers": 1e3, "num_attention_heads": 4, "head_dim": 64, "torch_dtype": "float32"}',
    '{"num_hidden_layers": 123456789012345678901234567890, "num_attention_heads": 4, "head_dim": 64}',
    '{"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 0.1, "_name_or_path": "a \\"b\\" <i>"}',
    '{"text_config": {"model_type": "qwen2", "num_hidden_layers": 2, "n_head": 4, "head_dim": 64}, "dtype": "float16"}',
]  # fmt: skip
BASE = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "hidden_size": 256, "vocab_size": 1000}
MAMBA = {**BASE, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
DELTA = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
         "linear_conv_kernel_dim": 4}  # fmt: skip
RARE = [
    {**BASE, "model_type": "recurrent_gemma", "num_hidden_layers": 5, "conv1d_width": 4, "lru_width": 100},
    {**BASE, "attention_types": [[["global", "local"], 2], [["local"], 1]], "window_size": 256},
    {**MAMBA, "hybrid_override_pattern": "M*-ME", "n_groups": 2, "mamba_num_heads": 8, "mamba_head_dim": 64},
    {**BASE, "model_type": "minimax", "attn_type_list": [0, 0, 1], "num_hidden_layers": 3},
    {**BASE, "hybrid_layer_pattern": [0, 1, 1], "sliding_window": 128, "swa_num_key_value_heads": 4, "swa_head_dim": 32},
    {**BASE, "block_configs": [{"attention": {"no_op": True}}, {"attention": {"n_heads_in_group": 4}}]},
    {**BASE, "num_hidden_layers": 4, "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 4,
                                                         "head_dim": 32, "short_conv_kernel_size": 4}},
    {**BASE, "num_hidden_layers": 4, "attn_layer_indices": [1], "conv_L_cache": 3},
    {**MAMBA, "num_hidden_layers": 4, "hybrid_layer_ids": [1, 3], "n_mamba_heads": 2, "mamba_ngroups": 1},
    {**BASE, "num_hidden_layers": 4, "local_layer_ids": [0, 2], "sliding_window": [16, 32, 64, 128]},
    {**BASE, "num_hidden_layers": 4, "cross_attention_layers": [3]},
    {**MAMBA, "model_type": "jamba", "num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 2},
    {**BASE, **DELTA, "num_hidden_layers": 8, "full_attention_interval": 4, "num_nextn_predict_layers": 1},
    {**MAMBA, "model_type": "falcon_h1", "num_hidden_layers": 2, "mamba_n_heads": 4, "mamba_n_groups": 1, "mamba_d_ssm": 128},
    {"model_type": "mamba", "n_layer": 3, "state_size": 16, "conv_kernel": 4, "intermediate_size": 512},
    {"model_type": "mamba2", "num_hidden_layers": 3, "num_heads": 8, "head_dim": 64, "state_size": 16, "n_groups": 1,
     "conv_kernel": 4},
    {**BASE, "model_type": "llama4_text", "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0], "attention_chunk_size": 512},
    {**BASE, "num_hidden_layers": 6, "sliding_window": 128, "sliding_window_pattern": "LLG"},
    {**BASE, "num_hidden_layers": 6, "sliding_window": 128, "max_window_layers": 4, "max_position_embeddings": 64},
    {**BASE, "num_hidden_layers": 6, "kv_lora_rank": 64, "qk_rope_head_dim": 0, "index_head_dim": 32, "index_topk_freq": 2},
    {**BASE, "num_hidden_layers": 3, "kv_lora_rank": 64, "qk_rope_head_dim": 8, "index_head_dim": 32,
     "index_topk_pattern": "FSF"},
    {**BASE, "num_hidden_layers": 6, "cla_share_factor": 2, "num_kv_shared_layers": 1},
    {**BASE, "num_hidden_layers": 2, "per_layer_config": {"1": {"head_dim": 32}}, "v_head_dim": 48},
    {**BASE, "model_type": "falcon", "num_hidden_layers": 2}, {**BASE, "multi_query_attention": True, "multi_query_group_num": 2,
                                                              "num_layers": 3},
    {**BASE, "layer_types": ["full_attention", "sliding_attention", "nonsense"]},
    {**BASE, "layer_types": ["full_attention", "sliding_attention"], "global_head_dim": 128, "num_global_key_value_heads": 1,
     "sliding_window": 64},
]  # fmt: skip
WRONG = [None, 0, -1, 1, 3, 7, 2.5, 64.0, 10**30, "64", "it's", True, False, [], [1, 2], {}, {"a": 1}]


def broken(rng):
    """A config of the catalogue with keys taken out, nulled, or set to what can't be meant."""
    known = [catalogue.entry(name)["config"] for name in catalogue.names()]
    given = dict(rng.choice(known if rng.random() < 0.5 else RARE))
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        key = rng.choice(list(given) if given and rng.random() < 0.8 else list(rng.choice(RARE)))
        if rng.random() < 0.4:
            given.pop(key, None)
        else:
            given[key] = rng.choice(WRONG)
    return json.dumps({"text_config": given} if rng.random() < 0.1 else given)


def read(text):
    """What Python's importer says, as JavaScript hands it over."""
    try:
        found = config.parse(text)
    except ValueError as error:
        return {"error": str(error)}
    groups = plain(asdict(found)["groups"])
    for group in groups:
        for part in (*group["token"], *group["state"]):
            part["dtype"] = part["dtype"]["name"]
    return {**plain(asdict(found)), "groups": groups, "order": list(found.order)}


def test_the_browser_reads_configs_as_python_does(javascript):  # noqa: F811
    rng = random.Random(5)
    texts = [json.dumps(catalogue.entry(name)["config"]) for name in catalogue.names()] + ODD
    texts += [json.dumps(rare) for rare in RARE] + [broken(rng) for _ in range(400)]
    given = json.loads(javascript(RULES + RUN).evaluate("given => imported(given)", [kv_lab.KVLab.facts(), texts]))
    for text, browser in zip(texts, given, strict=True):  # noqa: F402
        python = read(text)
        if python.get("error", "").startswith("this is not JSON"):
            assert browser["error"].startswith("this is not JSON"), text
        else:
            assert browser == python, text


# ---- the page --------------------------------------------------------------------------------------------------------------

LAB = {"model": "Qwen3-32B", "tp": 2, "draft": "Qwen3-0.6B", "gamma": 5}


@pytest.fixture
def visit(open_labs):  # noqa: F811
    """Open a page that holds the calculator and nothing else; `begin` is the end of its address."""

    def visit(begin="", width=1280, script=True, **preset):
        return open_labs(kv_lab.KVLab(**{**LAB, **preset}), begin=begin, width=width, script=script)

    return visit


def answers(page):
    """The first table: what is asked, and the answer."""
    rows = page.locator(".lab-table").first.locator("tr").all()
    return {row.locator("th").inner_text(): row.locator("td").inner_text() for row in rows}


def test_the_page_shows_what_python_computes(visit):
    page, (whole, budget) = visit(), kv_lab.solved(kv_lab.KVLab.filled(LAB))
    told = answers(page)
    storage = whole.storage(8192, 32)
    assert told["Total for 32 sequences"] == f"{storage.bytes:,} B = {plan.size(storage.bytes)}"
    assert told["Budget for caches"] == f"{budget:,} B = {plan.size(budget)}"
    assert told["Bytes per token"].startswith(f"{whole.target.bytes_per_token(2):,} B")
    assert told["Fixed bytes per sequence"] == "0 B"
    assert told["Sequences that fit at this length"] == f"{whole.sequences(8192, budget):,}"
    assert told["Longest length for so many sequences"] == f"{whole.length(32, budget):,}"
    lines = page.locator(".lab-table").nth(1).locator("tbody tr").all_inner_texts()
    assert [line.split("\t")[:3] for line in lines[:-1]] == [[x.label, x.formula, f"{x.bytes:,}"] for x in storage.lines]


CHANGES = [
    ({}, {"model": "Qwen3-8B", "k": "fp8", "v": "q4_0", "length": "10000", "sequences": "7", "shared": "1000",
          "block": "128", "memory": "141", "utilisation": "80", "weights": "20.5", "activations": "3", "tp": "4", "pp": "2",
          "gamma": "3", "draft": "Qwen3-8B", "engine": "sglang"}),
    ({"model": "Gemma-3-27B", "draft": "", "tp": 1}, {"batched_tokens": "8192", "hybrid": ""}),
    ({"model": "Gemma-3-27B", "draft": "", "tp": 1, "engine": "llama.cpp", "shared": 500},
     {"ubatch": "2048", "unified": "yes", "swa_full": "yes"}),
    ({"model": "Qwen3.5-27B", "draft": "", "tp": 1}, {"state_blocks": "2"}),
    ({}, {"config": json.dumps(catalogue.entry("Qwen3-8B")["config"])}),
]  # fmt: skip


@pytest.mark.parametrize(("preset", "changes"), CHANGES)
def test_every_control_changes_the_page_and_the_address_restores_it(visit, preset, changes):
    page = visit(**preset)
    undo, seen = [], [page.locator(".kv-results").inner_html()]
    for key, value in changes.items():
        field = page.locator(f"[id$='-{key}']")
        undo.append((field, field.is_checked() if field.get_attribute("type") == "checkbox" else field.input_value()))
        enter(field, value)
        seen.append(page.locator(".kv-results").inner_html())
        assert seen[-1] != seen[-2], key
        assert page.locator(".lab-error").inner_text() == ""
    shared = settled(page, "kv")
    assert answers(visit(shared, **preset)) == answers(page)
    other = visit()
    other.evaluate("address => { location.hash = address; }", shared)
    sync_api.expect(other.locator(".lab-total")).to_have_text(page.locator(".lab-total").inner_text())
    assert answers(other) == answers(page)
    for field, kept in reversed(undo):
        assert page.locator(".kv-results").inner_html() == seen.pop()
        enter(field, kept)
    assert [page.locator(".kv-results").inner_html()] == seen


def enter(field, value):
    """Set a field of any kind."""
    if field.evaluate("field => field.tagName") == "SELECT":
        field.select_option(value)
    elif field.get_attribute("type") == "checkbox":
        field.set_checked(bool(value))
    else:
        field.fill(value)


def test_reset_restores_what_the_page_began_with(visit):
    page = visit("#kv:length=100&sequences=3")
    page.get_by_role("button", name="Copy link").wait_for()
    reset = page.get_by_role("button", name="Reset")
    reset.focus()
    page.keyboard.press("Enter")
    assert answers(page) == answers(visit())
    assert "length=8192&sequences=32" in settled(page, "kv")


def test_the_link_is_copied_by_keyboard_and_said(visit):
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    enter(page.locator("[id$='-sequences']"), "5")
    said = page.locator(".lab-buttons").get_by_role("status")
    assert said.inner_text() == ""
    page.get_by_role("button", name="Copy link").focus()
    page.keyboard.press("Space")
    said.get_by_text("copied", exact=True).wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.split("#")[0] == page.url.split("#")[0]
    assert answers(visit("#" + link.split("#")[1])) == answers(page)
    enter(page.locator("[id$='-sequences']"), "6")
    assert said.inner_text() == "", "what was copied is another setting"
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as without https
    page.get_by_role("button", name="Copy link").click()
    said.get_by_text("not copied").wait_for()


def test_sliders_move_by_keyboard_and_the_total_is_said_once_the_hand_rests(visit):
    page = visit()
    slider = page.get_by_label("Length in tokens, slider")
    slider.focus()
    for _ in range(4):  # quarters of a doubling
        page.keyboard.press("ArrowRight")
    assert page.get_by_label("Length in tokens", exact=True).input_value() == "16384"
    assert slider.get_attribute("aria-valuetext") == "16384"
    said = page.locator(".kv-lab [role=status]")
    assert "16,384" not in said.inner_text()
    sync_api.expect(said).to_contain_text("32 sequences of 16,384 tokens: does not fit")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id").endswith("-sequences")


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("config", "{", "this is not JSON"),
        ("config", "[]", "a config is a JSON object of keys and values, not a list"),
        ("config", '{"num_hidden_layers": 2}', "config lacks"),
        ("length", "", "length is empty: give a whole number of at least 1"),
        ("length", "-3", "length is -3: give a whole number of at least 1"),
        ("sequences", "many", "sequences is many: give a whole number of at least 0"),
        ("block", "0", "block is 0: it must be at least 1"),
        ("memory", "lots", "memory is lots: give a number of GiB"),
        ("memory", "8", "leave nothing for a cache"),
        ("tp", "3", "one must divide the other"),
        ("pp", "65", "stages of one layer or more must make 64"),
        ("utilisation", "101", "with 0 < a <= b"),
        ("shared", "8192", "length is 8192: it must be at least 8193"),
        ("k", "fp8_ds_mla", "which this model does not have"),
    ],
)
def test_what_cannot_be_computed_is_said_in_the_place_of_all_numbers(visit, key, value, complaint):
    page = visit()
    enter(page.locator(f"[id$='-{key}']"), value)
    assert complaint in page.get_by_role("alert").inner_text()
    assert not page.locator(".kv-results").is_visible()
    enter(page.locator(f"[id$='-{key}']"), kv_lab.KVLab.filled(LAB)[key])
    assert page.get_by_role("alert").inner_text() == ""
    assert page.locator(".kv-results").is_visible()


def test_names_in_a_config_are_text_and_never_markup(visit):
    names = {"model_type": "<img src=x onerror=alert(1)>", "_name_or_path": "<b>7B</b>"}
    config = {**catalogue.entry("Gemma-3-27B")["config"], **names}
    page = visit(model="Qwen3-8B", draft="")
    enter(page.locator("[id$='-config']"), json.dumps(config))
    assert "<img src=x" in page.locator(".kv-warnings").inner_text()
    assert page.locator(".kv-lab :is(img, b)").count() == 0


def test_weights_that_no_name_tells_are_not_taken_for_known(visit):
    page = visit(model="DeepSeek-V3 / R1", draft="", gamma=0, tp=8)
    assert answers(page)["Sequences that fit at this length"].startswith("at most ")
    assert "counted as 0" in page.locator(".kv-warnings").inner_text()
    enter(page.locator("[id$='-weights']"), "50")
    assert not answers(page)["Sequences that fit at this length"].startswith("at most ")


def test_everything_has_a_name_and_fits_a_phone(visit):
    page = visit(width=390)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    unnamed = "[...document.querySelectorAll('input, select, textarea')].filter(x => !x.labels.length && !x.ariaLabel).length"
    assert page.evaluate(unnamed) == 0
    assert page.locator("fieldset legend").count() == page.locator("fieldset").count() == 5
    for drawing in page.locator("figure svg").all():
        assert drawing.get_attribute("role") == "img"
        assert len(drawing.get_attribute("aria-label")) > 40
        assert drawing.bounding_box()["width"] <= 390
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(x => x.id)")
    assert len(ids) == len(set(ids))
    assert page.locator("th:not([scope])").count() == 0


def test_the_bar_adds_up_to_the_memory(visit):
    page = visit(sequences=4)
    label = page.locator("figure svg").first.get_attribute("aria-label")
    assert label.startswith("Memory of one rank, within its limit: weights ")
    shares = re.findall(r"([\d,.]+) ([GM])iB", label)
    assert sum(float(x.replace(",", "")) * (1 if unit == "G" else 1 / 1024) for x, unit in shares) == pytest.approx(80, abs=0.05)


def test_a_bar_beyond_its_limit_is_marked_and_what_is_kept_back_stays_at_the_end_of_the_memory(visit):
    bar = visit().locator("figure svg").first
    assert bar.get_attribute("aria-label").startswith("Memory of one rank, over its limit by ")
    kept, excess = (bar.locator(f"rect.{kind}").first for kind in ("kv-part-8", "kv-frontier"))
    assert kept.get_attribute("x") == excess.get_attribute("x")
    end = float(kept.get_attribute("x")) + float(kept.get_attribute("width"))
    assert end == pytest.approx(int(bar.get_attribute("width")) - 1, abs=0.15)  # where memory ends: no more is asked for


def test_without_javascript_the_same_setting_is_a_table(visit):
    page, (whole, _) = visit(script=False), kv_lab.solved(kv_lab.KVLab.filled(LAB))
    text = page.locator(".result-table").inner_text()
    assert plan.size(whole.storage(8192, 32).bytes) in text
    assert f"{whole.target.bytes_per_token(2):,} B" in text


def test_a_redraw_stays_within_a_frame(visit):
    changed = """async () => {
      const sliders = document.querySelectorAll('input[type=range]'), dtype = document.querySelector('[id$="-v"]');
      for (let i = 0; i < 40; i++) {
        const field = i % 5 ? sliders[i % 2] : dtype;
        field.value = i % 5 ? 2 + (i * 7 % 33) / 4 : i % 2 ? "fp8" : "";
        field.dispatchEvent(new Event('input', { bubbles: true }));
        await new Promise(requestAnimationFrame);
      }
    }"""
    assert 0 < busy(visit(), changed) / 40 < 0.016


def test_as_a_widget_it_follows_the_kernel_and_the_kernel_follows_it(visit):
    """The module as anywidget loads it: from a blob, with a model that lives in the kernel."""
    page = visit()
    page.evaluate(
        """async ([text, data, setting]) => {
          const { default: lab } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
          const el = document.createElement("section"), heard = {};
          document.body.append(el);
          globalThis.kernel = { state: { data, setting }, saved: 0 };
          const model = {
            get: (key) => kernel.state[key], set: (key, value) => { kernel.state[key] = value; },
            on: (name, hear) => { heard[name] = hear; }, off: () => {}, save_changes: () => { kernel.saved += 1; },
          };
          globalThis.assign = (more) => {
            model.set("setting", { ...kernel.state.setting, ...more });
            heard["change:setting"]();
          };
          globalThis.leave = lab.render({ model, el });
        }""",
        [kv_lab.KVLab._esm, kv_lab.KVLab.facts(), kv_lab.KVLab.filled({"model": "Qwen3-8B"})],
    )
    widget = page.locator("section.kv-lab")
    enter(widget.locator("[id$='-sequences']"), "7")
    page.wait_for_function("kernel.saved > 0")
    assert page.evaluate("[kernel.saved, kernel.state.setting.sequences]") == [1, "7"]
    page.evaluate("assign({ length: '1024' })")
    assert "7 sequences of 1,024 tokens" in widget.locator(".lab-total").inner_text()
    assert widget.locator("[id$='-length']").input_value() == "1024"
    page.wait_for_timeout(400)
    assert page.evaluate("kernel.saved") == 1
    assert widget.get_by_role("button", name="Copy link").count() == 0, "a notebook's address holds no setting"
    widget.get_by_role("button", name="Reset").click()
    assert "32 sequences of 8,192 tokens" in widget.locator(".lab-total").inner_text()
    assert page.evaluate("location.hash") == "", "the address of a notebook is not the calculator's"
    page.evaluate("leave()")


def test_the_object_prints_a_line_and_refuses_unknown_keys():
    assert repr(kv_lab.KVLab(length=4096)) == "KVLab: Llama-3.1-8B, 32 sequences of 4096 tokens, vllm"
    with pytest.raises(ValueError, match=r"lenght: a setting has model, config"):
        kv_lab.KVLab(lenght=1)
    with pytest.raises(ValueError, match="is not in the catalogue"):
        kv_lab.KVLab(model="Llama-9")
    with pytest.raises(ValueError, match="one must divide the other"):
        kv_lab.KVLab(tp=3)
    assert kv_lab.KVLab(model="Qwen/Qwen3-8B", hybrid=False).setting["model"] == "Qwen3-8B"
    own = {"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64}
    assert json.loads(kv_lab.KVLab(config=own).setting["config"]) == own
    assert BeautifulSoup(kv_lab.KVLab().static()._repr_html_(), "html.parser").caption.text.startswith("Llama-3.1-8B on vLLM")
