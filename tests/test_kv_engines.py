"""Allocation rules: what holds for all of them, where it stops to hold, and exact values of each."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies  # noqa: F401 - loads the suite's Hypothesis profile
from specdec.kv.counts import SAFE, count, times, whole
from specdec.kv.dtypes import DTYPES, CacheDtype, cache_dtype
from specdec.kv.engines import (
    ENGINES,
    LLAMA_CPP_FULL,
    LLAMA_CPP_WINDOWS,
    VLLM,
    Ideal,
    LlamaCpp,
    Paged,
    Use,
    engine,
    slot_length,
)
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
    ahead = draw(st.integers(0, 8)) if lookahead is None else lookahead
    return Use(length, draw(st.integers(1, 40)), ahead, shared, drafted=draw(st.booleans()))


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
    if isinstance(rule, LlamaCpp):  # its windows have room for one batch
        assume(use.sequences * use.lookahead <= rule.ubatch)
    assert held(rule, shape, use) >= held(Ideal(), shape, use)


def test_the_ideal_is_no_floor_of_llama_cpp_beyond_a_batch():
    windowed = CacheShape("windowed", (attention(1, 1, 32, window=16),))
    rule, many = LlamaCpp(ubatch=16, unified=True, pad=1), Use(1000, 10, lookahead=5)
    assert held(rule, windowed, many) == (10 * 16 + 16) * 128 < held(Ideal(), windowed, many) == 10 * (16 + 5) * 128


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
    """Alone, 52 sliding layers are 52; beside 10 full ones they are 6 groups of 10, 8 of them padding.

    A window of 1,024 straddles 65 blocks of 16.
    """
    full, sliding = (CacheShape("part", (group,)) for group in GEMMA.groups)
    use, layer = Use(4096, 1), 16 * 2 * 16 * 128 * 2
    assert held(VLLM(), full, use) == 256 * 10 * layer
    assert held(VLLM(), sliding, use) == 65 * 52 * layer
    assert held(VLLM(), GEMMA, use) == (256 + 6 * 65) * 10 * layer
    assert held(VLLM(), GEMMA, use) - held(VLLM(), full, use) - held(VLLM(), sliding, use) == 65 * 8 * layer


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
    assert VLLM().blocks(windowed[0], windowed[1], Use(8192, 1)) == (65 if kind == "sliding" else 64)
    assert VLLM().held(windowed[0], windowed[1], Use(8192, 1)) == 64  # 8,192 ends a block
    wider = VLLM(batched_tokens=2049)  # the window's own last token is in the step: 1,023 + 2,049 still are 192 blocks
    assert wider.blocks(windowed[0], windowed[1], Use(8192, 1)) == 193
    log = rule.log(shape, 10**9, 8192)
    assert log.blocks_per_request == 512 + blocks
    assert log.blocks == 10**9 // (4 * 2 * 64 * 2 * 16)
    assert log.tokens == log.blocks * 8192 // (512 + blocks)
    assert log.tokens_by_groups == log.blocks // 2 * 16
    assert log.concurrency == Fraction(log.blocks, 512 + blocks)


def test_log_of_one_kind():
    log = VLLM().log(LLAMA, 40 * 2**30, 20_000)
    assert (log.blocks, log.tokens, log.blocks_per_request, log.concurrency) == (20480, 327_680, 1250, Fraction(2048, 125))
    odd = VLLM().log(LLAMA, 40 * 2**30, 20_001)  # requests times their length: part of each last block is no token
    assert (odd.tokens, odd.tokens_by_groups) == (20480 * 20_001 // 1251, 20480 * 16) == (327_434, 327_680)


# ---- vLLM's windows, by simulation -----------------------------------------------------------------------------------


def simulated(window, size, chunked, ahead, longest):
    """Blocks of a text that grows token by token, as ``single_type_kv_cache_manager.py`` gives and takes them.

    Before a step with n computed tokens, blocks of skipped tokens alone go (those before the last window - 1, or before this
    chunk); then there are blocks for the new token and those ahead.
    """
    blocks, freed, found = 0, 0, []
    for computed in range(longest):
        skipped = computed // window * window if chunked else max(0, computed - window + 1)
        while (freed + 1) * size <= skipped:
            freed += 1
        while blocks * size < computed + 1 + ahead:
            blocks += 1
        found.append(blocks - freed)
    return found


@pytest.mark.parametrize(("drafted", "lookahead"), [(False, 0), (False, 3), (True, 3)])
@pytest.mark.parametrize(("window", "size"), [
    (32, 16), (33, 16), (47, 16), (48, 16), (1, 16), (16, 16), (17, 16), (100, 32), (128, 16), (7, 8), (5, 1), (64, 64), (24, 16),
])  # fmt: skip
def test_windows_are_freed_by_whole_blocks(window, size, drafted, lookahead):
    rule, ahead = VLLM(), 2 * lookahead if drafted else lookahead
    group, chunks = attention(1, 1, 64, window=window), attention(1, 1, 64, window=window, chunked=True)
    use = Use(count("length", range(1, 401)), 1, lookahead, drafted=drafted)
    expected = simulated(window, size, False, ahead, 400)
    assert rule.held(group, size, use).tolist() == expected
    assert rule.blocks(group, size, use).tolist() == np.maximum.accumulate(expected).tolist()
    in_chunks = simulated(window, size, True, ahead, 400)
    assert rule.held(chunks, size, use).tolist() == in_chunks
    most = np.maximum.accumulate(in_chunks)
    blocks = rule.blocks(chunks, size, use)
    assert (most <= blocks).all()
    if window * size <= 400:  # then every place in a block where a chunk may begin has occurred
        assert blocks[-1] == most[-1]
    if window % size == 0:
        assert blocks.tolist() == most.tolist()
    else:  # before the first chunk that begins so badly, a bound
        assert (blocks <= most + 1).all()


def test_twin_a_window_in_its_fewest_blocks():
    """ceil(window / block), the rule of most calculators, is too little at most lengths."""
    found = simulated(32, 16, False, 0, 400)
    assert {length for length, blocks in enumerate(found, 1) if blocks == 2} == {*range(17, 33), *range(48, 401, 16)}
    assert max(found) == 3 == VLLM().blocks(attention(1, 1, 64, window=32), 16, Use(400, 1))


def test_the_example_of_the_design_document():
    """Sliding windows of 32 and blocks of 16 at 112 tokens: 7 of the full group and 2 of each sliding one; on the way, 3."""
    shape = CacheShape("document", (attention(10, 1, 1), attention(20, 1, 1, window=32)))
    rule, layout = VLLM(), VLLM().layout(shape)
    assert [groups * rule.held(group, size, Use(112, 1)) for group, size, groups in layout.kinds] == [7, 2 * 2]
    assert [groups * rule.held(group, size, Use(111, 1)) for group, size, groups in layout.kinds] == [7, 2 * 3]
    assert [groups * rule.blocks(group, size, Use(112, 1)) for group, size, groups in layout.kinds] == [7, 2 * 3]
    assert held(rule, shape, Use(112, 1)) == 13 * layout.block_bytes


@given(shapes, uses())
def test_no_text_holds_more_than_the_most(shape, use):
    modelled(VLLM(), shape)
    for group, size, _ in VLLM().layout(shape, use.tp, use.lookahead).kinds:
        assert VLLM().held(group, size, use) <= VLLM().blocks(group, size, use)


# ---- what proposals ask for ------------------------------------------------------------------------------------------


STATE, CONV = 48 * 48 * 128 * 128 * 4, 48 * 10240 * 2  # of Qwen3.5-27B: all layers' matrices, and one input of its convolutions


def test_a_convolution_is_rewound_by_inputs_and_a_state_by_copies():
    shape = CacheShape("states", QWEN.groups[1:])
    for rule in (Ideal(), Paged(1), Paged(64)):
        assert held(rule, shape, Use(1, 2)) == 2 * (STATE + 3 * CONV)
        assert held(rule, shape, Use(1, 2, lookahead=5)) == 2 * (6 * STATE + (3 + 5) * CONV)
        assert held(rule, shape, Use(1, 2, lookahead=5)) != 2 * 6 * (STATE + 3 * CONV)  # the twin: all of it copied
    labels = [line.label for line in Ideal().lines(shape, Use(1, 2, lookahead=5))]
    assert labels == ["recurrent: state", "recurrent: conv", "recurrent: conv"]


def test_llama_cpp_copies_both_in_float32():
    """A log of 2026: 1,795.50 MiB for 4 sequences and 2 proposals, R 67.50 and S 1,728.00; without proposals 598.50."""
    shape = CacheShape("Qwen3.8-27B", QWEN.groups[1:])
    mib = [line.bytes / 2**20 for line in LlamaCpp().lines(shape, Use(1, 4, lookahead=2))]
    assert (mib[0], mib[1] + mib[2]) == (1728, 67.5)
    assert sum(mib) == 1795.5 == 3 * held(LlamaCpp(), shape, Use(1, 4)) / 2**20
    halves = shape.with_dtypes(state="bf16", conv="f16")
    assert held(LlamaCpp(), halves, Use(1, 4, lookahead=2)) == held(LlamaCpp(), shape, Use(1, 4, lookahead=2))
    twin = held(Paged(1), shape.with_dtypes(conv="f32"), Use(1, 4, lookahead=2)) / 2**20
    assert twin == 1728 + 22.5 * 5 / 3 != 1795.5
    assert LlamaCpp().warnings(shape, Use(1, 4, lookahead=2)) == ()


def test_depth_of_a_convolution():
    state, values, keys = gated_delta(1, value_heads=48, key_heads=16, key_width=128, value_width=128, kernel=4).state
    assert (state.depth, values.depth, keys.depth) == (1, 3, 3)
    assert values.size() + keys.size() == 3 * (48 * 128 + 16 * 2 * 128) * 2 and values.size(tp=2) == 3 * 24 * 128 * 2
    assert values.formula() == "conv 48 x 128 x 3 x 2 B" and state.formula() == "state 48 x 16384 x 4 B"
    deeper = QWEN.groups[1].deeper(2)
    assert [part.depth for part in deeper.state] == [1, 5, 5]
    assert deeper.state_bytes() - QWEN.groups[1].state_bytes() == 2 * 10240 * 2
    assert QWEN.groups[0].deeper(2) == QWEN.groups[0]


def test_vllm_widens_convolutions():
    """Qwen3.8-27B on 2 ranks: 784 tokens a block, with 2 proposals ahead 800, as its log says."""
    assert VLLM().layout(QWEN, tp=2).kinds[0][1] == 784
    wide = VLLM().layout(QWEN, tp=2, lookahead=2)
    assert wide.kinds[0][1] == 800 and wide.page == 800 * 2048
    assert 24 * 128 * 128 * 4 + (3 + 2) * 5120 * 2 == 1_624_064 == wide.kinds[1][0].state_bytes(2)
    assert -(-1_624_064 // 2048) == 793  # not 784 any more
    one = VLLM(state_blocks=2)
    assert one.blocks(wide.kinds[1][0], 800, Use(1, 1, lookahead=2)) == 4  # 2, and one for each proposal


def test_a_draft_asks_for_twice_the_proposals():
    token, use = 16 * 131_072, Use(27, 3, lookahead=3)
    assert held(VLLM(), LLAMA, use) == 3 * 2 * token  # 30 tokens
    assert held(VLLM(), LLAMA, replace(use, drafted=True)) == 3 * 3 * token  # 33
    for rule in (Ideal(), Paged(64), LlamaCpp()):
        assert held(rule, LLAMA, use) == held(rule, LLAMA, replace(use, drafted=True))


def test_grain_of_a_block():
    """Kimi-Linear's log says 1,920: latent attention goes by 64 tokens, the rest by 16."""
    kimi = CacheShape("Kimi-Linear", (
        latent(7, 512, 64), gated_delta(20, value_heads=32, key_heads=32, key_width=128, value_width=128, kernel=4),
    ))  # fmt: skip
    assert VLLM().layout(kimi).kinds[0][1] == 1920 and VLLM().layout(kimi, tp=2).kinds[0][1] == 960
    assert VLLM(grain=16).layout(kimi).kinds[0][1] == 1888  # the twin
    assert VLLM().layout(QWEN).kinds[0][1] == 784 == VLLM(grain=16).layout(QWEN).kinds[0][1]
    assert VLLM(grain=64).layout(QWEN).kinds[0][1] == 832 and VLLM(grain=1).layout(QWEN).kinds[0][1] == 783
    assert VLLM(block=1024).layout(QWEN).kinds[0][1] == 1024
    assert VLLM(grain=64).layout(GEMMA) == VLLM().layout(GEMMA)  # no states, no grain


def test_windows_alone_stay_windows_without_the_hybrid_manager():
    """There is one kind, and nothing to unify: only beside full layers are windows given up."""
    alone, rule = CacheShape("windows", (attention(32, 8, 128, window=4096),)), VLLM(hybrid=False)
    use = Use(32768, 1)
    assert held(rule, alone, use) == 257 * 16 * 131_072 == held(VLLM(), alone, use)
    assert rule.warnings(alone, use) == ()
    both = CacheShape("both", (attention(16, 8, 128, window=4096), attention(16, 8, 128)))
    assert held(rule, both, use) == 2048 * 16 * 131_072
    assert rule.warnings(both, use) == ("vLLM without the hybrid manager: every layer is counted in full",)
    assert VLLM().warnings(both, use) == ()
    beside = CacheShape("beside states", (attention(16, 4, 256, window=4096), *QWEN.groups[1:]))
    assert held(rule, beside, use) == held(VLLM(), beside, use) and rule.warnings(beside, use) == ()


def test_log_of_states_and_proposals():
    """By hand: 12.29 GiB in blocks of 800 tokens in 17 layers, the one that drafts among them; 328 + 3 x (2 + 2) a request."""
    target = CacheShape("27B and its MTP layer", (attention(17, 4, 256), QWEN.groups[1]))
    budget = 1229 * 2**30 // 100
    log = VLLM(state_blocks=2).log(target, budget, 262_144, tp=2, lookahead=2)
    assert log.blocks == budget // (17 * 800 * 2048) == 473
    assert log.blocks_per_request == 328 + 3 * (2 + 2) == 340
    assert (log.tokens, log.tokens_by_groups) == (473 * 262_144 // 340, 473 // 4 * 800) == (364_688, 94_400)
    assert VLLM(state_blocks=2).log(target, budget, 262_144, tp=2).tokens != log.tokens
    with pytest.raises(ValueError, match="lookahead is -1"):
        VLLM().log(target, budget, 100, lookahead=-1)


# ---- llama.cpp -------------------------------------------------------------------------------------------------------


def test_families_without_windows_there():
    mistral = CacheShape("Mistral-7B-v0.1", (attention(32, 8, 128, window=4096),), family="mistral")
    use = Use(32768, 1)
    assert held(LlamaCpp(), mistral, use) == 32768 * 32 * 8 * 128 * 4
    assert "every token of mistral" in LlamaCpp().warnings(mistral, use)[0]
    assert held(LlamaCpp(), GEMMA, use) == (10 * 32768 + 52 * 1536) * 16 * 128 * 4
    assert held(LlamaCpp(swa_full=True), GEMMA, use) == 62 * 32768 * 16 * 128 * 4
    assert LlamaCpp().warnings(GEMMA, use) == ()


def test_windows_of_unknown_families_are_counted_there():
    assert not set(LLAMA_CPP_FULL) & set(LLAMA_CPP_WINDOWS)
    use, token = Use(32768, 1), 32 * 8 * 128 * 4
    expected = {"brand_new": 4608, "": 4608, "gpt_oss": 4608, "laguna": 4608, "mistral": 32768, "qwen2": 32768}
    for family, cells in expected.items():
        shape = CacheShape("some", (attention(32, 8, 128, window=4096),), family=family)
        assert held(LlamaCpp(), shape, use) == cells * token, family
    new = CacheShape("new", (attention(32, 8, 128, window=4096),), family="brand_new")
    assert LlamaCpp().warnings(new, use) == (
        "whether llama.cpp uses the windows of brand_new models is not known here: they are counted",
    )
    assert LlamaCpp().warnings(replace(new, family=""), use) == LlamaCpp().warnings(replace(new, family="afmoe"), use) == ()
    assert LlamaCpp().warnings(CacheShape("full", (attention(1, 1, 1),), family="brand_new"), use) == ()


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


def test_products_leave_int64_before_they_wrap():
    """The engines' own lines, without a plan: each entry of the array as exact as it is alone."""
    lengths, many = np.array([1, 2**40]), np.array([[1], [2**20]])
    for rule in (Ideal(), Paged(64), LlamaCpp(), LlamaCpp(unified=True), VLLM()):
        for shape in (LLAMA, GEMMA, QWEN):
            for line, corner in zip(rule.lines(shape, Use(lengths, many)), rule.lines(shape, Use(2**40, 2**20)), strict=True):
                entry = np.broadcast_to(line.bytes, (2, 2))[1, 1]
                assert entry == corner.bytes and corner.bytes > 0
    got = Ideal().lines(LLAMA, Use(lengths, many))[0].bytes
    assert got.dtype == object and got[1, 1] == 2**60 * 131_072
    with np.errstate(over="ignore"):
        assert (lengths * many * 131_072)[1, 1] == 0  # the twin: 2^77 in int64
    assert Ideal().lines(LLAMA, Use(np.array([1000]), 3))[0].bytes.dtype == np.int64


def test_times_and_whole():
    below, at = times(np.array([2**27]), 2**27), times(np.array([2**27]), 2**28)
    assert (below.dtype, at.dtype) == (np.int64, object) and below[0] == SAFE // 2 and at[0] == SAFE
    assert times(2**60, 2**60) == 2**120 and times() == 1
    assert times(np.array([0, 1]), np.array([2**54, 5]), 2**40).tolist() == [0, 5 * 2**40]
    assert (whole("x", np.int32(5)), type(whole("x", np.int32(5)))) == (5, int)
    for wrong in (True, 1.0, "1", None, np.array([1]), np.float64(1), -1):
        with pytest.raises(ValueError, match=r"x is .*: it must be an integer of at least 0"):
            whole("x", wrong)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Use(0, 1), "length is 0: it must be at least 1"),
    (lambda: Use(np.array([5, 3]), 1, shared=4), "length is 3: it must be at least 4"),
    (lambda: Use(1.5, 1), "length is 1.5"),
    (lambda: Use(1, -1), "sequences is -1"),
    (lambda: Use(1, 1, lookahead=-1), "lookahead is -1"),
    (lambda: Use(1, 1, lookahead=np.array([1])), "lookahead is array"),
    (lambda: Use(1, 1, shared=-1), "shared tokens is -1"),
    (lambda: Use(1, 1, tp=0), "tensor parallelism is 0"),
    (lambda: Use(1, 1, tp=True), "tensor parallelism is True"),
])  # fmt: skip
def test_a_use_checks_itself(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_use_holds_int64():
    use = Use(np.array([200], np.uint8), np.array([300], np.int16))
    assert (use.length.dtype, use.sequences.dtype) == (np.int64, np.int64)
    assert held(Ideal(), LLAMA, use).tolist() == [60_000 * 131_072]


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


def test_a_dtype_for_values_that_are_not_there_is_a_warning():
    shape = CacheShape("MLA", (latent(61, 512, 64),), warnings=("one before",))
    asked = shape.with_dtypes("bf16", "fp8")
    assert asked.warnings == ("one before", "no values are cached beside the keys: the dtype of V is not used")
    assert asked == shape and shape.with_dtypes("bf16").warnings == ("one before",)
    assert LLAMA.with_dtypes("fp8", "fp8").warnings == () == QWEN.with_dtypes(v="fp8").warnings


def test_empty_shapes():
    nothing_kept = CacheShape("x", (Layers("none", 4), Layers("shared", 2)))
    assert nothing_kept.empty and nothing_kept.bytes_per_token() == nothing_kept.fixed_bytes() == 0
    assert not LLAMA.empty and not CacheShape("states", QWEN.groups[1:]).empty
    for rule in ENGINES.values():
        assert rule.lines(nothing_kept, Use(np.array([5, 6]), 2, lookahead=3)) == []


@pytest.mark.parametrize(("make", "words"), [
    (lambda: attention(0, 8, 128), "layers is 0.*at least 1"),
    (lambda: attention(32, -8, 128), "key-value heads is -8"),
    (lambda: attention(32, 8, 128.0), "head size is 128.0.*integer"),
    (lambda: attention(32, True, 128), "key-value heads is True"),
    (lambda: attention(32, 8, 128, value_width=0), "value size is 0"),
    (lambda: attention(32, 8, 128, chunked=True), "chunked layers need a window: the length of a chunk"),
    (lambda: attention(32, 8, 128, window=0), "window is 0"),
    (lambda: attention(32, 8, 128, k="f17"), "cache dtype 'f17' is not known; known are f32"),
    (lambda: latent(61, 0, 64), "kv_lora_rank is 0"),
    (lambda: mamba(1, channels=8, state_size=8, kernel=1), "kernel is 1.*at least 2"),
    (lambda: CacheShape("x", (Layers("full", -4, attention(1, 1, 1).token),)), "layers is -4"),
    (lambda: CacheShape("x", (attention(10**12, 1, 1),)), "more than 100,000 layers"),
    (lambda: CacheShape("x", (Layers("odd", 1, attention(1, 1, 1).token),)), "kind 'odd': known kinds"),
    (lambda: CacheShape("x", (attention(2, 1, 1),), order=(0,)), "order of the layers"),
    (lambda: LLAMA.with_dtypes("fp8_ds_mla"), "latent attention, which this model does not have"),
    (lambda: LLAMA.with_dtypes(state="f17"), "cache dtype 'f17' is not known"),
    (lambda: Ideal().lines(LLAMA, Use(1, 1, tp=3)), "tensor parallelism 3 and 8 heads.*divide"),
    (lambda: VLLM(block=0), "tokens a block is 0"),
    (lambda: VLLM(block=16.0), "tokens a block is 16.0"),
    (lambda: VLLM(batched_tokens=-1), "batched tokens is -1"),
    (lambda: VLLM(state_blocks=0), "blocks of a state is 0"),
    (lambda: VLLM(grain=0), "grain of a block is 0"),
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
