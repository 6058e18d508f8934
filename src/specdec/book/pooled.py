"""Several drafts as one, for the lab's exercise: each place's rows are pooled by a function of the reader's."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specdec.law import Array, to_law
from specdec.models import LanguageModel


class Pair(tuple[Any, ...]):
    """The models' states side by side; its length is the number of tokens held."""

    def __len__(self) -> int:
        return len(self[0])


class Pooled:
    """A model whose row is ``pool`` of the rows of ``models``: log probabilities (V,) in, scores (V,) out."""

    def __init__(self, pool: Callable[..., Array], *models: LanguageModel) -> None:
        self.pool, self.models, self.exact = pool, models, False
        self.vocab_size, self.start_token = models[0].vocab_size, models[0].start_token
        self.reach, self.capacity = (min(getattr(model, name) for model in models) for name in ("reach", "capacity"))

    def start(self) -> Pair:
        """A state that holds nothing."""
        return Pair(model.start() for model in self.models)

    def append(self, state: Pair, tokens: Sequence[int]) -> Array:
        """Scores (n, V) after each token."""
        each = (np.log(to_law(model.append(its, tokens))) for model, its in zip(self.models, state, strict=True))
        return np.array([self.pool(*rows) for rows in zip(*each, strict=True)])

    def rewind(self, state: Pair, length: int) -> None:
        """Keep the first ``length`` tokens."""
        for model, its in zip(self.models, state, strict=True):
            model.rewind(its, length)

    def copy(self, state: Pair) -> Pair:
        """A copy of each state."""
        return Pair(model.copy(its) for model, its in zip(self.models, state, strict=True))

    def key(self, state: Pair) -> Any:
        """Each state's key."""
        return tuple(model.key(its) for model, its in zip(self.models, state, strict=True))
