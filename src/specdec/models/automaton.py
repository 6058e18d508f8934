"""A finite automaton with a law in every state: the smallest model whose memory is a running summary, like a recurrent one.

A summary can't be cut back to a shorter prefix, so the model keeps checkpoints; that is what ``reach`` promises.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from specdec.law import Array, check_law, is_exact
from specdec.models import check_rewind, check_tokens


@dataclass
class Run:
    """Tokens read so far, and the automaton's state after each of the last ones, oldest first."""

    length: int = 0
    checkpoints: list[int] = field(default_factory=lambda: [0])

    def __len__(self) -> int:
        return self.length


class Automaton:
    """``transitions`` (S, V+1) gives the next state for each token (column V: the start token); ``laws`` (S, V) its law.

    It starts in state 0. ``rewind`` reaches back ``reach`` tokens at most: give it γ + 1 or more.
    """

    def __init__(self, transitions: Array, laws: Array, reach: int) -> None:
        check_law(laws, "automaton laws")
        if laws.ndim != 2:
            raise ValueError(f"automaton laws have shape {laws.shape}: one row a state, (S, V)")
        states, self.vocab_size = laws.shape
        shape = (states, self.vocab_size + 1)
        if np.shape(transitions) != shape or not np.isin(transitions, np.arange(states)).all():
            raise ValueError(f"transitions must have shape {shape} and hold state numbers below {states}")
        if not isinstance(reach, int | np.integer) or reach < 1:
            raise ValueError(f"reach is {reach!r}: it must be an integer of at least 1")
        self.start_token = self.vocab_size
        self.exact = is_exact(laws)
        self.reach: float = reach
        self.capacity = math.inf
        self._transitions = np.asarray(transitions, dtype=int)
        with np.errstate(divide="ignore"):
            self._scores = laws if self.exact else np.log(laws)

    def start(self) -> Run:
        """State 0, nothing read."""
        return Run()

    def append(self, state: Run, tokens: Sequence[int]) -> Array:
        """Scores (n, V) after each token."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        visited = [state.checkpoints[-1]]
        for token in tokens:
            visited.append(int(self._transitions[visited[-1], token]))
        state.checkpoints = (state.checkpoints + visited[1:])[-(int(self.reach) + 1) :]
        state.length += len(tokens)
        return self._scores[visited[1:]]

    def rewind(self, state: Run, length: int) -> None:
        """Return to the checkpoint after ``length`` tokens."""
        back = state.length - length
        kept = len(state.checkpoints) - 1
        check_rewind(state.length, length, min(self.reach, kept))
        state.checkpoints = state.checkpoints[: len(state.checkpoints) - back]
        state.length = length

    def copy(self, state: Run) -> Run:
        """A copy with its own checkpoints."""
        return Run(state.length, list(state.checkpoints))

    def key(self, state: Run) -> Hashable:
        """The length and every checkpoint."""
        return state.length, tuple(state.checkpoints)
