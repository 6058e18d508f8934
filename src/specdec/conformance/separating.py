"""The search for small laws on which wrong rules are easiest to tell from the right one: the largest least distance.

``specimens.SEPARATING`` is what ``search(seed=4, tries=20_000)`` finds, in some two minutes.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from specdec.chance import law_of
from specdec.conformance.specimens import MUTANTS, recorded
from specdec.law import Array
from specdec.verification import Verify, strict

V, GAMMA = 3, 2
LAWS = [np.array((a, b, 10 - a - b)) / 10 for a in range(11) for b in range(11 - a)]
"""All laws of three tokens in tenths."""
PATIENCE = 250
"""Tries without success before the climb begins anew elsewhere."""

Chain = Sequence[Array]
"""The laws after A, B and C, and at the start."""
Rule = tuple[Verify, int]
"""A rule, and how many of the draft's likeliest tokens its proposals are drawn from."""


def rules() -> list[Rule]:
    """The mutants' rules whose fixture shows another law, and two that draw from another q than they tell."""
    wrong = []
    for specimen in MUTANTS:
        verify = specimen.sampler.verify
        if verify is not None and "law" in recorded()[specimen.name]:
            wrong.append((verify, V))
    return [*wrong, (strict.decide, 1), (strict.decide, 2)]


def divergence(rule: Rule, p: Chain, q: Chain) -> float:
    """Total variation of three tokens from the target's law: one round at γ = 2, then the target alone."""
    verify, top = rule
    drawn = [_top(row, top) for row in q]
    law: dict[tuple[int, ...], Any] = defaultdict(float)
    for x, y in product(range(V), repeat=GAMMA):
        if weight := drawn[-1][x] * drawn[x][y]:
            target, draft = np.array([p[-1], p[x], p[y]]), np.array([q[-1], q[x]])
            round_ = law_of(lambda c, t=target, d=draft, x=(x, y): verify(t.copy(), d, x, c).tokens)  # type: ignore[misc]
            for text, more in round_.items():
                law[text] += weight * more
    gap = 0.0
    for a, b, c in product(range(V), repeat=GAMMA + 1):
        found = law[a, b, c] + (law[a, b] + law[a,] * p[a][b]) * p[b][c]
        gap += abs(found - p[-1][a] * p[a][b] * p[b][c])
    return gap / 2


def _top(row: Array, number: int) -> Array:
    kept = np.zeros(V)
    best = np.argsort(-row, kind="stable")[:number]
    kept[best] = row[best]
    return kept / kept.sum()


def least(order: list[Rule], p: Chain, q: Chain, floor: float) -> float:
    """The least divergence; one at or below the floor ends the search for it, and its rule is tried first next time."""
    smallest = float("inf")
    for place, rule in enumerate(order):
        try:
            smallest = min(smallest, divergence(rule, p, q))
        except (ValueError, ZeroDivisionError):  # a residual without weight: these laws tell nothing of the rule
            return -1.0
        if smallest <= floor:
            order.insert(0, order.pop(place))
            break
    return smallest


def search(seed: int, tries: int) -> tuple[float, list[Array], list[Array]]:
    """The best of so many pairs of chains, climbed to from starts of chance: its least divergence, p and q."""
    chance, order = random.Random(seed), rules()
    best: tuple[float, list[Array], list[Array]] = (-1.0, [], [])
    here, since = best, PATIENCE + 1
    for _ in range(tries):
        if since > PATIENCE:
            here, since = (-1.0, [], []), 0
            p, q = ([chance.choice(LAWS) for _ in range(V + 1)] for _ in "pq")
        else:
            p, q = _near(here[1], here[2], chance)
        found = least(order, p, q, here[0])
        since += 1
        if found > here[0] or not here[1]:
            here, since = (found, p, q), 0
        best = max(best, here, key=lambda pair: pair[0])
    return best


def _near(p: list[Array], q: list[Array], chance: random.Random) -> tuple[list[Array], list[Array]]:
    """The chains with one or two laws changed: to any other, or by a tenth moved from one token to another."""
    p, q = list(p), list(q)
    for _ in range(chance.choice((1, 1, 2))):
        chain, place = chance.choice((p, q)), chance.randrange(V + 1)
        if chance.random() < 0.4:
            chain[place] = chance.choice(LAWS)
        else:
            more, fewer = chance.sample(range(V), 2)
            moved = chain[place].copy()
            moved[more] += 0.1
            moved[fewer] -= 0.1
            if moved.min() > -0.05:
                chain[place] = moved.round(1)
    return p, q
