"""Plans: what fits, what speculation costs, exactness beyond int64, the caches of the book's own models, and speed."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies  # noqa: F401 - loads the suite's Hypothesis profile
from specdec.kv.counts import count
from specdec.kv.engines import VLLM, Ideal, LlamaCpp, Paged
from specdec.kv.plan import GB, GIB, Plan, Speculation, available, size
from specdec.kv.shape import CacheShape, Layers, attention, gated_delta, latent
from specdec.models import shipped
from specdec.models.transformer import Transformer

LLAMA = CacheShape("Llama-3.1-8B", (attention(32, 8, 128),), family="llama", vocabulary=128_256, longest=131_072)
DRAFT = CacheShape("Llama-3.2-1B", (attention(16, 8, 64),), family="llama", vocabulary=128_256, longest=131_072)
GEMMA = CacheShape(
    "Gemma-3-27B", (attention(10, 16, 128), attention(52, 16, 128, window=1024)), family="gemma3_text", vocabulary=262_208
)  # fmt: skip
QWEN = CacheShape("Qwen3.5-27B", (
    attention(16, 4, 256), gated_delta(48, value_heads=48, key_heads=16, key_width=128, value_width=128, kernel=4),
), vocabulary=248_320)  # fmt: skip
DEEPSEEK = CacheShape("DeepSeek-V3", (latent(61, 512, 64),), vocabulary=129_280)
WINDOWS = CacheShape("windows only", (attention(32, 8, 128, window=4096),), vocabulary=32_000)

shapes = st.sampled_from([LLAMA, GEMMA, QWEN, DEEPSEEK, WINDOWS])
engines = st.sampled_from([
    Ideal(), Paged(64), LlamaCpp(), LlamaCpp(ubatch=2048, unified=True), VLLM(), VLLM(32, batched_tokens=2048, state_blocks=2),
])  # fmt: skip
speculations = st.none() | st.builds(Speculation, st.integers(0, 8), st.sampled_from([None, DRAFT]))
budgets = st.sampled_from([0, GIB // 100, GIB, 7 * GIB + 1, 40 * GIB, 640 * GB])


@st.composite
def plans(draw):
    tp = draw(st.sampled_from([1, 1, 2, 4]))
    return Plan(draw(shapes), draw(engines), draw(speculations), tp, draw(st.sampled_from([1, 1, 2, 3])),
                shared=draw(st.sampled_from([0, 0, 100, 1024])))  # fmt: skip


# ---- what fits -------------------------------------------------------------------------------------------------------


@given(plans(), st.integers(1025, 200_000), budgets)
def test_sequences_fit_and_one_more_does_not(plan, length, budget):
    n = plan.sequences(length, budget)
    assert type(n) is int
    assert n == 0 or plan.storage(length, n).bytes <= budget
    assert plan.storage(length, n + 1).bytes > budget


@given(plans(), st.integers(1, 64), budgets)
def test_length_fits_and_one_more_does_not(plan, n, budget):
    length = plan.length(n, budget)
    if length == math.inf:
        assert plan.storage(10**12, n).bytes <= budget
        return
    assert type(length) is int
    assert length == 0 or plan.storage(length, n).bytes <= budget
    assert plan.storage(max(length, plan.shared) + 1, n).bytes > budget


@given(plans(), st.integers(1, 64), budgets)
def test_as_many_fit_at_the_solved_length(plan, n, budget):
    length = plan.length(n, budget)
    assume(0 < length < math.inf)
    assert plan.sequences(length, budget) >= n


@given(plans(), st.lists(st.integers(1025, 100_000), min_size=1, max_size=5), budgets)
def test_sequences_of_arrays(plan, lengths, budget):
    found = plan.sequences(np.array(lengths), budget)
    assert found.dtype == np.int64
    assert found.tolist() == [plan.sequences(length, budget) for length in lengths]


@given(plans(), st.lists(st.integers(1024, 10**5), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_storage_of_arrays(plan, lengths, sequences):
    together = plan.storage(np.array(lengths)[:, None], np.array(sequences)).bytes
    assert together.dtype == np.int64
    expected = [[plan.storage(length, n).bytes for n in sequences] for length in lengths]
    assert np.broadcast_to(together, (len(lengths), len(sequences))).tolist() == expected


@given(engines, shapes, speculations)
def test_exact_beyond_int64(engine, shape, speculation):
    """10^12 tokens times 10^9 sequences: Python integers, the small entry beside the large one too."""
    plan = Plan(shape, engine, speculation)
    lengths, many = np.array([1, 10**12]), np.array([1, 10**9])
    got = plan.storage(lengths, many[:, None]).bytes
    assert got.dtype == object or shape is WINDOWS
    for i, n in enumerate(many.tolist()):
        for j, length in enumerate(lengths.tolist()):
            one = plan.storage(length, n).bytes
            assert type(one) is int
            assert np.broadcast_to(got, (2, 2))[i, j] == one
    if shape is LLAMA:
        assert got[1, 1] >= 10**21 * 131_072


def test_int64_in_and_python_integers_out():
    plan = Plan(LLAMA)
    assert plan.storage(np.array([4096]), 32).bytes.dtype == np.int64
    assert plan.storage(np.array([2**46]), 2**10).bytes.tolist() == [2**56 * 131_072]
    assert plan.storage([2**63, 1], 1).bytes.tolist() == [2**63 * 131_072, 131_072]
    assert plan.storage(np.array([2**63], np.uint64), 1).bytes.tolist() == [2**63 * 131_072]
    assert plan.storage(np.uint8(200), np.int16(300)).bytes == 60_000 * 131_072
    assert plan.sequences(np.array([1, 2]), 10**30).tolist() == [10**30 // 131_072, 10**30 // 262_144]
    assert plan.sequences(1, 10**30) == 10**30 // 131_072


def test_capacity_by_hand():
    plan = Plan(LLAMA, VLLM())
    assert plan.sequences(8192, 40 * GIB) == 40 * GIB // (8192 * 131_072) == 40
    assert plan.length(32, 40 * GIB) == 10_240
    assert plan.length(33, 40 * GIB) == 40 * GIB // (16 * 131_072) // 33 * 16 == 9920
    assert plan.sequences(8192, 8192 * 131_072 - 1) == 0
    assert plan.length(32, 31 * 16 * 131_072) == 0
    assert Plan(WINDOWS).length(8, 8 * 4096 * 131_072) == math.inf
    assert Plan(WINDOWS).length(8, 8 * 4096 * 131_072 - 1) == 4095


def test_slots_of_one_context_are_no_plan():
    """Plans give each sequence its length. Splitting one context over slots is ``slot_length``, and not monotone."""
    plan = Plan(LLAMA, LlamaCpp())
    assert plan.storage(257, 1).bytes == plan.storage(512, 1).bytes == 512 * 131_072


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_available_is_exact():
    assert available(80 * GIB, weights=16 * GB, activations=2 * GIB) == 80 * GIB * 9 // 10 - 16 * GB - 2 * GIB
    assert available(10, utilisation=(1, 3)) == 3
    assert available(10**30, utilisation=(9, 10)) == 9 * 10**29  # no float in between


def test_both_units():
    assert size(16 * GIB) == "16.00 GiB (17.18 GB)"
    assert size(16 * 2**20) == "16.00 MiB (16.78 MB)"
    assert size(2048) == "2.00 KiB (2.05 kB)"
    assert size(500) == "500 B"


# ---- prefixes --------------------------------------------------------------------------------------------------------


@given(plans(), st.integers(1100, 20_000), st.integers(1, 20))
def test_a_prefix_in_common_never_costs(plan, length, n):
    apart = replace(plan, shared=0).storage(length, n).bytes
    assert plan.storage(length, n).bytes <= apart


def test_a_prefix_counts_once():
    plan = Plan(LLAMA, shared=1024)
    assert plan.storage(1024, 32).bytes == 1024 * 131_072
    assert plan.storage(1124, 32).bytes == (1024 + 3200) * 131_072
    assert Plan(LLAMA, VLLM(), shared=1030).storage(1124, 32).bytes == (64 + 32 * (71 - 64)) * 16 * 131_072  # whole blocks only
    with pytest.raises(ValueError, match="length is 1024: it must be at least 1025"):
        plan.sequences(1024, GIB)
    assert Plan(WINDOWS, shared=1000).storage(4100, 3).bytes == (996 + 3 * 3100) * 131_072  # 4 of the 1,000 left the window
    assert Plan(WINDOWS, shared=1000).storage(9000, 3).bytes == 3 * 4096 * 131_072


# ---- speculation -----------------------------------------------------------------------------------------------------


def test_row_buffers_outweigh_the_slots():
    plan = Plan(LLAMA, speculation=Speculation(5, DRAFT))
    found = plan.storage(8192, 32)
    assert found.parts == {
        "target cache": 32 * 8192 * 131_072,
        "speculative slots": 32 * 5 * 131_072,
        "draft cache": 32 * (8192 + 5) * 32_768,
        "row buffers": 180_584_448,
    }
    assert 180_584_448 == 32 * (6 + 5) * 128_256 * 4 > 8 * found.parts["speculative slots"]
    assert found.bytes == sum(found.parts.values()) == sum(line.bytes for line in found.lines)
    assert found.lines[-1].formula == "sequences x (5+1 target + 5 draft) rows x 128,256 x 4 B"


def test_rows_without_a_draft_and_in_other_types():
    looked_up = Plan(LLAMA, speculation=Speculation(5)).storage(8192, 32)
    assert looked_up.parts["row buffers"] == 32 * 6 * 128_256 * 4
    assert "draft cache" not in looked_up.parts
    halves = Plan(LLAMA, speculation=Speculation(5, DRAFT, rows="bf16")).storage(8192, 32)
    assert halves.parts["row buffers"] == 180_584_448 // 2
    other = Plan(LLAMA, speculation=Speculation(1, vocabulary=1000)).storage(1, 1)
    assert other.parts["row buffers"] == 2 * 1000 * 4


def test_gamma_zero_is_no_speculation():
    assert Plan(LLAMA, speculation=Speculation(0, DRAFT)).storage(8192, 32) == Plan(LLAMA).storage(8192, 32)


@given(engines, shapes, st.integers(0, 6), st.integers(1, 50_000), budgets)
def test_speculation_costs_sequences(engine, shape, gamma, length, budget):
    counts = [Plan(shape, engine, Speculation(g, DRAFT)).sequences(length, budget) for g in (gamma, gamma + 1)]
    assert Plan(shape, engine).sequences(length, budget) >= counts[0] >= counts[1]


def test_slots_of_states_are_copies():
    """Five matrices more of each layer, and five inputs more of its convolutions; llama.cpp copies both, in float32."""
    shape = CacheShape("states", QWEN.groups[1:], vocabulary=10)
    found = Plan(shape, speculation=Speculation(5)).storage(1, 2)
    assert found.parts["speculative slots"] == 2 * 5 * 48 * (48 * 128 * 128 * 4 + 10240 * 2)
    assert found.parts["target cache"] == 2 * 48 * 3_207_168
    assert found.parts["speculative slots"] != 5 * found.parts["target cache"]  # the twin: convolutions copied too
    there = Plan(shape, LlamaCpp(), Speculation(2)).storage(1, 4).parts
    assert there["speculative slots"] == 2 * there["target cache"] == 2 * 598.5 * 2**20


def test_a_draft_joins_the_targets_groups_in_vllm():
    """Gemma-3-27B and a draft of one full layer like its own: 11 full layers and 52 sliding ones in 5 groups of 11."""
    layer, extra = 16 * 2 * 16 * 128 * 2, CacheShape("draft", (attention(1, 16, 128),), vocabulary=262_208)
    found = Plan(GEMMA, VLLM(), Speculation(2, extra)).storage(4096, 3)
    full, window = 4096 // 16, 65  # blocks of a text; 2 x 2 tokens ahead are one more in each group
    assert found.parts["target cache"] == 3 * (full + 6 * window) * 10 * layer
    assert found.parts["speculative slots"] == 3 * ((full + 1 + 6 * (window + 1)) - (full + 6 * window)) * 10 * layer
    both = 3 * (full + 1 + 5 * (window + 1)) * 11 * layer
    assert found.parts["draft cache"] == both - found.parts["target cache"] - found.parts["speculative slots"]
    alone = Plan(extra, VLLM()).storage(4096 + 4, 3).bytes
    assert found.parts["draft cache"] != alone  # the twin: a pool of its own
    assert found.bytes == both + found.parts["row buffers"]
    assert "the layers of both in one pool" in found.lines[-2].formula
    # One kind of layers, one group: there is nothing to pad, and the draft takes what it takes alone.
    plain = Plan(LLAMA, VLLM(), Speculation(5, DRAFT)).storage(8192, 32).parts
    assert plain["speculative slots"] == 32 * 1 * 16 * 131_072  # 10 tokens ahead are one block
    assert plain["draft cache"] == Plan(DRAFT, VLLM()).storage(8192 + 10, 32).bytes == 32 * 513 * 16 * 32_768


def test_a_draft_asks_for_twice_the_proposals_in_vllm():
    """At 27 tokens 3 proposals fit into the second block of 16, and 6 do not."""
    looked_up, drafted = (Plan(LLAMA, VLLM(), Speculation(3, draft)).storage(27, 2).parts for draft in (None, DRAFT))
    assert looked_up["speculative slots"] == 0
    assert drafted["speculative slots"] == 2 * 16 * 131_072
    assert drafted["draft cache"] == 2 * 3 * 16 * 32_768
    ideal = Plan(LLAMA, speculation=Speculation(3, DRAFT)).storage(27, 2).parts
    assert ideal["speculative slots"] == 2 * 3 * 131_072  # only vLLM's scheduler asks for them twice


def test_a_draft_may_save_padding():
    """Three full layers beside Gemma's ten make four groups of 13, which hold the 52 sliding ones without a rest."""
    extra = CacheShape("draft", (attention(3, 16, 128),), vocabulary=262_208)
    found = Plan(GEMMA, VLLM(), Speculation(1, extra)).storage(1000, 1)
    layer = 16 * 2 * 16 * 128 * 2
    assert found.parts["target cache"] + found.parts["speculative slots"] == 7 * 63 * 10 * layer
    assert found.parts["draft cache"] == (5 * 63 * 13 - 7 * 63 * 10) * layer < 0


def test_an_mtp_layer_as_the_log_prints_it():
    """Qwen3.8-27B on 2 ranks with 2 proposals: 800 tokens a block; the published pool of 12.29 GiB holds one request, not two."""
    mtp = CacheShape("MTP", (attention(1, 4, 256),), vocabulary=248_320)
    plan = Plan(QWEN, VLLM(state_blocks=2), Speculation(2, mtp, vocabulary=1), tp=2)
    found = plan.storage(262_144, 1)
    pool = found.bytes - found.parts["row buffers"]
    assert pool == (328 + 3 * (2 + 2)) * 17 * 800 * 2048
    assert plan.sequences(262_144, 1229 * 2**30 // 100) == 1


# ---- stages and ranks ------------------------------------------------------------------------------------------------


def test_the_fullest_stage_counts():
    plan = Plan(LLAMA, pp=2, partition=[8, 24])
    assert plan.storage(100, 1).bytes == 100 * 24 * 4096
    assert plan.storage(100, 1, 0).bytes == 100 * 8 * 4096
    assert plan.sequences(1000, [8 * 4096 * 1000 * 3, 24 * 4096 * 1000 * 5]) == 3
    assert plan.sequences(1000, [8 * 4096 * 1000 * 9, 24 * 4096 * 1000 * 5]) == 5
    assert plan.length(2, [8 * 4096 * 1000, 24 * 4096 * 5000]) == 500
    assert plan.sequences(np.array([1000, 2000]), [8 * 4096 * 1000 * 3, 24 * 4096 * 1000 * 5]).tolist() == [3, 1]


@given(shapes, st.integers(1, 16))
def test_stages_hold_all_layers(shape, pp):
    stages = shape.stages(pp)
    assert sum(stage.layers for stage in stages) == shape.layers
    assert sum(stage.bytes_per_token() for stage in stages) == shape.bytes_per_token()
    assert sum(stage.fixed_bytes() for stage in stages) == shape.fixed_bytes()


def test_even_shares_leave_the_last_stage_short():
    """vLLM's get_pp_indices: what is left over goes to the stages before the last."""
    assert [stage.layers for stage in DEEPSEEK.stages(4)] == [15, 15, 16, 15]
    assert [stage.layers for stage in DEEPSEEK.stages(8)] == [7, 7, 8, 8, 8, 8, 8, 7]


def test_another_stage_may_be_the_fullest_elsewhere():
    """Full layers on the first stage, windows on the second: short texts fill the second, long ones the first."""
    shape = CacheShape("two", (attention(1, 1, 64), attention(3, 1, 64, window=100)))
    plan = Plan(shape, pp=2, partition=[1, 3])
    found = plan.storage(np.array([10, 100, 300, 1000]), 1)
    assert (found.bytes // 256).tolist() == [30, 300, 300, 1000]
    assert sum(found.parts.values()).tolist() == found.bytes.tolist()
    assert plan.sequences(np.array([10, 1000]), 256_000).tolist() == [33, 1]


def test_draft_and_rows_lie_on_the_last_stage():
    plan = Plan(LLAMA, speculation=Speculation(2, DRAFT), pp=2)
    assert set(plan.storage(100, 1, 0).parts) == {"target cache", "speculative slots"}
    assert set(plan.storage(100, 1, 1).parts) == {"target cache", "speculative slots", "draft cache", "row buffers"}


def test_stages_without_a_cache_stay():
    """Gemma 4's last layers read other layers' caches: they are a stage, and it is free."""
    shape = CacheShape("shares", (attention(2, 1, 64), Layers("shared", 4)), vocabulary=100)
    assert [stage.empty for stage in shape.stages(3)] == [False, True, True]
    for engine in (Ideal(), Paged(64), LlamaCpp(), VLLM()):
        plan = Plan(shape, engine, Speculation(1), pp=3)
        assert [plan.storage(256, 1, i).parts["target cache"] for i in range(3)] == [2 * 256 * 256, 0, 0]
        assert plan.storage(256, 1, 2).parts["row buffers"] == 2 * 100 * 4
        assert plan.fits(256, 1, [plan.storage(256, 1, 0).bytes, 0, 800]) and not plan.fits(256, 1, [10**9, 0, 799])
        assert plan.sequences(256, [10**9, 0, 800 * 7]) == 7
    beside = Plan(shape, VLLM(), Speculation(1, CacheShape("d", (attention(1, 1, 64),), vocabulary=100)), pp=3)
    assert beside.storage(256, 1, 2).parts["draft cache"] == 17 * 16 * 256  # the draft alone in the last stage's pool


def test_heads_are_kept_twice_where_ranks_outnumber_them():
    assert Plan(LLAMA, tp=16).storage(1, 1).bytes == 32 * 1 * 128 * 2 * 2 == Plan(LLAMA, tp=8).storage(1, 1).bytes
    assert Plan(DEEPSEEK, tp=16).storage(1, 1).bytes == Plan(DEEPSEEK).storage(1, 1).bytes


# ---- the book's own models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in shipped.names() if shipped.card(name)["kind"] == "transformer"])
def test_own_models(name):
    """Float32; a column of ones beside the values; the whole window from the start."""
    model = shipped.load(name)
    assert isinstance(model, Transformer)
    state, depth = model.start(), model.width // model.heads
    shape = CacheShape(name, (attention(len(model.layers), model.heads, depth, value_width=depth + 1, k="f32", v="f32"),))
    storage = Plan(shape).storage(model.window, 1)
    assert storage.bytes == state.keys.nbytes + state.values.nbytes
    model.append(state, list(range(5)))
    assert storage.bytes == state.keys.nbytes + state.values.nbytes  # it does not grow
    assert Plan(shape).storage(model.window, 7).bytes == sum(
        each.keys.nbytes + each.values.nbytes for each in (model.start() for _ in range(7))
    )
    without = CacheShape(name, (attention(len(model.layers), model.heads, depth, k="f32", v="f32"),))
    assert Plan(without).storage(model.window, 1).bytes != storage.bytes


# ---- speed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [Ideal(), VLLM(), LlamaCpp()], ids=lambda engine: engine.name)
def test_a_million_points(engine):
    """Under half a second on a laptop; the limit here leaves room for a busy machine."""
    rng = np.random.default_rng(0)
    lengths, sequences = rng.integers(1, 131_072, 10**6), rng.integers(1, 512, 10**6)
    plan = Plan(GEMMA, engine, Speculation(5, DRAFT))
    begin = time.perf_counter()
    found = plan.storage(lengths, sequences).bytes
    assert time.perf_counter() - begin < 3
    for i in (0, 10, 999_999):
        assert found[i] == plan.storage(int(lengths[i]), int(sequences[i])).bytes


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Plan(LLAMA).storage(0, 1), "length is 0: it must be at least 1"),
    (lambda: Plan(LLAMA).storage(-5, 1), "length is -5"),
    (lambda: Plan(LLAMA).storage(1.5, 1), "length is 1.5: it must be an integer"),
    (lambda: Plan(LLAMA).storage(True, 1), "length is True: it must be an integer"),
    (lambda: Plan(LLAMA).storage("8192", 1), "length is '8192'"),
    (lambda: Plan(LLAMA).storage(1, -1), "sequences is -1"),
    (lambda: Plan(LLAMA).storage(np.array([1.0]), 1), "it must be an integer, or an array of integers"),
    (lambda: Plan(LLAMA).storage(np.array([3, 0]), 1), "length is 0"),
    (lambda: Plan(LLAMA).storage([2**63, 1.0], 1), "it must be an integer, or an array of integers"),
    (lambda: Plan(LLAMA).storage([], 1), "length is \\[\\]"),
    (lambda: Plan(LLAMA).storage(None, 1), "length is None"),
    (lambda: Plan(LLAMA, shared=100).storage(99, 1), "length is 99: it must be at least 100"),
    (lambda: Plan(LLAMA, shared=-1), "shared tokens is -1"),
    (lambda: Plan(LLAMA, tp=3), "tensor parallelism 3 and 8 heads of K: one must divide the other"),
    (lambda: Plan(LLAMA, tp=0), "tensor parallelism is 0"),
    (lambda: Plan(LLAMA, pp=0), "pipeline parallelism is 0"),
    (lambda: Plan(LLAMA, pp=33), "33 stages of one layer or more must make 32"),
    (lambda: Plan(LLAMA, pp=2, partition=[16, 15]), r"stages of \[16, 15\] layers: 2 stages .* must make 32"),
    (lambda: Plan(LLAMA, pp=2, partition=[16, 16.0]), "layers of a stage is 16.0"),
    (lambda: Plan(LLAMA, pp=2, partition=[32, 0]), "layers of a stage is 0"),
    (lambda: Plan(LLAMA, pp=2).sequences(1, [1, 2, 3]), "3 budgets for 2 pipeline stages"),
    (lambda: Plan(LLAMA).sequences(1, -1), "budget is -1"),
    (lambda: Plan(LLAMA).sequences(1, 1.5e9), "budget is 1500000000.0"),
    (lambda: Plan(LLAMA).length(0, GIB), "sequences is 0: it must be an integer of at least 1"),
    (lambda: Plan(LLAMA).length(np.array([1]), GIB), "sequences is array"),
    (lambda: Plan(LLAMA, pp=2).storage(1, 1, 2), "stage 2: there are stages 0 to 1"),
    (lambda: Plan(LLAMA, pp=2).storage(1, 1, -1), "stage is -1"),
    (lambda: Plan(CacheShape("x", (Layers("none", 4),))), "x keeps nothing: no layer has a cache"),
    (lambda: Plan(LLAMA, speculation=Speculation(1, CacheShape("d", (Layers("shared", 4),)))), "d keeps nothing"),
    (lambda: Speculation(True), "gamma is True"),
    (lambda: Speculation(2, rows="f17"), "cache dtype 'f17' is not known"),
    (lambda: available(np.array([10])), "memory is array"),
    (lambda: available(10, utilisation=0.9), "two integers"),
    (lambda: available(10, utilisation=(1, 2, 3)), "two integers"),
    (lambda: Speculation(-1), "gamma is -1"),
    (lambda: Speculation(2.0), "gamma is 2.0"),
    (lambda: Speculation(2, vocabulary=0), "vocabulary is 0"),
    (lambda: Plan(replace(LLAMA, vocabulary=None), speculation=Speculation(2)), "names no vocab_size"),
    (lambda: Plan(LLAMA, speculation=Speculation(2, CacheShape("d", (attention(1, 3, 64),))), tp=2), "2 and 3 heads"),
    (lambda: available(0), "memory is 0"),
    (lambda: available(10 * GIB, weights=10 * GB), "leave nothing for a cache beside weights of 9.31 GiB"),
    (lambda: available(10, utilisation=(11, 10)), r"utilisation is \(11, 10\)"),
    (lambda: available(10, utilisation=(0.9, 1)), "two integers"),
])  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_past_the_maximum_is_a_warning():
    assert Plan(LLAMA).storage(131_072, 1).warnings == ()
    found = Plan(LLAMA).storage(np.array([1, 200_000]), 1)
    assert found.warnings == ("a length of 200,000 is past the model's maximum of 131,072",)
    assert found.bytes[1] == 200_000 * 131_072


def test_the_draft_has_warnings_of_its_own():
    draft = replace(DRAFT, longest=1000, warnings=("head_dim is a guess",))
    found = Plan(replace(LLAMA, warnings=("so is this",)), speculation=Speculation(2, draft)).storage(2000, 1).warnings
    assert found == ("so is this", "draft: head_dim is a guess", "draft: a length of 2,000 is past the model's maximum of 1,000")
    windowed = CacheShape("w", (attention(1, 8, 64, window=8),), family="mistral", vocabulary=128_256)
    assert Plan(LLAMA, LlamaCpp(), Speculation(2, windowed)).storage(9, 1).warnings == (
        "draft: llama.cpp caches every token of mistral models: the window is not used",
    )
    assert Plan(LLAMA, LlamaCpp(), Speculation(0, windowed)).storage(9, 1).warnings == ()


def test_vocabularies_must_agree():
    other = replace(DRAFT, vocabulary=151_936)
    sentence = "target and draft have vocabularies of 128,256 and 151,936: they must share one"
    assert Plan(LLAMA, speculation=Speculation(2, other)).storage(1, 1).warnings == (sentence,)
    for speculation in (None, Speculation(2), Speculation(2, DRAFT), Speculation(0, other)):
        assert Plan(LLAMA, speculation=speculation).storage(1, 1).warnings == ()
    assert Plan(LLAMA, speculation=Speculation(2, replace(DRAFT, vocabulary=None))).storage(1, 1).warnings == ()


def test_too_small_a_budget_is_no_error():
    for engine in (Ideal(), Paged(64), LlamaCpp(), VLLM()):
        plan = Plan(LLAMA, engine)
        assert plan.sequences(1, 0) == plan.sequences(1, 1000) == plan.length(1, 1000) == 0
        assert plan.sequences(np.array([1, 1]), 0).tolist() == [0, 0]


def test_layers_without_a_cache_have_a_place_in_the_stages():
    shape = CacheShape("sparse", (attention(2, 1, 64), Layers("none", 2)), order=(0, 1, 0, 1))
    assert [stage.layers for stage in shape.stages(2)] == [2, 2]
    assert Plan(shape, pp=2).storage(10, 1).bytes == 10 * 256


def test_storage_in_fractions_of_a_page():
    """The waste by rounding is at most a page less one token for each sequence."""
    ideal, paged = Plan(LLAMA), Plan(LLAMA, VLLM())
    lengths = count("length", range(1, 200))
    waste = paged.storage(lengths, 3).bytes - ideal.storage(lengths, 3).bytes
    assert waste.min() == 0 and waste.max() == 3 * 15 * 131_072
