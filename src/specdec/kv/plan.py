"""What fits: storage of a target, and of a draft beside it, against a memory budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from specdec.kv.counts import SAFE, count, greatest, largest, times, whole
from specdec.kv.dtypes import CacheDtype, cache_dtype
from specdec.kv.engines import VLLM, Engine, Ideal, Line, Use
from specdec.kv.shape import CacheShape

GIB, GB = 2**30, 10**9


def size(number: int) -> str:
    """Bytes in both units, which differ by 7 %: ``16.00 GiB (17.18 GB)``."""
    for unit, binary, decimal in (("", GIB, GB), ("M", 2**20, 10**6), ("K", 2**10, 10**3)):
        if number >= binary:
            names = ("GiB", "GB") if not unit else (f"{unit}iB", f"{unit.replace('K', 'k')}B")
            return f"{number / binary:,.2f} {names[0]} ({number / decimal:,.2f} {names[1]})"
    return f"{number:,} B"


def available(memory: int, *, weights: int = 0, activations: int = 0, utilisation: tuple[int, int] = (9, 10)) -> int:
    """Bytes for caches: ``memory`` times the utilisation, a fraction of two integers, less weights and the activations' peak."""
    memory, weights, activations = whole("memory", memory, 1), whole("weights", weights), whole("activations", activations)
    pair = utilisation if isinstance(utilisation, tuple) and len(utilisation) == 2 else (0, 0)
    over, under = pair
    if not (isinstance(over, int) and isinstance(under, int) and 0 < over <= under):
        raise ValueError(f"utilisation is {utilisation}: it must be two integers (a, b) with 0 < a <= b")
    left = memory * over // under - weights - activations
    if left <= 0:
        raise ValueError(
            f"{size(memory)} at {over}/{under} leave nothing for a cache beside weights of {size(weights)}"
            f" and activations of {size(activations)}"
        )
    return int(left)


@dataclass(frozen=True)
class Speculation:
    """γ proposals a round, from a ``draft`` with a cache of this shape, or none (prompt lookup, an n-gram).

    Both engines' rows are kept for a round: γ+1 of the target and γ of the draft, over ``vocabulary`` tokens, in ``rows``.
    """

    gamma: int
    draft: CacheShape | None = None
    vocabulary: int | None = None
    rows: str | CacheDtype = "f32"

    def __post_init__(self) -> None:
        whole("gamma", self.gamma), cache_dtype(self.rows)
        if self.vocabulary is not None:
            whole("vocabulary", self.vocabulary, 1)


@dataclass(frozen=True)
class Storage:
    """What is allocated on one rank: ``parts`` maps target cache, speculative slots, draft cache and row buffers to bytes."""

    lines: tuple[Line, ...]
    parts: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def bytes(self) -> Any:
        """All of it."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Plan:
    """A target on an engine, with or without speculation, over ``tp`` × ``pp`` ranks; sizes are those of the fullest rank.

    ``partition``: layers of each pipeline stage. ``shared``: tokens of a prefix that all sequences have in common. The draft is
    split like the target and lies, with the row buffers, on the last stage.
    """

    target: CacheShape
    engine: Engine = field(default_factory=Ideal)
    speculation: Speculation | None = None
    tp: int = 1
    pp: int = 1
    partition: Sequence[int] | None = None
    shared: int = 0

    def __post_init__(self) -> None:
        whole("shared tokens", self.shared)
        for shape in (self.target, self.draft):
            if shape is not None and shape.empty:
                raise ValueError(f"{shape.name or 'this shape'} keeps nothing: no layer has a cache")
        if self.speculation and self.gamma and self._vocabulary is None:
            raise ValueError("the config names no vocab_size: give the vocabulary of the row buffers")
        # Heads that the ranks can't share, pages that can't be made equal: refused here.
        self._storage(self.shared + 1, 1, None)

    @cached_property
    def stages(self) -> list[CacheShape]:
        """The layers of each pipeline stage."""
        return self.target.stages(self.pp, self.partition)

    @property
    def gamma(self) -> int:
        """Proposals a round, 0 without speculation."""
        return self.speculation.gamma if self.speculation else 0

    @property
    def draft(self) -> CacheShape | None:
        """The draft's shape, if proposals come from a draft with a cache."""
        return self.speculation.draft if self.speculation and self.gamma else None

    @property
    def _vocabulary(self) -> int | None:
        assert self.speculation
        return self.speculation.vocabulary or self.target.vocabulary

    def storage(self, length: Any, sequences: Any, stage: int | None = None) -> Storage:
        """What ``sequences`` texts of ``length`` tokens take on one rank, integers or arrays that broadcast.

        Of all pipeline stages the fullest, or the one of that number. Exact beyond 2^63: such arrays hold Python integers.
        """
        length, sequences = count("length", length, max(1, self.shared)), count("sequences", sequences)
        if stage is not None and not 0 <= whole("stage", stage) < self.pp:
            raise ValueError(f"stage {stage}: there are stages 0 to {self.pp - 1}")
        return self._storage(length, sequences, stage)

    def _storage(self, length: Any, sequences: Any, stage: int | None) -> Storage:
        if stage is not None:
            return self._on_stage(stage, length, sequences)
        found = [self._on_stage(i, length, sequences) for i in range(len(self.stages))]
        if len(found) == 1:
            return found[0]
        most = largest(*(each.bytes for each in found))
        fullest = found[most.index(max(most))]
        worst = fullest.bytes
        for other in found:
            worst = greatest(worst, other.bytes)
        spare = worst - fullest.bytes  # where another stage is the fullest one at this point
        parts = fullest.parts if not np.any(spare) else {**fullest.parts, "another stage": spare}
        return Storage(fullest.lines, parts, fullest.warnings)

    def _on_stage(self, stage: int, length: Any, sequences: Any) -> Storage:
        shape, last = self.stages[stage], stage == len(self.stages) - 1
        plain = Use(length, sequences, 0, self.shared, self.tp)
        ahead = Use(length, sequences, self.gamma, self.shared, self.tp, self.draft is not None)
        lines = self.engine.lines(shape, plain)
        parts = {"target cache": sum(line.bytes for line in lines)}
        if self.speculation and self.gamma:
            with_slots = sum(line.bytes for line in self.engine.lines(shape, ahead))
            slots = with_slots - parts["target cache"]
            lines.append(Line("speculative slots", f"as above for {self.gamma} tokens more a sequence, less the above", slots))
            parts["speculative slots"] = slots
            if last:
                lines += self._beside(shape, ahead, with_slots, parts)
        return Storage(tuple(lines), parts, self._warnings(ahead))

    def _beside(self, shape: CacheShape, use: Use, target: Any, parts: dict[str, Any]) -> list[Line]:
        """The draft's cache and the buffers of rows; adds to ``parts``. ``target``: what the target takes on this stage."""
        assert self.speculation and self._vocabulary
        draft, gamma, lines = self.draft, self.gamma, []
        if draft is not None and isinstance(self.engine, VLLM):  # one pool for the layers of both
            both = replace(shape, groups=shape.groups + draft.groups, order=())
            held = sum(line.bytes for line in self.engine.lines(both, use)) - target
            lines = [Line("draft", "the layers of both in one pool, less the target's", held)]
        elif draft is not None:
            lines = [Line(f"draft: {line.label}", line.formula, line.bytes) for line in self.engine.lines(draft, use)]
        if draft is not None:
            parts["draft cache"] = sum(line.bytes for line in lines)
        dtype = cache_dtype(self.speculation.rows)
        rows = 2 * gamma + 1 if draft is not None else gamma + 1
        what = f"({gamma}+1 target + {gamma} draft)" if draft is not None else f"({gamma}+1 target)"
        held = times(use.sequences, rows * dtype.size(self._vocabulary))
        parts["row buffers"] = held
        formula = f"sequences x {what} rows x {self._vocabulary:,} x {dtype.bytes} B"
        return [*lines, Line("row buffers", formula, held)]

    def _warnings(self, use: Use) -> tuple[str, ...]:
        """What the config left out, what the engine's rules leave out, a text that is too long, vocabularies that differ."""
        found: list[str] = []
        for name, shape in (("", self.target), ("draft: ", self.draft)):
            if shape is None:
                continue
            found += [name + text for text in (*shape.warnings, *self.engine.warnings(shape, use))]
            longest, reached = shape.longest, largest(use.length)[0]
            if longest is not None and reached > longest:
                found.append(f"{name}a length of {reached:,} is past the model's maximum of {longest:,}")
        sizes = self.target.vocabulary, self.draft.vocabulary if self.draft else None
        if None not in sizes and sizes[0] != sizes[1]:
            found.append(f"target and draft have vocabularies of {sizes[0]:,} and {sizes[1]:,}: they must share one")
        return tuple(found)

    # ---- what fits ------------------------------------------------------------------------------------------------

    def fits(self, length: Any, sequences: Any, budget: "int | Sequence[int]") -> Any:
        """Whether every stage's fullest rank stays within its budget; one number, or one for each stage (its smallest rank)."""
        budgets = self._budgets(budget)
        answer: Any = True
        for i, own in enumerate(budgets):
            answer = answer & (self.storage(length, sequences, i).bytes <= own)
        return answer

    def _budgets(self, budget: "int | Sequence[int]") -> list[int]:
        number = len(self.stages)
        budgets = [budget] * number if np.ndim(budget) == 0 else list(budget)  # type: ignore[arg-type]
        if len(budgets) != number:
            raise ValueError(f"{len(budgets)} budgets for {number} pipeline stages: give one, or one for each")
        return [whole("budget", each) for each in budgets]

    def sequences(self, length: Any, budget: "int | Sequence[int]") -> Any:
        """The largest number of sequences of ``length`` tokens that fits; 0 if not one does. ``length`` may be an array."""
        length = count("length", length, self.shared + 1)  # what lies in the prefix alone costs nothing, however many there are
        if isinstance(length, int):
            return _most(lambda n: bool(self.fits(length, n, budget)))
        kind = object if max(self._budgets(budget)) >= SAFE // 2 else np.int64
        low, high = np.zeros(length.shape, kind), np.ones(length.shape, kind)
        while (inside := self.fits(length, high, budget)).any():
            low, high = np.where(inside, high, low), np.where(inside, 2 * high, high)
        while ((high - low) > 1).any():
            middle = (low + high) // 2
            inside = self.fits(length, middle, budget)
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return low

    def length(self, sequences: int, budget: "int | Sequence[int]") -> float:
        """The longest length at which so many sequences fit: an integer, 0 if none, ``math.inf`` if storage stops growing."""
        sequences = whole("sequences", sequences, 1)
        far, farther = (self.storage(length, sequences).bytes for length in (10**15, 10**16))
        if bool(far == farther) and self.fits(10**15, sequences, budget):
            return math.inf
        found = _most(lambda extra: bool(self.fits(self.shared + extra, sequences, budget)))
        return self.shared + found if found else 0


def _most(fits: Any) -> int:
    """The largest n >= 0 with fits(n), which holds up to some n and not beyond; fits(0) is not asked."""
    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
