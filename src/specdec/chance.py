"""Chance as a parameter: a program asks a chance object for every random choice, and the object decides what that means.

``Random`` samples, ``Scripted`` replays uniforms, ``Recorded`` notes every decision, and ``law_of`` runs the program along
every branch and returns its exact law. The idea of effect handlers is from probabilistic languages (Pyro's minipyro).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np

from specdec.law import Array, by_row, is_exact

PURPOSES = ("propose", "accept", "correct", "bonus", "sample")
"""Every decision in speculative decoding serves one of these; anything else raises."""

State = TypeVar("State")


class Chance(Protocol):
    """What a program may ask. ``u`` is a uniform on [0, 1) that the program took from ``uniform`` before."""

    def uniform(self, purpose: str) -> Any:
        """One uniform on [0, 1)."""

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        """True with the given probability: u < probability, so 0 never accepts and 1 always does."""

    def draw(self, weights: "Array | Weights", purpose: str, u: Any = None) -> int:
        """An index drawn in proportion to ``weights`` (V,), by inverse transform of u. A zero weight is never drawn."""


def _check_purpose(purpose: str) -> None:
    if purpose not in PURPOSES:
        raise ValueError(f"purpose {purpose!r} is not one of {', '.join(PURPOSES)}")


def _check_probability(probability: Any) -> None:
    if not 0 <= probability <= 1:  # written so that NaN is refused
        raise ValueError(f"acceptance probability {probability} is not in [0, 1]")


def _check_uniform(u: Any) -> None:
    if not isinstance(u, Interval) and not 0 <= u < 1:  # written so that NaN is refused
        raise ValueError(f"uniform {u} is not in [0, 1)")


def _cumulative(weights: Array) -> Array:
    """Running sums; Fractions where the weights are exact, so that integers divide exactly later."""
    if weights.ndim != 1 or len(weights) == 0:
        raise ValueError(f"weights have shape {weights.shape}: a draw needs one row (V,) with V >= 1")
    if is_exact(weights):  # Python's own loop is faster on objects, and enumerations draw millions of times
        cumulative = np.array(list(accumulate(weights, initial=Fraction(0)))[1:], dtype=object)
        least = min(weights)
    else:
        cumulative, least = np.add.accumulate(weights), np.minimum.reduce(weights)
    if not 0 < cumulative[-1] < np.inf or least < 0:  # written so that NaN is bad
        raise ValueError(f"weights {weights} must be non-negative, finite and not all zero")
    return cumulative


class Weights:
    """Weights (V,) with their running sums, checked and summed once: for a law that is drawn from again and again."""

    __slots__ = ("cumulative", "values")

    def __init__(self, values: Array) -> None:
        self.values, self.cumulative = values, _cumulative(values)

    @classmethod
    def of_rows(cls, laws: Array) -> "list[Weights]":
        """Each row of laws (n, V), which ``law.to_law`` made and which are not checked again."""
        rows = []
        for values, cumulative in zip(laws, laws.cumsum(axis=-1), strict=True):
            row = cls.__new__(cls)
            row.values, row.cumulative = values, cumulative
            rows.append(row)
        return rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The weights, so that numpy's functions take them as an array."""
        return np.array(self.values, dtype=dtype, copy=copy)


def _values(weights: Array | Weights) -> Array:
    return weights.values if isinstance(weights, Weights) else weights


def _summed(weights: Array | Weights) -> tuple[Array, Array]:
    """Weights and their running sums."""
    return (weights.values, weights.cumulative) if isinstance(weights, Weights) else (weights, _cumulative(weights))


def inverse_transform(weights: Array | Weights, u: Any) -> int:
    """The smallest index whose cumulative weight exceeds u times the total.

    Where rounding leaves none, the last index of positive weight.
    ``weights`` (V,) need not be normalised; u lies in [0, 1).
    """
    _check_uniform(u)
    weights, cumulative = _summed(weights)
    if isinstance(u, float) and not is_exact(weights):
        index = int(cumulative.searchsorted(u * cumulative[-1], "right"))
        found = index < len(weights)
        return index if found else int(np.flatnonzero(weights)[-1])
    positive = np.flatnonzero(weights)
    for index in positive[:-1]:
        if u < cumulative[index] / cumulative[-1]:
            return int(index)
    return int(positive[-1])


class _FromUniforms:
    """accept and draw in terms of uniform: one uniform a decision, even where the outcome is certain, so scripts align."""

    def uniform(self, purpose: str) -> Any:
        raise NotImplementedError

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        _check_probability(probability)
        if u is None:
            return bool(self.uniform(purpose) < probability)
        _check_purpose(purpose)
        _check_uniform(u)
        return bool(u < probability)

    def draw(self, weights: Array | Weights, purpose: str, u: Any = None) -> int:
        _check_purpose(purpose)
        return inverse_transform(weights, self.uniform(purpose) if u is None else u)


class Random(_FromUniforms):
    """Samples: numpy's PCG64 stream of the given seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def uniform(self, purpose: str) -> float:
        """The stream's next uniform."""
        _check_purpose(purpose)
        return self._generator.random()


class Scripted(_FromUniforms):
    """Replays given uniforms in order, boundaries such as 0 and Fraction(1, 5) included; raises when they run out."""

    def __init__(self, uniforms: Iterable[Any]) -> None:
        self._uniforms = list(uniforms)
        for u in self._uniforms:
            _check_uniform(u)
        self.used = 0

    def uniform(self, purpose: str) -> Any:
        """The script's next uniform."""
        _check_purpose(purpose)
        if self.used == len(self._uniforms):
            raise ValueError(f"the script has only {self.used} uniforms; one more is asked for: {purpose}")
        self.used += 1
        return self._uniforms[self.used - 1]

    @property
    def left(self) -> int:
        """How many uniforms the program has not asked for."""
        return len(self._uniforms) - self.used


@dataclass(frozen=True)
class Decision:
    """One line of the tape: what was asked, with which uniform, and what came out.

    ``asked`` is the probability of an accept, the weights of a draw (as a tuple), or None for a bare uniform.
    """

    position: int
    kind: str
    purpose: str
    asked: Any
    u: Any
    outcome: Any


class Recorded:
    """Passes every decision on to another chance and notes it on ``tape``, in order.

    It takes the uniform of each decision itself, so the tape shows it; the stream of outcomes is the same as without it.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.tape: list[Decision] = []

    def _note(self, kind: str, purpose: str, asked: Any, u: Any, outcome: Any) -> Any:
        self.tape.append(Decision(len(self.tape), kind, purpose, asked, u, outcome))
        return outcome

    def uniform(self, purpose: str) -> Any:
        """A uniform of the inner chance, noted."""
        u = self._chance.uniform(purpose)
        return self._note("uniform", purpose, None, u, u)

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        """The inner chance's decision, noted."""
        u = self._chance.uniform(purpose) if u is None else u
        return self._note("accept", purpose, probability, u, self._chance.accept(probability, purpose, u=u))

    def draw(self, weights: Array | Weights, purpose: str, u: Any = None) -> int:
        """The inner chance's draw, noted."""
        u = self._chance.uniform(purpose) if u is None else u
        return self._note("draw", purpose, tuple(_values(weights)), u, self._chance.draw(weights, purpose, u=u))


# ---- exact enumeration --------------------------------------------------------------------------------------------


class Interval:
    """A uniform under ``law_of``: known only to lie in [low, high). Each comparison splits it, so reuse is exact too.

    A boundary is one point and has no weight, so < and <= are one question. Anything but a comparison raises TypeError. After
    a run ``low`` and ``high`` tell which uniforms lead along its branch.
    """

    __hash__ = None  # type: ignore[assignment]  # an outcome that holds an interval has no value to count it by

    def __eq__(self, other: object) -> bool:
        raise TypeError("a uniform under law_of can be compared with <, <=, > and >= only")

    def __bool__(self) -> bool:
        raise TypeError("a uniform under law_of has no truth value: compare it with a threshold")

    def __init__(self, branches: "_Branches") -> None:
        self._branches: _Branches = branches
        self.low: Any = Fraction(0)
        self.high: Any = Fraction(1)

    def __lt__(self, threshold: Any) -> bool:
        if threshold >= self.high:
            return True
        if threshold <= self.low:
            return False
        below = (threshold - self.low) / (self.high - self.low)
        if self._branches.choose([(True, below), (False, 1 - below)]):
            self.high = threshold
            return True
        self.low = threshold
        return False

    __le__ = __lt__

    def __gt__(self, threshold: Any) -> bool:
        return not self < threshold

    __ge__ = __gt__


class ReplayError(ValueError):
    """A program asked for other choices than in its last run, so its branches can't be enumerated."""

    def __init__(self) -> None:
        super().__init__("the program asked for other choices than in its last run: copy the state that it advances inside of it")


class _Branches:
    """One run along a script of (branch, branches); ``weight`` is the run's probability, ``next_script`` the run after it."""

    def __init__(self, script: list[tuple[int, int]]) -> None:
        self._script = script
        self._trail: list[tuple[int, int]] = []
        self.weight: Any = 1

    def choose(self, options: list[tuple[Any, Any]]) -> Any:
        depth = len(self._trail)
        branch, number = self._script[depth] if depth < len(self._script) else (0, len(options))
        if number != len(options):
            raise ReplayError
        self._trail.append((branch, number))
        value, weight = options[branch]
        self.weight = self.weight * weight
        return value

    def next_script(self) -> list[tuple[int, int]] | None:
        trail = self._trail
        if len(trail) < len(self._script):
            raise ReplayError
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        return [*trail[:-1], (trail[-1][0] + 1, trail[-1][1])] if trail else None

    def uniform(self, purpose: str) -> Interval:
        _check_purpose(purpose)
        return Interval(self)

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        _check_purpose(purpose)
        _check_probability(probability)
        if u is not None:
            return bool(u < probability)
        if probability == 0 or probability == 1:
            return bool(probability == 1)
        return self.choose([(True, probability), (False, 1 - probability)])

    def draw(self, weights: Array | Weights, purpose: str, u: Any = None) -> int:
        _check_purpose(purpose)
        if u is not None:
            return inverse_transform(weights, u)
        options = _kept_options(*_values(weights)) if is_exact(_values(weights)) else _options(weights)
        return options[0][0] if len(options) == 1 else self.choose(options)


def _options(weights: Array | Weights) -> list[tuple[int, Any]]:
    """The branches of a draw, (index, probability)."""
    weights, cumulative = _summed(weights)
    total = cumulative[-1]
    return [(index, weight if total == 1 else weight / total) for index, weight in enumerate(weights) if weight]


@by_row
def _kept_options(*weights: Any) -> list[tuple[int, Any]]:
    return _options(np.array(weights, dtype=object))


def law_of(program: Callable[[Chance], Hashable]) -> dict[Any, Any]:
    """The law of what ``program(chance)`` returns: {outcome: probability}, by running it once along every branch.

    With exact weights every probability is a Fraction and the law sums to exactly one. The program must be deterministic
    apart from ``chance`` and must not change anything that outlives a run; ``ValueError`` where that shows. Cost: one run a
    branch.
    """
    law: dict[Any, Any] = defaultdict(int)
    script: list[tuple[int, int]] | None = []
    while script is not None:
        branches = _Branches(script)
        outcome = program(branches)
        law[outcome] += branches.weight
        script = branches.next_script()
    return dict(law)


def law_of_process(
    step: Callable[[State, Chance], State],
    start: State,
    *,
    done: Callable[[State], bool],
    key: Callable[[State], Hashable],
    outcome: Callable[[State], Hashable],
) -> dict[Any, Any]:
    """The law of ``outcome(state)`` when ``step`` is repeated from ``start`` until ``done``; states of equal key are merged.

    ``step(state, chance)`` returns a new state and leaves its argument as it was. ``key`` must tell apart all that can
    matter later: merging by text alone would acquit a stale cache. Same law as ``law_of`` on the whole loop, far cheaper.
    """
    states: dict[Hashable, State] = {key(start): start}
    transitions: dict[Hashable, dict[Hashable, Any]] = {}

    def stepped(before: Hashable) -> dict[Hashable, Any]:
        def once(chance: Chance) -> Hashable:
            after = step(states[before], chance)
            name = key(after)
            states.setdefault(name, after)
            return name

        if before not in transitions:
            transitions[before] = law_of(once)
        return transitions[before]

    law: dict[Any, Any] = defaultdict(int)
    frontier: dict[Hashable, Any] = {key(start): 1}
    while frontier:
        following: dict[Hashable, Any] = defaultdict(int)
        for before, weight in frontier.items():
            if done(states[before]):
                law[outcome(states[before])] += weight
            else:
                for after, probability in stepped(before).items():
                    following[after] += weight * probability
        frontier = following
    return dict(law)
