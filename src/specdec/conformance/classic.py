"""Three tests of the kind that public test-suites rely on, so that the kill matrix can compare: pure functions of the texts.

Each is ``(texts, law) -> passes`` for independent texts and their exact law {text: probability}, at the customary 1,000 texts
or any other number. All read one position at a time, so what goes wrong between positions escapes them: they are blind to it at
any number of texts.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

TEXTS = 1_000
TOLERANCE = 0.05
SIGNIFICANCE = 1e-4


def first_token_distance(texts: Sequence[Sequence[int]], law: Mapping[Any, Any]) -> bool:
    """The first token's frequencies lie within a total variation of .05 of its law: a histogram and a tolerance.

    A lossless sampler fails at 1,000 texts with probability .0016 if the law is (6, 3, 1)/10 (100,000 simulated tests), and
    for V tokens with at most (2^V - 2) exp(-2 · 1000 · .05²) (Bretagnolle, Huber & Carol).
    """
    p, counts = _marginal(law, 0), _counts(texts, 0)
    total = counts.total()
    return sum(abs(counts[x] / total - p.get(x, 0)) for x in {*p, *counts}) / 2 <= TOLERANCE


def support_and_order(texts: Sequence[Sequence[int]], law: Mapping[Any, Any]) -> bool:
    """The first tokens seen are those with p > 0, all of them, and of two tokens the likelier was seen more often.

    A lossless sampler fails with at most Σ exp(-n (√p(x) - √p(y))²) over pairs p(x) > p(y), plus Σ exp(-n p(x)) for tokens
    never seen (Chernoff's bound): 5e-23 at 1,000 texts and (6, 3, 1)/10. Nothing but the order is looked at.
    """
    p, counts = {x: mass for x, mass in _marginal(law, 0).items() if mass}, _counts(texts, 0)
    ordered = all((counts[x] > counts[y]) == (p[x] > p[y]) for x, y in combinations(p, 2) if p[x] != p[y])
    return counts.keys() == p.keys() and ordered


def chi_square(texts: Sequence[Sequence[int]], law: Mapping[Any, Any]) -> bool:
    """Pearson's goodness of fit at every position of the text by itself, each at a significance of 1e-4.

    A token with p = 0 fails it. A lossless sampler fails at one of four positions with probability 4e-4 at most, as far as the
    chi-square law is right: a rule of thumb asks for at least five expected texts a token.
    """
    return all(_fits(_counts(texts, i), _marginal(law, i)) for i in range(max(map(len, law))))


def _fits(counts: Counter[int], p: Mapping[int, float]) -> bool:
    possible = {x: mass for x, mass in p.items() if mass}
    if not counts.keys() <= possible.keys():
        return False
    total = counts.total()
    statistic = sum((counts[x] - total * mass) ** 2 / (total * mass) for x, mass in possible.items()) if total else 0.0
    return chi_square_tail(statistic, len(possible) - 1) > SIGNIFICANCE


def chi_square_tail(x: float, degrees: int) -> float:
    """P(X > x) for X chi-square with ``degrees`` of freedom, by its finite sum (Abramowitz & Stegun 1964, 26.4.4 and 26.4.5)."""
    if x <= 0 or degrees == 0:
        return 1.0
    half = x / 2
    start = degrees % 2 / 2  # terms e^(-h) h^k / Γ(k + 1) for k = start, start + 1, …, degrees/2 - 1
    terms = (math.exp(k * math.log(half) - half - math.lgamma(k + 1)) for k in (start + i for i in range(degrees // 2)))
    return (math.erfc(math.sqrt(half)) if start else 0.0) + sum(terms)


def _counts(texts: Sequence[Sequence[int]], position: int) -> Counter[int]:
    return Counter(text[position] for text in texts if len(text) > position)


def _marginal(law: Mapping[Any, Any], position: int) -> dict[int, float]:
    """The law of the token at a position, among the texts that reach it."""
    masses: dict[int, Any] = {}
    for text, weight in law.items():
        if len(text) > position:
            masses[text[position]] = masses.get(text[position], 0) + weight
    total = sum(masses.values())
    return {x: float(mass / total) for x, mass in masses.items()}
