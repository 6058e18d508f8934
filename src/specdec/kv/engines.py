"""How engines allocate a cache: small explicit sets of rules, each with the versions that it was seen in.

``engine.lines(shape, length, sequences)`` gives what is allocated on one rank for ``sequences`` texts of ``length`` tokens each.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from specdec.kv.counts import blocks, count, greatest, least, padded
from specdec.kv.shape import CacheShape, Layers


@dataclass(frozen=True)
class Line:
    """One step of a derivation: what is stored, the expression, and its value in bytes."""

    label: str
    formula: str
    bytes: Any


@dataclass(frozen=True)
class Use:
    """What is to be held: ``sequences`` texts of ``length`` tokens, and room for ``lookahead`` proposals behind each.

    Their first ``shared`` tokens are the same and are kept once, as far as the engine can. ``tp``: ranks that share the heads.
    """

    length: Any
    sequences: Any
    lookahead: int = 0
    shared: int = 0
    tp: int = 1


class Engine(Protocol):
    """An allocation rule."""

    @property
    def name(self) -> str:
        """What it is called."""

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """What is allocated on one rank, a line for each kind of layers."""

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Where the rules stop short of what the engine does."""


def _group_lines(shape: CacheShape, use: Use, cells: Callable[[Layers], Any], copies: Any) -> list[Line]:
    """For engines that size each kind of layers on its own: cells for all sequences together, and copies of the states."""
    lines = []
    for group in shape.groups:
        if group.token:
            held, one = cells(group), group.token_bytes(use.tp)
            parts = " + ".join(part.formula(use.tp) for part in group.token)
            lines.append(Line(group.name, f"{group.count} layers x {_shown(held)} cells x ({parts})", group.count * one * held))
        if group.state:
            parts = " + ".join(part.formula(use.tp) for part in group.state)
            held = copies * use.sequences
            lines.append(
                Line(f"{group.name} state", f"{group.count} layers x {_shown(held)} states x ({parts})",
                     group.count * group.state_bytes(use.tp) * held)
            )  # fmt: skip
    return lines


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "n"


@dataclass(frozen=True)
class Ideal:
    """No rounding: exactly the tokens that a later token may look at.

    A state can't be cut back, so a rewind over ``lookahead`` proposals needs one copy more for each.
    """

    name = "ideal"

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""

        def cells(group: Layers) -> Any:
            if group.window is None:
                return use.shared + use.sequences * (use.length + use.lookahead - use.shared)
            once = greatest(0, use.shared - greatest(0, use.length - group.window))  # of the window, what lies in the prefix
            return once + use.sequences * (least(use.length, group.window) + use.lookahead - once)

        return _group_lines(shape, use, cells, 1 + use.lookahead)

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class Paged:
    """Pages of ``page`` tokens for every layer, windows not used: enough for SGLang's token pool (page 1, seen in the logs of
    2025) and TensorRT-LLM's pool (64, seen in 2024)."""

    page: int = 1
    name: str = "paged"

    def __post_init__(self) -> None:
        count("tokens a page", self.page, 1)

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""
        once = use.shared // self.page * self.page

        def cells(group: Layers) -> Any:
            return once + use.sequences * (padded(use.length + use.lookahead, self.page) - once)

        return _group_lines(shape, use, cells, 1 + use.lookahead)

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Says where windows are given up."""
        windows = any(group.window is not None for group in shape.groups)
        return (f"{self.name}: windows are not modelled, every layer is counted in full",) if windows else ()


LLAMA_CPP_WINDOWS = (
    "cohere2", "exaone4", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text",
    "gemma4_unified", "gemma4_unified_text", "gpt_oss", "llama4", "llama4_text", "olmo3", "smallthinker",
)  # fmt: skip
"""Families whose windows llama.cpp keeps (set where it loads the architecture); of all others it caches every token."""


@dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp: cells in multiples of 256 for each slot, windows of ``window + ubatch`` cells, states in float32.

    Seen in its sources of late 2025 to 2026: ``llama-context.cpp`` (n_ctx and n_ctx_seq padded to 256), and
    ``llama-kv-cache-iswa.cpp`` (``pad256(min(size_base, n_swa * (unified ? n_seq_max : 1) + n_ubatch))``).
    ``unified``: one pool for all slots. ``swa_full``: the option that gives windows up. Latent attention keeps no V there either.
    """

    ubatch: int = 512
    unified: bool = False
    swa_full: bool = False
    pad: int = 256
    name = "llama.cpp"

    def __post_init__(self) -> None:
        count("ubatch", self.ubatch, 1), count("padding", self.pad, 1)

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""
        wide = shape.with_dtypes(state="f32", conv="f32")
        windows = shape.family in ("", *LLAMA_CPP_WINDOWS) and not self.swa_full
        room, streams = use.length + use.lookahead, use.sequences
        if self.unified:
            room, streams = use.shared + use.sequences * (room - use.shared), 1
        base = padded(room, self.pad)

        def cells(group: Layers) -> Any:
            if group.window is None or not windows:
                return streams * base
            # More windows than the pool has room for change nothing; cut off, they can't leave int64.
            seen = (least(use.sequences, blocks(base, group.window)) if self.unified else 1) * group.window + self.ubatch
            return streams * padded(least(base, seen), self.pad)

        return _group_lines(wide, use, cells, 1)

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Windows dropped, states that can't be rewound, slots that don't share."""
        found = []
        if any(g.window is not None for g in shape.groups) and shape.family not in ("", *LLAMA_CPP_WINDOWS):
            found.append(f"llama.cpp caches every token of {shape.family} models: the window is not used")
        if use.lookahead and any(group.state for group in shape.groups):
            found.append("llama.cpp rewinds a state from checkpoints outside of this cache: they are not counted")
        if use.shared and not self.unified:
            found.append("llama.cpp slots share a prefix only in a unified cache: it is counted once a slot")
        return tuple(found)


def slot_length(context: int, slots: int, pad: int = 256) -> int:
    """llama.cpp's context of one slot when ``--ctx-size`` is split over ``--parallel`` slots: padded before and after the split.

    More slots can need fewer cells: 1024 over 3 slots is 512 each, over 4 it is 256 each.
    """
    context, slots = count("context", context, 1), count("slots", slots, 1)
    return int(padded(padded(context, pad) // slots, pad))


@dataclass(frozen=True)
class Layout:
    """vLLM's pages: ``page`` bytes of one block in one layer, ``size`` layers a group, and for each kind of layers
    (layers, tokens a block, groups). A block of a group takes ``block_bytes``."""

    page: int
    size: int
    kinds: tuple[tuple[Layers, int, int], ...]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block in all layers of a group."""
        return self.page * self.size


def _apart(group: Layers) -> list[Layers]:
    """Attention and state of a group, which vLLM allocates as two even where one layer has both; nothing where it has neither."""
    pieces = replace(group, state=()), replace(group, kind="recurrent", token=(), window=None)
    return [piece for piece in pieces if piece.token or piece.state]


@dataclass(frozen=True)
class VLLM:
    """vLLM's block pool: ``kv_cache_utils.py`` and ``kv_cache_interface.py``, seen in versions 0.8 to 0.23.

    Layers of one kind form one group. Mixed kinds form groups of equally many layers that share one pool, so all pages get one
    size: smaller ones by more tokens a block, states by padding. ``hybrid=False`` counts every layer in full.

    A running request holds ``ceil(window / block)`` blocks of a window; give ``batched_tokens`` for what vLLM reserves when it
    prints its maximum concurrency: the window, the tokens of one step, and a block for the offset. ``state_blocks`` is 2 where
    prefix caching aligns the states (``mamba_cache_mode="align"``). A drafter's layers are counted as a pool of their own.
    """

    block: int = 16
    hybrid: bool = True
    batched_tokens: int | None = None
    state_blocks: int = 1
    name = "vLLM"

    def __post_init__(self) -> None:
        count("tokens a block", self.block, 1), count("blocks of a state", self.state_blocks, 1)
        if self.batched_tokens is not None:
            count("batched tokens", self.batched_tokens, 1)

    def layout(self, shape: CacheShape, tp: int = 1) -> Layout:
        """Groups and pages. ``ValueError`` where pages of different kinds can't be made equal by whole factors."""
        kinds: list[Layers] = []
        for group in (piece for layers in shape.groups for piece in _apart(layers)):
            if group.token and not self.hybrid:
                group = replace(group, kind="full", window=None)
            same = [i for i, kind in enumerate(kinds) if replace(kind, count=group.count) == group]
            if same:
                kinds[same[0]] = replace(group, count=group.count + kinds[same[0]].count)
            else:
                kinds.append(group)
        if all(group.token for group in kinds) and len({group.window for group in kinds}) == 1:
            page = sum(group.count * group.token_bytes(tp) for group in kinds) * self.block
            return Layout(page, 1, ((kinds[0], self.block, 1),))
        if len(kinds) == 1:
            return Layout(kinds[0].state_bytes(tp), kinds[0].count, ((kinds[0], self.block, 1),))
        return self._mixed(kinds, tp)

    def _mixed(self, kinds: list[Layers], tp: int) -> Layout:
        tokens = [group.token_bytes(tp) for group in kinds if group.token]
        states = [group.state_bytes(tp) for group in kinds if group.state]
        if states and not tokens:
            raise ValueError("vLLM: states of different sizes without attention are not modelled")
        block = self.block
        if states:  # the attention block grows until its page holds a state
            block = max(block, 16 * blocks(max(states), 16 * max(tokens)))
        page = max([max(tokens) * block, *states])
        counts = [group.count for group in kinds]
        size = max(counts) if 2 * max(counts) < 3 * min(counts) else min(counts)
        found = []
        for group in kinds:
            own = group.token_bytes(tp) * block
            if group.token and page % own:
                raise ValueError(
                    f"vLLM: a page of {own} bytes ({group.name}) does not divide one of {page}, so the kinds can't share a pool:"
                    " hybrid=False counts every layer in full"
                )
            found.append((group, block * (page // own) if group.token else block, blocks(group.count, size)))
        return Layout(page, size, tuple(found))

    def blocks(self, group: Layers, size: int, use: Use) -> Any:
        """Blocks of ``size`` tokens that one sequence holds in one group."""
        if group.state:
            return self.state_blocks + use.lookahead
        cells = use.length + use.lookahead
        if group.window is None:
            return blocks(cells, size)
        if self.batched_tokens is None:
            return blocks(least(use.length, group.window) + use.lookahead, size)
        chunked = group.kind == "chunked"
        reserved = least(group.window - (0 if chunked else 1) + self.batched_tokens, cells)
        return blocks(reserved, size) + (0 if chunked else 1)

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""
        layout, lines = self.layout(shape, use.tp), []
        for group, size, groups in layout.kinds:
            each = self.blocks(group, size, use)
            once = use.shared // size if group.token and group.window is None else 0
            held = groups * (once + use.sequences * (each - once))
            what = group.name if len(layout.kinds) > 1 else "all layers"
            unit = f"{groups} groups of {layout.size} layers, " if len(layout.kinds) > 1 else ""
            tokens = f"{size} tokens a block" if group.token else "a state a block"
            lines.append(
                Line(what, f"{_shown(held)} blocks x {layout.block_bytes:,} B ({unit}{tokens})", held * layout.block_bytes)
            )
        return lines

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Says when windows are given up."""
        lost = not self.hybrid and any(group.window is not None for group in shape.groups)
        return ("vLLM without the hybrid manager: every layer is counted in full",) if lost else ()

    def log(self, shape: CacheShape, budget: int, length: int, tp: int = 1) -> "Log":
        """What vLLM prints at start for ``budget`` bytes on the smallest rank and requests of ``length`` tokens."""
        layout, use = self.layout(shape, tp), Use(length, 1, tp=tp)
        number = budget // layout.block_bytes
        each = sum(groups * self.blocks(group, size, use) for group, size, groups in layout.kinds)
        if len(layout.kinds) > 1:
            return Log(number, each, Fraction(number, each), int(number * length // each))
        return Log(number, each, Fraction(number, each), int(number * self.block))


@dataclass(frozen=True)
class Log:
    """``blocks`` in the pool, blocks of one request, how many requests fit at once, and the line ``GPU KV cache size``."""

    blocks: int
    blocks_per_request: int
    concurrency: Fraction
    tokens: int


ENGINES: dict[str, Engine] = {
    "ideal": Ideal(),
    "vllm": VLLM(),
    "llama.cpp": LlamaCpp(),
    "sglang": Paged(1, "SGLang"),
    "tensorrt-llm": Paged(64, "TensorRT-LLM"),
}


def engine(name: str) -> Engine:
    """The profile of a name with its defaults; ``ValueError`` lists the names that are modelled."""
    if name not in ENGINES:
        raise ValueError(f"engine {name!r} is not modelled; modelled are {', '.join(ENGINES)}")
    return ENGINES[name]
