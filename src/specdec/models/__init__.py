"""Language models behind one small protocol: exact tables, automata with cumulative state, character n-grams, prompt lookup.

A model turns a sequence of tokens into rows of scores and can go back; everything else is the decoder's.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from specdec.law import Array

INTEGERS = (int, np.integer)
"""What a token id may be. A tuple made once: ``int | np.integer`` is built anew at each use, and these are used every round."""


class LanguageModel(Protocol):
    """What the decoder needs of a target or a draft. ``len(state)`` is the number of tokens that a state holds."""

    vocab_size: int
    """V: emitted tokens are 0 to V-1."""
    start_token: int
    """The start-of-text token, always the first one fed, so that a context is never empty. It may lie outside 0 to V-1."""
    exact: bool
    """Whether scores are exact weights (object dtype) rather than float64 logits."""
    reach: float
    """How many of its last tokens a state is guaranteed to give back; ``math.inf`` if all."""
    capacity: float
    """How many tokens a state can hold, the start token included; ``math.inf`` if any number."""

    def start(self) -> Any:
        """A new state that holds no token yet."""

    def append(self, state: Any, tokens: Sequence[int]) -> Array:
        """Feed tokens (n,) into the state, in place; return scores (n, V), row i for the token that follows ``tokens[i]``.

        A draft may return a row without weight (all -inf, or all 0): it has no proposal there.
        """

    def rewind(self, state: Any, length: int) -> None:
        """Shorten the state to its first ``length`` tokens, in place. ``ValueError`` beyond ``reach`` or ``len(state)``."""

    def copy(self, state: Any) -> Any:
        """An independent copy."""

    def key(self, state: Any) -> Hashable:
        """Equal for two states only if they can never behave differently: what the state *holds*, not what it should hold."""


class NamedRows(LanguageModel, Protocol):
    """A model with finitely many rows, each with a name: what is made of a row can be kept under it and found again."""

    def feed(self, state: Any, tokens: Sequence[int]) -> Hashable:
        """Feed tokens (n,), n ≥ 1, into the state, in place; the name of the row after the last one."""

    def row(self, name: Any) -> Array:
        """The scores (V,) of that name."""


def check_tokens(tokens: Sequence[int], vocab_size: int, start_token: int) -> None:
    """Raise ``ValueError`` naming the first token that is neither in 0 to V-1 nor the start token."""
    for place, token in enumerate(tokens):
        if not isinstance(token, INTEGERS) or not (0 <= token < vocab_size or token == start_token):
            raise ValueError(f"token {place} is {token!r}: expected an id from 0 to {vocab_size - 1} (start: {start_token})")


def check_rewind(held: int, length: int, reach: float) -> None:
    """Raise ``ValueError`` unless a state of ``held`` tokens may be rewound to ``length``."""
    if not 0 <= length <= held:
        raise ValueError(f"cannot rewind a state of {held} tokens to {length}")
    if held - length > reach:
        raise ValueError(f"cannot rewind by {held - length} tokens: this model promises {reach}; build it with a larger reach")
