"""Block verification: Sun et al. (2025, "Block Verification Accelerates Speculative Decoding", arXiv 2403.10444, algorithm 2).

The proposals are judged as a block: one that strict would reject may stay if the proposals behind it make up for it. The law of
the output is the target's, as with strict; a round accepts at least as many on average (their theorem 2), and at γ = 1 the two
rules are one. Their M_b and M_s are our p and q, and their p_i is our ratio r_i.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.law import Array, positive_part
from specdec.verification import Round, check_round, ended
from specdec.verification.strict import correction_weights


def verify(
    target: Array, draft: Array, proposals: Sequence[int], chance: Chance
) -> Round:
    """Keep the longest prefix of i proposals that passes with h_i, then
    draw the correction from (r_i p - q)+; add a bonus if all are kept.

    The paper tries every i and takes the largest that passes. Trying from γ
    down to the first that passes gives the same. Shapes and errors as in
    ``strict.verify``.
    """
    check_round(target, draft, proposals)
    return decide(target, draft, proposals, chance)


def decide(
    target: Array, draft: Array, proposals: Sequence[int], chance: Chance
) -> Round:
    """The rule itself, for rows and proposals that are known to be right."""
    r = ratios(target, draft, proposals)
    h = acceptances(target, draft, r)
    kept = len(proposals)
    while kept > 0 and not chance.accept(h[kept], "accept"):
        kept -= 1
    if kept == len(proposals):
        bonus = chance.draw(target[kept], "bonus")
        return ended(proposals, kept, bonus, "bonus")
    weights = correction_weights(r[kept] * target[kept], draft[kept])
    correction = chance.draw(weights, "correct")
    return ended(proposals, kept, correction, "correction")


def ratios(
    target: Array, draft: Array, proposals: Sequence[int]
) -> list[Any]:
    """r_0 … r_γ: r_0 = 1 and r_i = min(1, r_{i-1} p(x_i) / q(x_i)).

    r_i is the probability that the first i proposals are kept, whatever comes
    behind them. Strict keeps them with the product of min(1, p/q): no more.
    """
    r: list[Any] = [1]
    for p, q, token in zip(target[:-1], draft, proposals, strict=True):
        scaled = r[-1] * p[token]
        r.append(1 if scaled >= q[token] else scaled / q[token])
    return r


def acceptances(target: Array, draft: Array, r: Sequence[Any]) -> list[Any]:
    """h_0 … h_γ: h_i = S_i / (S_i + 1 - r_i), S_i = Σ (r_i p - q)+ at row i.

    h_γ = r_γ, which is the same with q = 0: behind the block nothing was
    drawn from q. 0/0 is 1: there p = q, and all that follows is kept anyway.
    """
    scaled = np.array(r[:-1], dtype=target.dtype)[:, None] * target[:-1]
    masses = positive_part(scaled, draft).sum(axis=-1).tolist()
    h = []
    for ratio, s in zip(r[:-1], masses, strict=True):
        whole = s + (1 - ratio)  # (s + 1) - ratio would round a small s away
        h.append(s / whole if whole else 1)
    return [*h, r[-1]]
