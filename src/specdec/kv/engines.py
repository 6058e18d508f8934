"""How engines allocate a cache: small explicit sets of rules, each with the versions that it was seen in.

``engine.lines(shape, use)`` gives what is allocated on one rank for the texts that ``use`` describes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd
from typing import Any, Protocol

from specdec.kv.counts import SAFE, blocks, count, greatest, least, padded, times, whole
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

    Integers, or arrays that broadcast. Their first ``shared`` tokens are the same and are kept once, as far as the engine can.
    ``tp``: ranks that share the heads. ``drafted``: the proposals come from a draft with a cache of its own.
    """

    length: Any
    sequences: Any
    lookahead: int = 0
    shared: int = 0
    tp: int = 1
    drafted: bool = False

    def __post_init__(self) -> None:
        whole("lookahead", self.lookahead), whole("shared tokens", self.shared), whole("tensor parallelism", self.tp, 1)
        length, sequences = count("length", self.length, max(1, self.shared)), count("sequences", self.sequences)
        if self.lookahead >= SAFE and not isinstance(length, int):
            length = length.astype(object)
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "sequences", sequences)


class Engine(Protocol):
    """An allocation rule."""

    @property
    def name(self) -> str:
        """What it is called."""

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """What is allocated on one rank, a line for each kind of layers."""

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Where the rules stop short of what the engine does."""


def _token_lines(shape: CacheShape, use: Use, cells: Callable[[Layers], Any]) -> list[Line]:
    """For engines that size each kind of layers on its own: cells of all sequences together."""
    lines = []
    for group in shape.groups:
        if group.token:
            held, parts = cells(group), " + ".join(part.formula(use.tp) for part in group.token)
            size = times(group.count * group.token_bytes(use.tp), held)
            lines.append(Line(group.name, f"{group.count} layers x {_shown(held)} cells x ({parts})", size))
    return lines


def _state_lines(shape: CacheShape, use: Use, *, inputs: int) -> list[Line]:
    """States, once more for each proposal; convolutions too, or once with so many ``inputs`` more."""
    lines = []
    for group in (each.deeper(inputs) for each in shape.groups):
        for part in group.state:
            copies = 1 if part.role == "conv" and inputs else 1 + use.lookahead
            held, size = times(copies, use.sequences), group.count * part.size(use.tp)
            formula = f"{group.count} layers x {_shown(held)} x ({part.formula(use.tp)})"
            lines.append(Line(f"{group.name}: {part.role}", formula, times(size, held)))
    return lines


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "n"


@dataclass(frozen=True)
class Ideal:
    """No rounding: the tokens that a later token may look at, of a chunk at most all.

    A state can't be cut back, so a rewind over ``lookahead`` proposals needs one copy more for each; a convolution needs as many
    inputs more.
    """

    name = "ideal"

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""

        def cells(group: Layers) -> Any:
            if group.window is None:
                return use.shared + times(use.sequences, use.length + use.lookahead - use.shared)
            once = greatest(0, use.shared - greatest(0, use.length - group.window))  # of the window, what lies in the prefix
            return once + times(use.sequences, least(use.length, group.window) + use.lookahead - once)

        return _token_lines(shape, use, cells) + _state_lines(shape, use, inputs=use.lookahead)

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
        whole("tokens a page", self.page, 1)

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""
        once = use.shared // self.page * self.page

        def cells(group: Layers) -> Any:
            return once + times(use.sequences, padded(use.length + use.lookahead, self.page) - once)

        return _token_lines(shape, use, cells) + _state_lines(shape, use, inputs=use.lookahead)

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Says where windows are given up."""
        windows = any(group.window is not None for group in shape.groups)
        return (f"{self.name}: windows are not modelled, every layer is counted in full",) if windows else ()


LLAMA_CPP_WINDOWS = (
    "afmoe", "cohere2", "exaone4", "exaone_moe", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4",
    "gemma4_text", "gemma4_unified", "gemma4_unified_text", "gpt_oss", "laguna", "llama4", "llama4_text", "mimo_v2_flash",
    "olmo3", "plamo3", "smallthinker", "step3p5",
)  # fmt: skip
"""Families whose windows llama.cpp keeps, as its loader of the architecture sets them."""

LLAMA_CPP_FULL = ("ministral", "mistral", "mixtral", "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "starcoder2")
"""Families whose windows it does not use: it caches every token. Of families in neither list the windows are counted."""


@dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp: cells in multiples of 256 for each slot, windows of ``window + ubatch`` cells, states in float32.

    Seen in its sources of late 2025 to 2026: ``llama-context.cpp`` (n_ctx and n_ctx_seq padded to 256),
    ``llama-kv-cache-iswa.cpp`` (``pad256(min(size_base, n_swa * (unified ? n_seq_max : 1) + n_ubatch))``), and in 2026
    ``llama-memory-recurrent.cpp`` (a copy of states and convolutions for each proposal). ``unified``: one pool for all slots.
    ``swa_full``: the option that gives windows up. Latent attention keeps no V since pull request 19067 of January 2026.
    """

    ubatch: int = 512
    unified: bool = False
    swa_full: bool = False
    pad: int = 256
    name = "llama.cpp"

    def __post_init__(self) -> None:
        whole("ubatch", self.ubatch, 1), whole("padding", self.pad, 1)

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""
        windows = shape.family not in LLAMA_CPP_FULL and not self.swa_full
        room, streams = use.length + use.lookahead, use.sequences
        if self.unified:
            room, streams = use.shared + times(use.sequences, room - use.shared), 1
        base = padded(room, self.pad)

        def cells(group: Layers) -> Any:
            if group.window is None or not windows:
                return times(streams, base)
            seen = times(use.sequences if self.unified else 1, group.window) + self.ubatch
            return times(streams, padded(least(base, seen), self.pad))

        wide = shape.with_dtypes(state="f32", conv="f32")
        return _token_lines(shape, use, cells) + _state_lines(wide, use, inputs=0)

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Windows dropped or not known, slots that don't share."""
        found = []
        if any(g.window is not None for g in shape.groups):
            if shape.family in LLAMA_CPP_FULL:
                found.append(f"llama.cpp caches every token of {shape.family} models: the window is not used")
            elif shape.family not in ("", *LLAMA_CPP_WINDOWS):
                found.append(f"whether llama.cpp uses the windows of {shape.family} models is not known here: they are counted")
        if use.shared and not self.unified:
            found.append("llama.cpp slots share a prefix only in a unified cache: it is counted once a slot")
        return tuple(found)


def slot_length(context: int, slots: int, pad: int = 256) -> int:
    """llama.cpp's context of one slot when ``--ctx-size`` is split over ``--parallel`` slots: padded before and after the split.

    More slots can need fewer cells: 1024 over 3 slots is 512 each, over 4 it is 256 each.
    """
    context, slots = whole("context", context, 1), whole("slots", slots, 1)
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
    size: smaller ones by more tokens a block (a multiple of ``grain``, 16, or 64 for latent attention), states by padding.
    ``hybrid=False`` counts windows in full. A draft's layers join the target's groups.

    A window is freed by whole blocks, so at most lengths one block more than ``ceil(window / block)`` is held; a plan counts the
    most that a text holds on its way to its length. Give ``batched_tokens`` for what vLLM reserves when it prints its maximum
    concurrency: the window, the tokens of one step, and a block. ``state_blocks`` is 2 where prefix caching aligns the states
    (``mamba_cache_mode="align"``, the default since early 2026). A draft's proposals ask for 2γ tokens ahead, others for γ.
    Block 0, which vLLM keeps for itself, is not counted; pipeline stages are grouped each for itself.
    """

    block: int = 16
    hybrid: bool = True
    batched_tokens: int | None = None
    state_blocks: int = 1
    grain: int | None = None
    name = "vLLM"

    def __post_init__(self) -> None:
        whole("tokens a block", self.block, 1), whole("blocks of a state", self.state_blocks, 1)
        if self.batched_tokens is not None:
            whole("batched tokens", self.batched_tokens, 1)
        if self.grain is not None:
            whole("grain of a block", self.grain, 1)

    def layout(self, shape: CacheShape, tp: int = 1, lookahead: int = 0) -> Layout:
        """Groups and pages. ``ValueError`` where pages of different kinds can't be made equal by whole factors."""
        kinds: list[Layers] = []
        pieces = [piece.deeper(lookahead) for layers in shape.groups for piece in _apart(layers)]
        full = any(piece.token and piece.window is None for piece in pieces)
        for group in pieces:
            if group.token and full and not self.hybrid:
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
            grain = self.grain or (64 if any(group.kind == "latent" for group in kinds) else 16)
            block = max(block, grain * blocks(max(states), grain * max(tokens)))
        page = max([max(tokens) * block, *states])
        counts = [group.count for group in kinds]
        size = max(counts) if 2 * max(counts) < 3 * min(counts) else min(counts)
        found = []
        for group in kinds:
            own = group.token_bytes(tp) * block
            if group.token and page % own:
                raise ValueError(
                    f"vLLM: a page of {own} bytes ({group.name}) does not divide one of {page}, so the kinds can't share a pool:"
                    " where a window is among them, hybrid=False counts it in full"
                )
            found.append((group, block * (page // own) if group.token else block, blocks(group.count, size)))
        return Layout(page, size, tuple(found))

    def blocks(self, group: Layers, size: int, use: Use) -> Any:
        """The most blocks of ``size`` tokens that one sequence holds in one group on its way to the length, or has reserved."""
        if group.state:
            return self.state_blocks + use.lookahead
        cells = use.length + self._ahead(use)
        if group.window is None:
            return blocks(cells, size)
        chunked = group.kind == "chunked"
        if self.batched_tokens is not None:
            reserved = least(group.window - (0 if chunked else 1) + self.batched_tokens, cells)
            return blocks(reserved, size) + (0 if chunked else 1)
        step = gcd(group.window, size) if chunked else 1  # where in a block it may begin
        return least(blocks(cells, size), blocks(group.window - step + self._ahead(use), size) + 1)

    def held(self, group: Layers, size: int, use: Use) -> Any:
        """Blocks of ``size`` tokens that one sequence of exactly this length holds in one group."""
        if group.state or group.window is None:
            return self.blocks(group, size, use)
        chunked = group.kind == "chunked"
        unseen = (use.length - 1) // group.window * group.window if chunked else greatest(0, use.length - group.window)
        return blocks(use.length + self._ahead(use), size) - unseen // size

    @staticmethod
    def _ahead(use: Use) -> int:
        return 2 * use.lookahead if use.drafted else use.lookahead

    def lines(self, shape: CacheShape, use: Use) -> list[Line]:
        """A line for each kind of layers."""
        if shape.empty:
            return []
        layout, lines = self.layout(shape, use.tp, use.lookahead), []
        for group, size, groups in layout.kinds:
            each = self.blocks(group, size, use)
            once = use.shared // size if group.token and group.window is None else 0
            held = times(groups, once + times(use.sequences, each - once))
            what = group.name if len(layout.kinds) > 1 else "all layers"
            unit = f"{groups} x {layout.size} layers, " if len(layout.kinds) > 1 else ""
            tokens = f"{size} tokens a block" if group.token else "a state a block"
            formula = f"{_shown(held)} blocks x {layout.block_bytes:,} B ({unit}{tokens})"
            lines.append(Line(what, formula, times(held, layout.block_bytes)))
        return lines

    def warnings(self, shape: CacheShape, use: Use) -> tuple[str, ...]:
        """Says when windows are given up."""
        kinds = {group.window is None for group in shape.groups if group.token}
        lost = not self.hybrid and len(kinds) == 2
        return ("vLLM without the hybrid manager: every layer is counted in full",) if lost else ()

    def log(self, shape: CacheShape, budget: int, length: int, tp: int = 1, lookahead: int = 0) -> "Log":
        """What vLLM prints at start for ``budget`` bytes on the smallest rank and requests of at most ``length`` tokens.

        ``shape`` holds the draft's layers too, if there are any. Windows are counted as ``blocks`` says.
        """
        layout = self.layout(shape, whole("tp", tp, 1), whole("lookahead", lookahead))
        use = Use(whole("length", length, 1), 1, tp=tp)
        number = whole("budget", budget) // layout.block_bytes
        states = sum(groups for group, _, groups in layout.kinds if group.state)
        each = sum(groups * self.blocks(group, size, use) for group, size, groups in layout.kinds) + states * lookahead
        smallest = min(size for _, size, _ in layout.kinds)
        return Log(
            number, each, Fraction(number, each), number * length // each,
            number // sum(groups for _, _, groups in layout.kinds) * smallest,
        )  # fmt: skip


@dataclass(frozen=True)
class Log:
    """``blocks`` in the pool, blocks of one request, how many requests fit at once, and the line ``GPU KV cache size``.

    That line is ``tokens`` in versions from about 0.20 on: requests times their length. Before it was ``tokens_by_groups``:
    blocks over the number of groups, which misleads where groups need different numbers of blocks.
    """

    blocks: int
    blocks_per_request: int
    concurrency: Fraction
    tokens: int
    tokens_by_groups: int


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
