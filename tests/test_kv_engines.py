"""Allocation rules: what holds for all of them, where it stops to hold, and exact values of each."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies  # noqa: F401 - loads the suite's Hypothesis profile
from specdec.kv.counts import count
from specdec.kv.dtypes import DTYPES, CacheDtype, cache_dtype
from specdec.kv.engines import ENGINES, VLLM, Ideal, LlamaCpp, Paged, Use, engine, slot_length
from specdec.kv.shape import BF16, CacheShape, Layers, attention, gated_delta, latent, mamba, mamba2

GEMMA = CacheShape("Gemma-3-27B", (attention(10, 16, 128), attention(52, 16, 128, window=1024)), family="gemma3_text")
LLAMA = CacheShape("Llama-3.1-8B", (attention(32, 8, 128),), family="llama", vocabulary=128256, longest=131072)
QWEN = CacheShape("Qwen3.5-27B", (
    attention(16, 4, 256), gated_delta(48, value_heads=48, key_heads=16, key_width=128, value_width=128, kernel=4),
))  # fmt: skip


def held(rule, shape, use):
    return sum(line.bytes for line in rule.lines(shape, use))


# ---- strategies ------------------------------------------------------------------------------------------------------

small = st.integers(1, 8)
kernels = st.integers(2, 4)
windows = st.sampled_from([1, 5, 16, 100, 512])
dtypes = st.sampled_from(["f32", "bf16", "fp8", "q8_0", "q4_0", "nvfp4"])


def several(numbers):
    return st.lists(numbers, min_size=1, max_size=4)


@st.composite
def attentions(draw):
    window = draw(st.none() | windows)
    return attention(
        draw(small), draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([32, 64, 80])), window=window,
        chunked=window is not None and draw(st.booleans()), k=draw(dtypes), v=draw(dtypes),
    )  # fmt: skip


latents = st.builds(latent, small, st.sampled_from([128, 512]), st.sampled_from([32, 64]), dtype=dtypes)
states = st.one_of(
    st.builds(gated_delta, small, value_heads=small, key_heads=small, key_width=small, value_width=small, kernel=kernels),
    st.builds(mamba, small, channels=small, state_size=small, kernel=kernels),
    st.builds(mamba2, small, heads=small, width=small, state_size=small, groups=small, kernel=kernels),
)
nothing = st.builds(Layers, st.sampled_from(["shared", "none"]), small)
groups = st.lists(st.one_of(attentions(), latents, states, nothing), min_size=1, max_size=4).filter(
    lambda found: any(group.token or group.state for group in found)
)
shapes = st.builds(lambda found: CacheShape("drawn", tuple(found)), groups)

alone = st.one_of(  # profiles that size each kind of layers on its own
    st.just(Ideal()),
    st.builds(Paged, st.sampled_from([1, 7, 16, 64])),
    st.builds(LlamaCpp, st.sampled_from([16, 512]), st.booleans(), st.booleans(), st.sampled_from([1, 32, 256])),
)
pools = st.builds(VLLM, st.sampled_from([8, 16, 32]), st.booleans(), st.none() | st.sampled_from([64, 2048]), st.integers(1, 2))
profiles = st.one_of(alone, pools)


@st.composite
def uses(draw, lookahead=None):
    shared = draw(st.sampled_from([0, 0, 1, 16, 100, 300]))
    length = draw(st.integers(max(1, shared), 2000))
    return Use(length, draw(st.integers(1, 40)), draw(st.integers(0, 8)) if lookahead is None else lookahead, shared)


def modelled(rule, shape):
    """Drop draws whose pages can't be made equal, which vLLM's profile refuses."""
    try:
        rule.lines(shape, Use(1, 1))
    except ValueError as error:
        assume("share a pool" not in str(error) and "not modelled" not in str(error))
        raise


# ---- what holds ------------------------------------------------------------------------------------------------------


@given(profiles, shapes, uses(), st.integers(0, 600), st.integers(0, 5), st.integers(0, 3))
def test_more_of_anything_is_never_less(rule, shape, use, longer, more, ahead):
    modelled(rule, shape)
    least = held(rule, shape, use)
    assert held(rule, shape, replace(use, length=use.length + longer)) >= least
    assert held(rule, shape, replace(use, sequences=use.sequences + more)) >= least
    assert held(rule, shape, replace(use, lookahead=use.lookahead + ahead)) >= least


@given(alone, shapes, uses())
def test_kinds_of_layers_add_up(rule, shape, use):
    parts = [CacheShape("one", (group,)) for group in shape.groups if group.token or group.state]
    assert held(rule, shape, use) == sum(held(rule, part, use) for part in parts)


@given(profiles, shapes, uses())
def test_no_engine_is_below_the_ideal(rule, shape, use):
    modelled(rule, shape)
    if isinstance(rule, LlamaCpp):  # its windows have room for one batch, and its states' checkpoints lie outside
        assume(use.sequences * use.lookahead <= rule.ubatch)
        assume(not use.lookahead or not any(group.state for group in shape.groups))
    assert held(rule, shape, use) >= held(Ideal(), shape, use)


def test_the_ideal_is_no_floor_of_llama_cpp_beyond_a_batch_and_its_checkpoints():
    windowed = CacheShape("windowed", (attention(1, 1, 32, window=16),))
    rule, many = LlamaCpp(ubatch=16, unified=True, pad=1), Use(1000, 10, lookahead=5)
    assert held(rule, windowed, many) == (10 * 16 + 16) * 128 < held(Ideal(), windowed, many) == 10 * (16 + 5) * 128
    state = CacheShape("state", (mamba(1, channels=8, state_size=8, kernel=2, conv="f32"),))
    rewound = Use(1000, 1, lookahead=3)
    assert 4 * held(LlamaCpp(), state, rewound) == held(Ideal(), state, rewound)
    assert "checkpoints" in LlamaCpp().warnings(state, rewound)[0]


@given(profiles, shapes, uses(), st.sampled_from([2, 4, 8]))
def test_a_rank_holds_its_share_or_more(rule, shape, use, tp):
    try:
        whole, rank = held(rule, shape, use), held(rule, shape, replace(use, tp=tp))
    except ValueError:
        assume(False)
    if not isinstance(rule, VLLM):  # there a rank's pages may be padded otherwise
        assert rank <= whole
    assert tp * held(Ideal(), shape, replace(use, tp=tp)) >= held(Ideal(), shape, use)


@given(shapes, uses(lookahead=0))
def test_ideal_is_the_two_numbers(shape, use):
    """Beyond all windows, storage is sequences x (length x bytes per token + fixed bytes)."""
    length, n = use.length + 512, use.sequences
    assert held(Ideal(), shape, Use(length, n)) == n * (length * shape.bytes_per_token() + shape.fixed_bytes())


@given(shapes, st.integers(0, 600), st.integers(1, 600), st.integers(1, 5))
def test_ideal_counts_a_shared_prefix_once(shape, shared, own, sequences):
    """By enumeration: the cells that a later token looks at, as sets."""
    use, expected = Use(shared + own, sequences, shared=shared), 0
    for group in shape.groups:
        if group.token:
            reach = use.length if group.window is None else min(use.length, group.window)
            seen = range(use.length - reach, use.length)
            cells = {(-1 if at < use.shared else n, at) for n in range(use.sequences) for at in seen}
            expected += group.count * group.token_bytes() * len(cells)
        expected += group.count * group.state_bytes() * use.sequences
    assert held(Ideal(), shape, use) == expected


@given(profiles, shapes, several(st.integers(300, 5000)), several(st.integers(0, 50)))
def test_arrays_equal_scalars(rule, shape, lengths, sequences):
    modelled(rule, shape)
    use = Use(count("length", lengths)[:, None], count("sequences", sequences), lookahead=3, shared=200)
    together = rule.lines(shape, use)
    for i, length in enumerate(lengths):
        for j, n in enumerate(sequences):
            for line, one in zip(together, rule.lines(shape, replace(use, length=length, sequences=n)), strict=True):
                assert type(one.bytes) is int
                assert np.broadcast_to(line.bytes, (len(lengths), len(sequences)))[i, j] == one.bytes


# ---- where it does not hold ------------------------------------------------------------------------------------------


def test_more_slots_of_one_context_can_need_less():
    gemma = CacheShape("Gemma-3-270M", (attention(3, 1, 256), attention(15, 1, 256, window=512)), family="gemma3_text")
    cells = [slots * slot_length(1024, slots) for slots in (1, 2, 3, 4, 5)]
    assert cells == [1024, 1024, 1536, 1024, 1280]
    assert slot_length(1025, 4) == 512  # 1,280 cells, 320 each, padded
    mib = [held(LlamaCpp(), gemma, Use(slot_length(1024, slots), slots)) / 2**20 for slots in (1, 2, 3, 4)]
    assert mib == [18, 18, 27, 18]


def test_hybrid_pages_do_not_add_up():
    """Alone, 52 sliding layers are 52; beside 10 full ones they are 6 groups of 10, 8 of them padding."""
    full, sliding = (CacheShape("part", (group,)) for group in GEMMA.groups)
    use, layer = Use(4096, 1), 16 * 2 * 16 * 128 * 2
    assert held(VLLM(), full, use) == 256 * 10 * layer
    assert held(VLLM(), sliding, use) == 64 * 52 * layer
    assert held(VLLM(), GEMMA, use) == (256 + 6 * 64) * 10 * layer
    assert held(VLLM(), GEMMA, use) - held(VLLM(), full, use) - held(VLLM(), sliding, use) == 64 * 8 * layer


def test_states_pad_pages():
    """Beside states a block is 784 tokens, and even one token takes one of them."""
    alone_16 = CacheShape("part", QWEN.groups[:1])
    assert held(VLLM(), alone_16, Use(1, 1)) == 16 * 16 * 4096
    assert held(VLLM(), QWEN, Use(1, 1)) == 4 * 16 * 784 * 4096
    state = CacheShape("part", QWEN.groups[1:])
    assert held(VLLM(), state, Use(1, 1)) == 48 * 3_207_168 < 3 * 16 * 784 * 4096


# ---- vLLM's groups ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "size", "numbers"), [
    (GEMMA, 10, [1, 6]),
    (CacheShape("gpt-oss-20b", (attention(12, 8, 64, window=128), attention(12, 8, 64))), 12, [1, 1]),
    (CacheShape("gpt-oss-20b and a drafter", (attention(12, 8, 64, window=128), attention(13, 8, 64))), 13, [1, 1]),
    (CacheShape("at 1.5 times", (attention(10, 8, 64), attention(15, 8, 64, window=128))), 10, [1, 2]),
    (CacheShape("Qwen3.5-27B", QWEN.groups), 16, [1, 3]),
])  # fmt: skip
def test_groups(shape, size, numbers):
    layout = VLLM().layout(shape)
    assert layout.size == size
    assert [number for _, _, number in layout.kinds] == numbers
    padding = [number * size - group.count for group, _, number in layout.kinds]
    assert padding == {"Gemma-3-27B": [0, 8], "gpt-oss-20b and a drafter": [1, 0], "at 1.5 times": [0, 5]}.get(shape.name, [0, 0])


def test_twin_groups_of_the_fewest_layers():
    """Without the rule of 1.5, one more full layer would cost gpt-oss a third group."""
    counts = [12, 13]
    assert [-(-each // min(counts)) for each in counts] == [1, 2]
    assert [-(-each // max(counts)) for each in counts] == [1, 1]


def test_groups_merge_and_layers_without_cache_do_not_count():
    split = CacheShape("split", (attention(5, 16, 128), Layers("none", 9), attention(5, 16, 128), Layers("shared", 3)))
    layout = VLLM().layout(split)
    assert (layout.size, layout.page) == (1, 16 * 10 * 2 * 16 * 128 * 2)
    assert [(group.count, size, number) for group, size, number in layout.kinds] == [(10, 16, 1)]


def test_pages_of_two_shapes():
    """Gemma-4-31B on 4 ranks: 16 tokens of 4 heads x 256, or 32 of one head x 512."""
    shape = CacheShape("Gemma-4-31B", (attention(10, 4, 512), attention(50, 16, 256, window=1024)))
    layout = VLLM().layout(shape, tp=4)
    assert (layout.page, layout.size, layout.block_bytes) == (65_536, 10, 655_360)
    assert [(size, number) for _, size, number in layout.kinds] == [(32, 1), (16, 5)]
    odd = CacheShape("odd", (attention(10, 3, 64), attention(10, 2, 64, window=8)))
    with pytest.raises(ValueError, match=r"does not divide.*hybrid=False"):
        VLLM().layout(odd)
    assert VLLM(hybrid=False).layout(odd).block_bytes == 16 * 10 * (3 + 2) * 64 * 4


@pytest.mark.parametrize(("kind", "blocks"), [("sliding", -(-3071 // 16) + 1), ("chunked", 3072 // 16)])
def test_reserved_windows(kind, blocks):
    """vLLM's maximum concurrency reserves the window, the tokens of one step, and for a sliding one a block for the offset."""
    shape = CacheShape("windows", (attention(4, 1, 64), attention(4, 1, 64, window=1024, chunked=kind == "chunked")))
    rule = VLLM(batched_tokens=2048)
    windowed = rule.layout(shape).kinds[1]
    assert rule.blocks(windowed[0], windowed[1], Use(8192, 1)) == blocks
    assert VLLM().blocks(windowed[0], windowed[1], Use(8192, 1)) == 64
    wider = VLLM(batched_tokens=2049)  # the window's own last token is in the step: 1,023 + 2,049 still are 192 blocks
    assert wider.blocks(windowed[0], windowed[1], Use(8192, 1)) == 193
    log = rule.log(shape, 10**9, 8192)
    assert log.blocks_per_request == 512 + blocks
    assert log.blocks == 10**9 // (4 * 2 * 64 * 2 * 16)
    assert log.tokens == log.blocks * 8192 // (512 + blocks)


def test_log_of_one_kind():
    log = VLLM().log(LLAMA, 40 * 2**30, 20_000)
    assert (log.blocks, log.tokens, log.blocks_per_request, log.concurrency) == (20480, 327_680, 1250, Fraction(2048, 125))


# ---- llama.cpp -------------------------------------------------------------------------------------------------------


def test_families_without_windows_there():
    mistral = CacheShape("Mistral-7B-v0.1", (attention(32, 8, 128, window=4096),), family="mistral")
    use = Use(32768, 1)
    assert held(LlamaCpp(), mistral, use) == 32768 * 32 * 8 * 128 * 4
    assert "every token of mistral" in LlamaCpp().warnings(mistral, use)[0]
    assert held(LlamaCpp(), GEMMA, use) == (10 * 32768 + 52 * 1536) * 16 * 128 * 4
    assert held(LlamaCpp(swa_full=True), GEMMA, use) == 62 * 32768 * 16 * 128 * 4


def test_unified_and_separate_slots():
    use = Use(1000, 4, shared=900)
    token = 32 * 8 * 128 * 4
    assert held(LlamaCpp(), LLAMA, use) == 4 * 1024 * token
    assert held(LlamaCpp(unified=True), LLAMA, use) == 1536 * token  # 900 + 4 x 100, padded
    assert "once a slot" in LlamaCpp().warnings(LLAMA, use)[0]
    assert held(LlamaCpp(unified=True), GEMMA, Use(32768, 2)) == (10 * 65536 + 52 * 2560) * 16 * 128 * 4  # 2 x 1024 + 512


def test_states_in_four_bytes_there():
    assert held(LlamaCpp(), CacheShape("states", QWEN.groups[1:]), Use(1, 4)) == 4 * 48 * (48 * 128 * 128 + 3 * 10240) * 4


# ---- others ----------------------------------------------------------------------------------------------------------


def test_pages_round_up_and_give_windows_up():
    token = 32 * 8 * 128 * 4
    assert held(engine("tensorrt-llm"), LLAMA, Use(65, 2)) == 256 * token
    assert held(engine("sglang"), LLAMA, Use(65, 2, shared=64)) == 66 * token
    assert held(engine("tensorrt-llm"), LLAMA, Use(100, 2, shared=70)) == (64 + 2 * 64) * token  # whole pages are shared
    assert "windows are not modelled" in engine("sglang").warnings(GEMMA, Use(1, 1))[0]
    assert held(engine("sglang"), GEMMA, Use(5000, 1)) == 5000 * 62 * 16 * 128 * 4


def test_absurd_numbers_stay_exact():
    use = Use(count("length", [10**12]), count("sequences", [10**9]))
    wide = Use(use.length.astype(object), use.sequences.astype(object))
    for rule in (Ideal(), Paged(64), LlamaCpp(), VLLM()):
        one = held(rule, LLAMA, Use(10**12, 10**9))
        assert held(rule, LLAMA, wide)[0] == one >= 10**21 * 131072
    window = CacheShape("absurd", (attention(1, 1, 32, window=2**34),))  # 2^34 x 10^9 would wrap to a negative int64
    many = Use(count("length", [1000]), count("sequences", [10**9]))
    assert held(LlamaCpp(unified=True), window, many)[0] == held(LlamaCpp(unified=True), window, Use(1000, 10**9)) == 10**12 * 128


# ---- dtypes and bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "size"), [
    ("f32", 512), ("f16", 256), ("bf16", 256), ("fp8", 128), ("int8", 128), ("q8_0", 136), ("q5_1", 96), ("q5_0", 88),
    ("q4_1", 80), ("q4_0", 72), ("iq4_nl", 72), ("nvfp4", 72), ("mxfp4", 68), ("fp8_128", 132),
    ("torch.bfloat16", 256), ("Float16", 256), ("fp8_e4m3", 128), ("fp4", 72),
])  # fmt: skip
def test_sizes_of_128_values(name, size):
    assert cache_dtype(name).size(128) == size


def test_rows_end_in_whole_blocks():
    assert DTYPES["q8_0"].size(33) == 68
    assert CacheDtype("six", 6, 8).size(512) == 384
    mixed = attention(1, 1, 80, k="q8_0", v="f16")
    assert [part.size() for part in mixed.token] == [3 * 34, 160]


def test_latent_attention_has_no_factor_and_no_heads():
    assert latent(1, 512, 64).token_bytes() == latent(1, 512, 64).token_bytes(tp=8) == 576 * 2
    assert latent(1, 512, 64, dtype="fp8_ds_mla").token_bytes() == 656
    assert latent(1, 512, 64, index=128).token_bytes() == 576 * 2 + 132
    shape = CacheShape("MLA", (latent(61, 512, 64),))
    assert shape.with_dtypes("fp8_ds_mla").bytes_per_token() == 61 * 656
    assert shape.with_dtypes("f32").bytes_per_token() == 61 * 576 * 4


@pytest.mark.parametrize(("make", "words"), [
    (lambda: attention(0, 8, 128), "layers is 0.*at least 1"),
    (lambda: attention(32, -8, 128), "KV heads is -8"),
    (lambda: attention(32, 8, 128.0), "head size is 128.0.*integer"),
    (lambda: attention(32, True, 128), "KV heads is True"),
    (lambda: attention(32, 8, 128, window=0), "window is 0"),
    (lambda: attention(32, 8, 128, k="f17"), "cache dtype 'f17' is not known; known are f32"),
    (lambda: latent(61, 0, 64), "kv_lora_rank is 0"),
    (lambda: mamba(1, channels=8, state_size=8, kernel=1), "kernel is 1.*at least 2"),
    (lambda: CacheShape("x", (Layers("none", 4),)), "x keeps nothing"),
    (lambda: CacheShape("x", (Layers("full", -4, attention(1, 1, 1).token),)), "layers is -4"),
    (lambda: CacheShape("x", (attention(10**12, 1, 1),)), "more than 100,000 layers"),
    (lambda: CacheShape("x", (Layers("odd", 1, attention(1, 1, 1).token),)), "kind 'odd': known kinds"),
    (lambda: CacheShape("x", (attention(2, 1, 1),), order=(0,)), "order of the layers"),
    (lambda: LLAMA.with_dtypes("fp8_ds_mla"), "latent attention, which this model does not have"),
    (lambda: Ideal().lines(LLAMA, Use(1, 1, tp=3)), "tensor parallelism 3 and 8 heads.*divide"),
    (lambda: VLLM(block=0), "tokens a block is 0"),
    (lambda: VLLM(block=16.0), "tokens a block is 16.0"),
    (lambda: VLLM(batched_tokens=-1), "batched tokens is -1"),
    (lambda: VLLM(state_blocks=0), "blocks of a state is 0"),
    (lambda: LlamaCpp(ubatch=0), "ubatch is 0"),
    (lambda: LlamaCpp(pad=0), "padding is 0"),
    (lambda: Paged(0), "tokens a page is 0"),
    (lambda: slot_length(1024, 0), "slots is 0"),
    (lambda: engine("exllama"), "engine 'exllama' is not modelled; modelled are ideal, vllm"),
])  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_every_line_says_how():
    for rule in ENGINES.values():
        for shape in (LLAMA, GEMMA, QWEN):
            for line in rule.lines(shape, Use(1000, 2, tp=2)):
                assert line.label and " x " in line.formula
    line = Ideal().lines(LLAMA, Use(8192, 32))[0]
    assert line.formula == "32 layers x 262,144 cells x (K 8 x 128 x 2 B + V 8 x 128 x 2 B)"
    assert line.bytes == 32 * 262_144 * 8 * 128 * 2 * BF16.bytes


def test_vllm_allocates_attention_and_state_of_one_layer_as_two():
    attention_alone, state_alone = attention(44, 2, 128), mamba2(44, heads=24, width=64, state_size=256, groups=1, kernel=4)
    both = CacheShape("both in each layer", (replace(attention_alone, state=state_alone.state),))
    apart = CacheShape("apart", (attention_alone, state_alone))
    use = Use(1000, 2)
    assert held(VLLM(), both, use) == held(VLLM(), apart, use) == 279_707_648
