"""The chance object that code under test is handed: it can be computed with, and it ends what never ends."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specdec.chance import PURPOSES, Chance, Weights
from specdec.conformance.guard import DECISIONS, BrokenError
from specdec.conformance.intercept import PURPOSE, uniform
from specdec.law import Array


class Handed:
    """Passes decisions on and counts them: a run that asks for too many raises ``BrokenError``.

    More than ``Chance`` allows is understood, since adapters are other people's code: uniforms can be shifted, scaled and made
    into noise, weights may be a list, and a purpose may be any word.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance, self._asked = chance, 0

    def _counted(self, purpose: str) -> str:
        self._asked += 1
        if self._asked > DECISIONS:
            raise BrokenError(f"it never ends: more than {DECISIONS} random decisions in one round")
        return purpose if purpose in PURPOSES else PURPOSE

    def uniform(self, purpose: str = PURPOSE) -> Any:
        """The inner chance's uniform."""
        return uniform(self._chance, self._counted(purpose))

    def accept(self, probability: Any, purpose: str = PURPOSE, u: Any = None) -> bool:
        """The inner chance's decision."""
        return self._chance.accept(probability, self._counted(purpose), u=u)

    def draw(self, weights: Array | Weights | Sequence[Any], purpose: str = PURPOSE, u: Any = None) -> int:
        """The inner chance's draw."""
        known = weights if isinstance(weights, Weights) else np.asarray(weights)
        return self._chance.draw(known, self._counted(purpose), u=u)
