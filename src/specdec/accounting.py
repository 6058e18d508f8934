"""What a round yields and costs, by formula: the law of the output count, throughput, break-even, best gamma.

The count K is the accepted prefix plus the one correction or bonus. All count formulas assume that acceptances are iid with
probability alpha, which holds where p and q do not depend on the prefix. Fractions in, Fractions out; alpha may be an array
where a function says so. Times are seconds.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np


def _check(alpha: Any, gamma: int) -> None:
    if not isinstance(gamma, int | np.integer) or gamma < 0:
        raise ValueError(f"gamma is {gamma!r}: it must be an integer of at least 0")
    if not np.all((np.asarray(alpha) >= 0) & (np.asarray(alpha) <= 1)):
        raise ValueError(f"alpha is {alpha}: it must lie in [0, 1]")


def _check_seconds(**times: Any) -> None:
    for name, value in times.items():
        if not np.all((np.asarray(value) >= 0) & (np.asarray(value) < np.inf)):
            raise ValueError(f"{name} is {value}: it must be finite and at least 0 seconds")


def count_law(alpha: Any, gamma: int) -> list[Any]:
    """P(K = 1), …, P(K = γ+1), by Leviathan et al. (2023, section 3.1).

    alpha**(k-1) (1 - alpha) for k ≤ γ, and alpha**γ for k = γ+1.
    """
    _check(alpha, gamma)
    cut_short = [alpha**j * (1 - alpha) for j in range(gamma)]
    return [*cut_short, alpha ** int(gamma)]


def expected_count(alpha: Any, gamma: int) -> Any:
    """E[K] = 1 + alpha + … + alpha**γ (Leviathan et al. 2023, equation 1). ``alpha`` may be an array.

    Summed term by term: the closed quotient (1 - alpha**(γ+1)) / (1 - alpha) is 0/0 at 1 and cancels badly near it.
    """
    _check(alpha, gamma)
    return sum(alpha**j for j in range(gamma + 1))


def count_variance(alpha: Any, gamma: int) -> Any:
    """Var[K] = Σ (k - E[K])² P(K = k), k from 1 to γ+1. ``alpha`` may be an array.

    No term is negative: E[K²] - E[K]² cancels badly where K is nearly certain, at alpha near 0 and near 1.
    """
    mean = expected_count(alpha, gamma)
    return sum((k - mean) ** 2 * weight for k, weight in enumerate(count_law(alpha, gamma), start=1))


def throughput(
    alpha: Any, gamma: int, *, draft: Any, verify: Any, overhead: Any = 0
) -> Any:
    """Tokens a second: E[K] over the round's seconds.

    ``draft`` is the time of all γ draft steps together.
    """
    _check_seconds(draft=draft, verify=verify, overhead=overhead)
    seconds = draft + verify + overhead
    if not np.all(np.asarray(seconds) > 0):
        raise ValueError("a round of no duration has no throughput")
    return expected_count(alpha, gamma) / seconds


def break_even_verify(
    alpha: Any, gamma: int, *, draft: Any, baseline: Any, overhead: Any = 0
) -> Any:
    """The verification time at which a round is exactly as fast as the
    baseline of ``baseline`` seconds a token.

    At or below 0, no verification is fast enough.
    """
    _check_seconds(draft=draft, baseline=baseline, overhead=overhead)
    count = expected_count(alpha, gamma)
    return count * baseline - draft - overhead


def break_even_alpha(
    gamma: int, *, draft: Any, verify: Any, baseline: Any, overhead: Any = 0
) -> Fraction | None:
    """The least acceptance at which a round is as fast as the baseline, to
    2**-50 and never too small; None if not even 1 is enough.

    E[K] grows with alpha, so it is found by halving.
    """
    _check_seconds(draft=draft, verify=verify, baseline=baseline, overhead=overhead)

    seconds = draft + verify + overhead

    def enough(alpha: Fraction) -> bool:
        return expected_count(alpha, gamma) * baseline >= seconds

    low, high = Fraction(0), Fraction(1)
    if enough(low) or not enough(high):
        return low if enough(low) else None
    while high - low > Fraction(1, 2**50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def speedup(alpha: Any, gamma: int, c: Any, v: Any = 1) -> Any:
    """E[K] / (γ c + v): how many times as fast as the target alone.

    One draft step costs c target steps, verifying γ+1 positions v of them.
    v = 1 is Theorem 3.8 of Leviathan et al. (2023).
    """
    _check(alpha, gamma)
    return throughput(alpha, gamma, draft=int(gamma) * c, verify=v)


def best_gamma(
    alpha: Any,
    *,
    draft_step: Any,
    verify: Callable[[int], Any],
    largest: int,
    overhead: Any = 0,
) -> tuple[int, Any]:
    """The γ from 0 to ``largest`` of highest throughput, and that throughput.

    Ties go to the smaller γ. ``draft_step`` is the time of one draft step,
    ``verify(γ)`` of one pass over γ+1 positions, ``overhead`` of the rest of
    a round. γ = 0 is the target alone: one pass, no draft, no overhead.
    """
    _check(alpha, largest)

    def rate(gamma: int) -> Any:
        rest = overhead if gamma else 0
        times = {"draft": gamma * draft_step, "verify": verify(gamma), "overhead": rest}
        return throughput(alpha, gamma, **times)

    rates = [rate(gamma) for gamma in range(largest + 1)]
    best = max(range(largest + 1), key=rates.__getitem__)
    return best, rates[best]
