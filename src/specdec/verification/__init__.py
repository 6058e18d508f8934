"""One module per verification rule: strict, block and sample-and-match, which share one signature.

``verify(target (γ+1, V), draft (γ, V), proposals (γ,), chance) -> Round``: row i is the law given the prefix and
``proposals[:i]``. γ = 0 is legal: one draw from the target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specdec.chance import Chance
from specdec.law import Array, check_law, check_same_kind

ORIGINS = ("accepted", "correction", "bonus")
_ORIGINS = frozenset(ORIGINS)


@dataclass(frozen=True)
class Round:
    """What one round emits: tokens in order, and where each came from (one of ORIGINS)."""

    tokens: tuple[int, ...]
    origins: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ValueError("a round emits at least one token")
        if len(self.tokens) != len(self.origins) or not _ORIGINS.issuperset(self.origins):
            raise ValueError(f"a round needs one origin of {ORIGINS} for each token: {self.tokens}, {self.origins}")

    @property
    def accepted(self) -> int:
        """How many proposals were accepted."""
        return self.origins.count("accepted")


Verify = Callable[[Array, Array, Sequence[int], Chance], Round]


def ended(proposals: Sequence[int], accepted: int, token: int, origin: str) -> Round:
    """The round that keeps ``proposals[:accepted]`` and ends with ``token``."""
    return Round((*proposals[:accepted], token), ("accepted",) * accepted + (origin,))


def check_round(target: Array, draft: Array, proposals: Sequence[int]) -> None:
    """Raise ``ValueError`` unless the rows are laws of one kind and shape and the draft could have made the proposals."""
    gamma = len(proposals)
    check_law(target, "target")
    if target.ndim != 2 or len(target) != gamma + 1:
        raise ValueError(f"target has shape {target.shape}: {gamma} proposals need {gamma + 1} rows, one a position")
    if np.shape(draft) != (gamma, target.shape[1]):
        raise ValueError(
            f"draft has shape {np.shape(draft)}, expected {(gamma, target.shape[1])}: one row a proposal, the target's vocabulary"
            " (give a smaller draft zeros for what it lacks)"
        )
    if gamma == 0:
        return
    check_law(draft, "draft")
    check_same_kind(target, draft)
    for i, token in enumerate(proposals):
        if not isinstance(token, int | np.integer) or not 0 <= token < target.shape[1]:
            raise ValueError(f"proposal {i} is {token!r}: not a token id below {target.shape[1]}")
        if draft[i, token] == 0:
            raise ValueError(f"proposal {i} is token {token}, which draft row {i} gives probability 0: it was not drawn from q")
