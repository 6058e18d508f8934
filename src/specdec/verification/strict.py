"""Strict speculative sampling: the rule of Leviathan et al. (2023, algorithm 1) and Chen et al. (2023, algorithm 2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.law import Array, positive_part
from specdec.verification import Round, check_round, ended


def verify(
    target: Array, draft: Array, proposals: Sequence[int], chance: Chance
) -> Round:
    """Accept proposals in order, each with min(1, p/q); correct the first
    rejection; add a bonus if there is none.

    ``target`` (γ+1, V) and ``draft`` (γ, V) are laws, row i given the prefix
    and ``proposals[:i]``; ``proposals`` (γ,) were drawn from the draft rows.
    The emitted tokens follow the target's law exactly. Bad rows or proposals
    raise ``ValueError``.
    """
    check_round(target, draft, proposals)
    return decide(target, draft, proposals, chance)


def decide(
    target: Array, draft: Array, proposals: Sequence[int], chance: Chance
) -> Round:
    """The rule itself, for rows and proposals that are known to be right."""
    for i, token in enumerate(proposals):
        p, q = target[i], draft[i]
        if not chance.accept(acceptance(p, q, token), "accept"):
            correction = chance.draw(correction_weights(p, q), "correct")
            return ended(proposals, i, correction, "correction")
    bonus = chance.draw(target[len(proposals)], "bonus")
    return ended(proposals, len(proposals), bonus, "bonus")


def acceptance(p: Array, q: Array, token: int) -> Any:
    """min(1, p(x)/q(x)) for a proposal x with q(x) > 0."""
    return 1 if p[token] >= q[token] else p[token] / q[token]


def correction_weights(p: Array, q: Array) -> Array:
    """(p - q)+, the correction's law up to its normaliser.

    In exact arithmetic a rejection implies that it has mass. Floats can reject by rounding alone (q = p(1 + 1e-9)) and leave
    none; the draw is then from p, whose distance from the right law is of the same order as the rounding.
    """
    excess = positive_part(p, q)
    return excess if np.count_nonzero(excess) else p
