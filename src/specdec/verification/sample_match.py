"""Sample and match: emit the target's own draws, and keep going while they equal the proposals.

Right for any draft, since every emitted token is a plain target draw; the draft's laws are never used. It accepts with
probability Σ p(x) q(x) instead of Σ min(p, q). With a one-hot draft the two rules accept alike.
"""

from collections.abc import Sequence

from specdec.chance import Chance
from specdec.law import Array
from specdec.verification import Round, check_round, ended


def verify(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Draw from target row i; while the draw equals ``proposals[i]`` go on, else emit the draw and stop.

    Shapes and errors as in ``strict.verify``.
    """
    check_round(target, draft, proposals)
    for i, proposal in enumerate(proposals):
        token = chance.draw(target[i], "sample")
        if token != proposal:
            return ended(proposals, i, token, "correction")
    bonus = chance.draw(target[len(proposals)], "bonus")
    return ended(proposals, len(proposals), bonus, "bonus")
