"""Finite laws: validation, overlap, total variation, residual, and the sampling transforms that make a law from scores.

A law is a 1-D numpy array that sums to one: float64, or object dtype of exact rationals (``fractions.Fraction`` or int).
Every function here is plain arithmetic, so it reads the same on both kinds. The two kinds never mix.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, wraps
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray
Step = Callable[[Array, Sequence[int]], Array]
Found = TypeVar("Found")

SUM_TOLERANCE = 1e-9
"""How far the sum of a float law may be from one. Exact laws sum to exactly one."""

TOP_P_EPSILON = Fraction(1, 10**9)
"""Slack of top-p: the nucleus is the shortest one whose mass is at least p - epsilon, on floats and Fractions alike."""

ROWS_KEPT = 2**12
"""How many exact rows are kept with what was computed from each."""

NO_TOKEN = "a row of scores leaves no token possible: the model or a transform removed them all"


# ---- laws -------------------------------------------------------------------------------------------------------


def exact(numerators: Sequence[Any], denominator: int = 1) -> Array:
    """Exact numbers ``numerators / denominator`` as an object array of Fractions; nested sequences give rows.

    ``exact([6, 3, 1], 10)`` is the law (6/10, 3/10, 1/10). Strings such as ``"1/3"`` work; floats raise ``ValueError``,
    because 0.6 is not 6/10.
    """
    values = np.array(numerators, dtype=object)
    if any(isinstance(value, float | np.floating) for value in (*values.flat, denominator)):
        raise ValueError("exact() takes integers, Fractions or strings such as '3/10', not floats")
    if denominator == 0:
        raise ValueError("exact() can't divide by a denominator of 0")
    out = np.empty(values.shape, dtype=object)
    for index, value in np.ndenumerate(values):
        out[index] = _fraction(value) / _fraction(denominator)
    return out


def _fraction(value: Any) -> Fraction:
    """A Fraction of Python ints: one that kept numpy's would overflow silently."""
    try:
        return Fraction(int(value) if isinstance(value, np.integer) else value)
    except TypeError:
        raise ValueError(f"{value!r} is no exact number: use integers, Fractions or texts such as '3/10'") from None


def is_exact(values: Array) -> bool:
    """Whether an array holds exact numbers (object dtype) rather than float64."""
    return values.dtype == object


def by_row(function: Callable[..., Found]) -> Callable[..., Found]:
    """Keep what a function finds for an exact row, given as its numbers: enumerations ask about a table's few rows without end.

    Typed, since 0.5 equals Fraction(1, 2) and must be refused after it all the same. Numbers without a hash, such as symbols
    whose equality is a question, are never looked up.
    """
    known = lru_cache(ROWS_KEPT, typed=True)(function)

    @wraps(function)
    def found(*row: Any) -> Found:
        try:
            return known(*row)
        except TypeError:
            return function(*row)

    return found


@by_row
def _is_law(*row: Any) -> bool:
    exact_ones = not any(isinstance(value, _NOT_EXACT) for value in row)
    return exact_ones and bool(sum(row) == 1) and not any(value < 0 for value in row)


def check_law(law: Array, name: str = "law") -> Array:
    """Return ``law`` (V,) or a stack of laws (n, V) unchanged, or raise ``ValueError`` naming the row and its fault."""
    if not isinstance(law, np.ndarray) or law.ndim not in (1, 2) or law.shape[-1] == 0:
        raise ValueError(f"{name} must be a numpy array of shape (V,) or (n, V) with V >= 1, not {_describe(law)}")
    rows = np.atleast_2d(law)
    if is_exact(law) and all(_is_law(*row) for row in rows):
        return law
    _check_kind(law, name)
    totals = rows.sum(axis=-1)
    if not is_exact(law) and law.size and law.min() >= 0 and all(abs(t - 1) <= SUM_TOLERANCE for t in totals.tolist()):
        return law  # the hot path: NaN fails both
    if is_exact(law):
        bad = np.array([not _is_law(*row) for row in rows])
    else:
        bad = ~((abs(totals - 1) <= SUM_TOLERANCE) & (rows >= 0).all(axis=-1))  # written so that NaN is bad
    if bad.any():
        row = int(np.argmax(bad))
        where = name if law.ndim == 1 else f"{name} row {row}"
        raise ValueError(f"{where} is not a law: sum {totals[row]}, smallest entry {min(rows[row])}")
    return law


_NOT_EXACT = (float, complex, Decimal, np.generic, bool, str, type(None))
"""Kinds that an exact array must not hold. Not a list of what it may: symbolic numbers are welcome."""


def _check_kind(values: Array, name: str) -> None:
    """Raise ``ValueError`` unless values are float64, or object dtype without a float or numpy number among them."""
    if not is_exact(values) and values.dtype != np.float64:
        raise ValueError(f"{name} has dtype {values.dtype}: use float64, or object dtype of Fractions")
    if is_exact(values) and any(isinstance(value, _NOT_EXACT) for value in values.flat):
        raise ValueError(f"{name} mixes floats, numpy numbers or none with exact ones: make it all Fractions, or all float64")


def check_pair(p: Array, q: Array) -> None:
    """Raise ``ValueError`` unless p and q are laws (or stacks of laws) of one kind over one vocabulary."""
    check_law(p, "target p")
    check_law(q, "draft q")
    if p.shape != q.shape:
        raise ValueError(f"target p has shape {p.shape} and draft q {q.shape}: give the smaller one zeros for what it lacks")
    check_same_kind(p, q)


def check_same_kind(p: Array, q: Array) -> None:
    """Raise ``ValueError`` if one array is exact and the other float64."""
    if is_exact(p) != is_exact(q):
        raise ValueError("target p and draft q are of different kinds: make both exact or both float64")


def overlap(p: Array, q: Array) -> Any:
    """alpha = sum of min(p, q): the probability that one proposal from q is accepted (Leviathan et al. 2023, Cor. 3.6).

    Stacks of laws give one alpha a row.
    """
    check_pair(p, q)
    return np.minimum(p, q).sum(axis=-1)


def total_variation(p: Array, q: Array) -> Any:
    """TV(p, q) = half the sum of `|p - q|`, which equals 1 - overlap(p, q). Stacks of laws give one distance a row."""
    check_pair(p, q)
    return abs(p - q).sum(axis=-1) * (Fraction(1, 2) if is_exact(p) else 0.5)


def residual(p: Array, q: Array) -> Array:
    """The law (p - q)+ / Z of the correction (Leviathan et al. 2023, section 2.3; Chen et al. 2023, theorem 1).

    Raises ``ValueError`` when p = q: then nothing is ever rejected and there is no residual.
    """
    check_pair(p, q)
    excess = positive_part(p, q)
    if not excess.any(axis=-1).all():
        raise ValueError("the residual of p = q has no mass: p = q never rejects")
    return normalise(excess)


def normalise(weights: Array) -> Array:
    """Weights divided by their sum over the last axis. Integers in an exact array give Fractions, never floats."""
    total = weights.sum(axis=-1, keepdims=True)
    if not is_exact(weights):
        return weights / total
    if (total == 1).all() and all(isinstance(weight, Fraction) for weight in weights.flat):
        return weights.copy()  # a law already, as a table's rows are; enumerations ask for them without end
    return weights / (total * Fraction(1))


def positive_part(p: Array, q: Array) -> Array:
    """(p - q)+, elementwise: what p has and q lacks, not normalised."""
    return np.maximum(p - q, 0)


# ---- scores to laws ---------------------------------------------------------------------------------------------


def softmax(logits: Array) -> Array:
    """exp(logits), normalised over the last axis; -inf gives 0.

    Shifted by the largest logit first, so that nothing overflows.
    """
    weights = logits - np.maximum.reduce(logits, axis=-1, keepdims=True)
    return normalise(np.exp(weights, out=weights))


def has_weight(scores: Array) -> bool:
    """Whether every row of scores leaves some token possible: not all logits -inf, not all exact weights 0."""
    if is_exact(scores):
        return not (scores == 0).all(axis=-1).any()
    return not np.count_nonzero(np.maximum.reduce(scores, axis=-1) == -np.inf)


def check_scores(scores: Array) -> Array:
    """Return scores unchanged, or raise ``ValueError`` unless they are float64 logits below inf or exact weights >= 0."""
    _check_kind(scores, "scores")
    if not (scores >= 0 if is_exact(scores) else scores < np.inf).all():  # written so that NaN is bad
        raise ValueError("scores must be logits below inf and never NaN, or exact weights of at least 0")
    return scores


def to_law(scores: Array) -> Array:
    """The law of scores (V,) or (n, V): exact weights are normalised, float64 scores are logits and go through softmax.

    Scores that pass the checks always give laws, so the result is not checked again.
    """
    if is_exact(scores):
        rows = scores if scores.ndim == 2 else scores[None]
        return np.array([_exact_law(*row) for row in rows], dtype=object).reshape(scores.shape)
    # One look at the largest clears floats, and NaN fails it.
    if scores.dtype != np.float64 or not scores.size or not np.maximum.reduce(scores, axis=None) < np.inf:
        check_scores(scores)
    if not has_weight(scores):
        raise ValueError(NO_TOKEN)
    return softmax(scores)


@by_row
def _exact_law(*scores: Any) -> tuple[Any, ...]:
    row = np.array(scores, dtype=object)
    check_scores(row)
    if not has_weight(row):
        raise ValueError(NO_TOKEN)
    return tuple(normalise(row))


def _keep(scores: Array, kept: Array) -> Array:
    """Scores where ``kept``, and no weight elsewhere."""
    return np.where(kept, scores, 0 if is_exact(scores) else -np.inf)


def _descending(scores: Array) -> Array:
    """Token ids by falling score along the last axis; ties to the lowest id."""
    return np.argsort(-scores, axis=-1, kind="stable")


@dataclass(frozen=True)
class Temperature:
    """Divide logits by T; exact weights are raised to the power 1/T, which must then be an integer.

    T = 0 is the greedy law: all mass on the largest score, ties to the lowest id.
    """

    value: float | Fraction
    prefix_free = True

    def __post_init__(self) -> None:
        if not 0 <= self.value < np.inf:
            raise ValueError(f"temperature is {self.value}: it must be finite and at least 0")

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores (V,) or (n, V) after the step."""
        if self.value == 0:
            return TopK(1)(scores, prefix)
        if not is_exact(scores):
            return scores / float(self.value)
        power = 1 / Fraction(self.value)
        if power.denominator != 1:
            raise ValueError(f"temperature {self.value} is not exact: 1/T must be an integer on exact weights")
        return scores ** int(power)


@dataclass(frozen=True)
class TopK:
    """Keep exactly the k largest scores (all of them if V < k); ties to the lowest id."""

    k: int
    prefix_free = True

    def __post_init__(self) -> None:
        if not isinstance(self.k, int | np.integer) or self.k < 1:
            raise ValueError(f"top-k keeps {self.k} tokens: k must be an integer of at least 1")

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores (V,) or (n, V) after the step."""
        kept = np.zeros(scores.shape, dtype=bool)
        np.put_along_axis(kept, _descending(scores)[..., : self.k], True, axis=-1)
        return _keep(scores, kept)


@dataclass(frozen=True)
class TopP:
    """Keep the shortest run of tokens, by falling probability, whose mass is at least p - TOP_P_EPSILON.

    Ties go to the lowest id (Holtzman et al. 2020). p = 1 keeps everything.
    """

    p: float | Fraction
    prefix_free = True

    def __post_init__(self) -> None:
        if not TOP_P_EPSILON < self.p <= 1:
            raise ValueError(f"top-p is {self.p}: it must lie above {float(TOP_P_EPSILON)} and at most at 1")

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores (V,) or (n, V) after the step."""
        if self.p == 1:  # the slack must not cut a tail that nobody asked to cut
            return scores
        law, order = to_law(scores), _descending(scores)
        ranked = np.take_along_axis(law, order, axis=-1)
        before = np.cumsum(ranked, axis=-1) - ranked
        threshold = Fraction(self.p) - TOP_P_EPSILON
        kept = np.zeros(scores.shape, dtype=bool)
        np.put_along_axis(kept, order, before < (threshold if is_exact(law) else float(threshold)), axis=-1)
        return _keep(scores, kept)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Penalise every token that the prefix already holds: positive logits / theta, others * theta.

    Keskar et al. (2019) divide all logits by theta; multiplying the negative ones is what engines do now.

    On exact weights, whose logit is log(weight): w ** theta for w <= 1, so theta must be an integer there.
    A larger weight would need a root and raises.
    """

    theta: float | int

    def __post_init__(self) -> None:
        if not 1 <= self.theta < np.inf:
            raise ValueError(f"repetition penalty is {self.theta}: it must be finite and at least 1")

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores (V,) or (n, V) after the step."""
        seen = np.zeros(scores.shape, dtype=bool)
        seen[..., [token for token in set(prefix) if 0 <= token < scores.shape[-1]]] = True  # a start token may lie outside
        if not is_exact(scores):
            theta = float(self.theta)
            return np.where(seen, np.where(scores > 0, scores / theta, scores * theta), scores)
        if self.theta != int(self.theta) or (scores[seen] > 1).any():
            raise ValueError(f"repetition penalty {self.theta} is not exact here: theta must be an integer, weights <= 1")
        return np.where(seen, scores ** int(self.theta), scores)


@dataclass(frozen=True)
class Transforms:
    """Sampling transforms in their declared order, the same tuple for target and draft.

    A step is a callable ``(scores, prefix) -> scores`` on one row (V,), called with the prefix of that very row. A step that
    ignores the prefix may say ``prefix_free = True``: it is then called once on all rows (n, V).
    The *processed* law, after all steps, is the p (or q) of the theorem.
    """

    steps: tuple[Step, ...] = ()

    @property
    def prefix_free(self) -> bool:
        """Whether no step looks at the prefix."""
        return all(getattr(step, "prefix_free", False) for step in self.steps)

    def scores(self, scores: Array, prefix: Sequence[int] = ()) -> Array:
        """One row (V,) of scores after every step.

        ``prefix`` holds the text's tokens before the row, the prompt included.
        """
        for step in self.steps:
            scores = step(check_scores(scores), prefix)
        return scores

    def law(self, scores: Array, prefix: Sequence[int] = ()) -> Array:
        """The processed law (V,) of one row of scores."""
        return to_law(self.scores(scores, prefix))

    def laws(self, scores: Array, prefix: Sequence[int], proposals: Sequence[int]) -> Array:
        """The processed laws (n, V) of n rows, row i given ``prefix + proposals[:i]``."""
        if len(proposals) < len(scores) - 1:
            raise ValueError(f"{len(scores)} rows need {len(scores) - 1} proposals before the last, not {len(proposals)}")
        if self.prefix_free:
            return to_law(self.scores(scores, prefix))
        rows = [self.scores(row, [*prefix, *proposals[:i]]) for i, row in enumerate(scores)]
        return to_law(np.array(rows, dtype=scores.dtype))


def _describe(value: object) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
