"""What a model's layers keep of a text: arrays that grow with every token, and arrays of a fixed size for every sequence."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specdec.kv.counts import whole
from specdec.kv.dtypes import DTYPES, CacheDtype, cache_dtype

BF16, F32 = DTYPES["bf16"], DTYPES["f32"]


@dataclass(frozen=True)
class Part:
    """One array of a layer: ``heads`` × ``width`` values. Tensor parallelism splits the heads and never the width.

    ``role`` is ``K``, ``V``, ``latent``, ``rope``, ``index``, ``state`` or ``conv``. ``depth``: of a convolution, how many last
    inputs it keeps, ``width`` values a head each.
    """

    role: str
    heads: int
    width: int
    dtype: CacheDtype
    depth: int = 1

    def per_rank(self, tp: int) -> int:
        """Heads that one rank keeps: a share, or one, which several ranks then keep as well."""
        if self.heads % tp and tp % self.heads:
            raise ValueError(f"tensor parallelism {tp} and {self.heads} heads of {self.role}: one must divide the other")
        return max(1, self.heads // tp)

    def size(self, tp: int = 1) -> int:
        """Bytes on one rank."""
        return self.dtype.size(self.per_rank(tp) * self.width * self.depth)

    def formula(self, tp: int = 1) -> str:
        """The same as an expression."""
        per = f"{self.dtype.bytes} B" if self.dtype.values == 1 else f"{self.dtype.bytes}/{self.dtype.values} B"
        heads = self.per_rank(tp)
        shared = f" (of {self.heads}, over {tp} ranks)" if tp > 1 and self.heads > 1 else " (on each rank)" if tp > 1 else ""
        deep = f" x {self.depth}" if self.depth > 1 else ""
        return f"{self.role} {heads} x {self.width}{deep} x {per}{shared}"


@dataclass(frozen=True)
class Layers:
    """``count`` layers that keep the same. ``kind`` is one of ``KINDS``.

    ``token``: arrays for every cached token; ``state``: arrays for every sequence. ``window``: how many last tokens are ever
    looked at (sliding), or the length of a chunk (chunked).
    """

    kind: str
    count: int
    token: tuple[Part, ...] = ()
    state: tuple[Part, ...] = ()
    window: int | None = None

    def token_bytes(self, tp: int = 1) -> int:
        """Bytes that one layer keeps for one cached token on one rank."""
        return sum(part.size(tp) for part in self.token)

    def state_bytes(self, tp: int = 1) -> int:
        """Bytes that one layer keeps for one sequence, whatever its length."""
        return sum(part.size(tp) for part in self.state)

    def deeper(self, inputs: int) -> "Layers":
        """The same with a convolution that keeps so many inputs more, as a rewind over as many tokens needs them."""
        parts = tuple(replace(part, depth=part.depth + inputs) if part.role == "conv" else part for part in self.state)
        return replace(self, state=parts)

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.kind} {self.window}" if self.window is not None else self.kind


KINDS = ("full", "sliding", "chunked", "latent", "recurrent", "shared", "none")
"""``shared`` layers read another layer's cache, layers of kind ``none`` (an MLP, a mixture) have none: both keep nothing."""


LAYERS_MOST = 100_000
"""Each layer has a place in a shape's ``order``; absurd numbers are refused before that is spelled out."""


def attention(
    count: int, heads: int, width: int, *, value_width: int | None = None, window: int | None = None, chunked: bool = False,
    k: str | CacheDtype = BF16, v: str | CacheDtype = BF16,
) -> Layers:  # fmt: skip
    """Layers that keep ``heads`` keys and values of ``width`` for every token: all of them, a window's, or a chunk's."""
    whole("layers", count, 1), whole("key-value heads", heads, 1), whole("head size", width, 1)
    values = width if value_width is None else whole("value size", value_width, 1)
    parts = Part("K", heads, width, cache_dtype(k)), Part("V", heads, values, cache_dtype(v))
    if chunked and window is None:
        raise ValueError("chunked layers need a window: the length of a chunk")
    if window is None:
        return Layers("full", count, parts)
    return Layers("chunked" if chunked else "sliding", count, parts, window=whole("window", window, 1))


def latent(count: int, rank: int, rope: int, *, index: int = 0, dtype: str | CacheDtype = BF16) -> Layers:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): one vector of ``rank`` + ``rope`` values for all
    heads, keys and values together. ``index``: the width of a sparse-attention indexer's key, in fp8 with a scale, if any.

    ``dtype`` may be ``fp8_ds_mla``: 8 bits with a scale for each 128 of the rank, 16 bits for the rope part: 656 bytes.
    """
    whole("layers", count, 1), whole("kv_lora_rank", rank, 1), whole("qk_rope_head_dim", rope, 1)
    mixed = dtype == "fp8_ds_mla"
    parts = [
        Part("latent", 1, rank, DTYPES["fp8_128"] if mixed else cache_dtype(dtype)),
        Part("rope", 1, rope, BF16 if mixed else cache_dtype(dtype)),
    ]
    if index:
        parts.append(Part("index", 1, whole("index_head_dim", index, 1), DTYPES["fp8_128"]))
    return Layers("latent", count, tuple(parts))


def gated_delta(
    count: int, *, value_heads: int, key_heads: int, key_width: int, value_width: int, kernel: int,
    state: str | CacheDtype = F32, conv: str | CacheDtype = BF16,
) -> Layers:  # fmt: skip
    """Linear attention with a matrix for each value head, behind a short convolution (gated DeltaNet: Qwen3-Next, Qwen3.5)."""
    for name, value in (("layers", count), ("value heads", value_heads), ("key heads", key_heads), ("key size", key_width),
                        ("value size", value_width)):  # fmt: skip
        whole(name, value, 1)
    past = whole("convolution kernel", kernel, 2) - 1
    return Layers("recurrent", count, state=(
        Part("state", value_heads, key_width * value_width, cache_dtype(state)),
        Part("conv", value_heads, value_width, cache_dtype(conv), past),
        Part("conv", key_heads, 2 * key_width, cache_dtype(conv), past),
    ))  # fmt: skip


def mamba(
    count: int, *, channels: int, state_size: int, kernel: int, state: str | CacheDtype = F32, conv: str | CacheDtype = BF16
) -> Layers:
    """Mamba-1 (arXiv 2312.00752): ``state_size`` numbers for each inner channel, behind a short convolution."""
    whole("layers", count, 1), whole("inner channels", channels, 1), whole("state size", state_size, 1)
    past = whole("convolution kernel", kernel, 2) - 1
    parts = Part("state", channels, state_size, cache_dtype(state)), Part("conv", channels, 1, cache_dtype(conv), past)
    return Layers("recurrent", count, state=parts)


def mamba2(
    count: int, *, heads: int, width: int, state_size: int, groups: int, kernel: int,
    state: str | CacheDtype = F32, conv: str | CacheDtype = BF16,
) -> Layers:  # fmt: skip
    """Mamba-2 (arXiv 2405.21060): a ``width`` × ``state_size`` matrix for each head; B and C of ``groups`` in the convolution."""
    for name, value in (("layers", count), ("heads", heads), ("head size", width), ("state size", state_size),
                        ("groups", groups)):  # fmt: skip
        whole(name, value, 1)
    past = whole("convolution kernel", kernel, 2) - 1
    return Layers("recurrent", count, state=(
        Part("state", heads, width * state_size, cache_dtype(state)),
        Part("conv", heads, width, cache_dtype(conv), past),
        Part("conv", groups, 2 * state_size, cache_dtype(conv), past),
    ))  # fmt: skip


@dataclass(frozen=True)
class CacheShape:
    """What a whole model keeps. ``groups`` are its kinds of layers.

    ``order`` names each layer's group, first layer first; only pipeline stages need it. ``family`` is the config's
    ``model_type``: llama.cpp drops the windows of some. ``warnings`` say what was not in the config and was filled in.
    """

    name: str
    groups: tuple[Layers, ...]
    order: tuple[int, ...] = ()
    family: str = ""
    vocabulary: int | None = None
    longest: int | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for group in self.groups:
            if group.kind not in KINDS:
                raise ValueError(f"layers of kind {group.kind!r}: known kinds are {', '.join(KINDS)}")
        if sum(whole("layers", group.count, 0) for group in self.groups) > LAYERS_MOST:
            raise ValueError(f"{self.name or 'this shape'} has more than {LAYERS_MOST:,} layers, which can't be meant")
        if not self.order:
            spelled = tuple(i for i, group in enumerate(self.groups) for _ in range(group.count))
            object.__setattr__(self, "order", spelled)
        if [self.order.count(i) for i in range(len(self.groups))] != [group.count for group in self.groups]:
            raise ValueError("the order of the layers and the groups' counts do not agree")

    @property
    def layers(self) -> int:
        """How many layers, those without a cache included."""
        return len(self.order)

    @property
    def empty(self) -> bool:
        """Whether no layer keeps anything, as in a pipeline stage of layers that share."""
        return not any(group.token or group.state for group in self.groups)

    def bytes_per_token(self, tp: int = 1) -> int:
        """What one more token costs a long sequence on one rank: layers that keep every token."""
        return sum(group.count * group.token_bytes(tp) for group in self.groups if group.window is None)

    def fixed_bytes(self, tp: int = 1) -> int:
        """What a long sequence costs whatever its length: filled windows, and states."""
        windows = sum(g.count * g.token_bytes(tp) * g.window for g in self.groups if g.window is not None)
        return windows + sum(group.count * group.state_bytes(tp) for group in self.groups)

    def with_dtypes(
        self, k: "str | CacheDtype | None" = None, v: "str | CacheDtype | None" = None,
        state: "str | CacheDtype | None" = None, conv: "str | CacheDtype | None" = None,
    ) -> "CacheShape":  # fmt: skip
        """The same shape with other dtypes. A latent takes that of K (``fp8_ds_mla`` too); the indexer's key stays as it is.

        A dtype for values where none are cached is a warning.
        """
        mixed = k == "fp8_ds_mla"
        if mixed and not any(group.kind == "latent" for group in self.groups):
            raise ValueError("fp8_ds_mla is a layout of latent attention, which this model does not have")
        other = None if mixed else k
        of_latent, of_rope = ("fp8_128", "bf16") if mixed else (k, k)
        asked = {"K": other, "V": v, "latent": of_latent, "rope": of_rope, "state": state, "conv": conv}
        chosen = {role: cache_dtype(dtype) for role, dtype in asked.items() if dtype is not None}

        def changed(part: Part) -> Part:
            return replace(part, dtype=chosen.get(part.role, part.dtype))

        groups = tuple(
            replace(group, token=tuple(map(changed, group.token)), state=tuple(map(changed, group.state)))
            for group in self.groups
        )
        unused = v is not None and not any(part.role == "V" for group in self.groups for part in group.token)
        cautions = ("no values are cached beside the keys: the dtype of V is not used",) if unused else ()
        return replace(self, groups=groups, warnings=(*self.warnings, *cautions))

    def stages(self, pp: int, partition: Sequence[int] | None = None) -> "list[CacheShape]":
        """The layers of each pipeline stage. ``partition`` gives their numbers; else shares are even, and what is left over goes
        one by one to the stages before the last, the rule of vLLM's ``get_pp_indices``."""
        whole("pipeline parallelism", pp, 1)
        sizes = _even(self.layers, pp) if partition is None else [whole("layers of a stage", size, 1) for size in partition]
        if len(sizes) != pp or sum(sizes) != self.layers or min(sizes) < 1:
            raise ValueError(f"stages of {sizes} layers: {pp} stages of one layer or more must make {self.layers}")
        stages, begin = [], 0
        for size in sizes:
            order = self.order[begin : begin + size]
            used = sorted(set(order))
            groups = tuple(replace(self.groups[i], count=order.count(i)) for i in used)
            stages.append(replace(self, groups=groups, order=tuple(used.index(i) for i in order)))
            begin += size
        return stages


def _even(layers: int, pp: int) -> list[int]:
    sizes = [layers // pp] * pp
    for i in range(2, layers % pp + 2):
        sizes[-i] += 1
    return sizes
