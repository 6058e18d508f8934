"""Strict speculative sampling: the rule of Leviathan et al. (2023, algorithm 1) and Chen et al. (2023, algorithm 2)."""

from collections.abc import Sequence
from typing import Any

from specdec.chance import Chance
from specdec.law import Array, positive_part
from specdec.verification import Round, check_round, ended


def verify(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Accept proposals in order, each with min(1, p/q); correct the first rejection; add a bonus if there is none.

    ``target`` (γ+1, V) and ``draft`` (γ, V) are laws, row i given the prefix and ``proposals[:i]``; ``proposals`` (γ,) were
    drawn from the draft rows. The emitted tokens follow the target's law exactly. Bad rows or proposals raise ``ValueError``.
    """
    check_round(target, draft, proposals)
    for i, token in enumerate(proposals):
        if not chance.accept(acceptance(target[i], draft[i], token), "accept"):
            return ended(proposals, i, chance.draw(correction_weights(target[i], draft[i]), "correct"), "correction")
    gamma = len(proposals)
    return ended(proposals, gamma, chance.draw(target[gamma], "bonus"), "bonus")


def acceptance(p: Array, q: Array, token: int) -> Any:
    """min(1, p(x)/q(x)) for a proposal x with q(x) > 0."""
    return 1 if p[token] >= q[token] else p[token] / q[token]


def correction_weights(p: Array, q: Array) -> Array:
    """(p - q)+, the correction's law up to its normaliser.

    In exact arithmetic a rejection implies that it has mass. Floats can reject by rounding alone (q = p(1 + 1e-9)) and leave
    none; the draw is then from p, whose distance from the right law is of the same order as the rounding.
    """
    excess = positive_part(p, q)
    return excess if excess.any() else p
