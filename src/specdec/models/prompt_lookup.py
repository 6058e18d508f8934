"""Prompt lookup: a draft without parameters that proposes what followed the current suffix the last time.

The idea is Saxena's "Prompt Lookup Decoding" (2023). Implementations differ in which of several matches they
take: this one takes the longest suffix, and of its earlier occurrences the most recent.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from specdec.law import Array
from specdec.models import check_rewind, check_tokens

Gram = tuple[int, ...]


@dataclass
class Memory:
    """The tokens read; the token that last followed each gram in them; and what each token replaced there."""

    tokens: list[int] = field(default_factory=list)
    followers: dict[Gram, int] = field(default_factory=dict)
    replaced: list[tuple[tuple[Gram, int | None], ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)


class PromptLookup:
    """A one-hot draft: the token that followed the context's longest known suffix the last time it occurred.

    Suffixes of ``longest`` down to ``shortest`` tokens are tried; the occurrence may overlap the suffix. None
    found: a row without weight. The start token is neither matched nor proposed. A token costs about
    ``longest`` dictionary look-ups, whatever the length of the text.
    """

    reach = capacity = math.inf

    def __init__(self, vocab_size: int, longest: int = 3, shortest: int = 1, exact: bool = False) -> None:
        if not all(isinstance(number, int | np.integer) for number in (vocab_size, longest, shortest)) or vocab_size < 1:
            raise ValueError(f"vocab_size {vocab_size!r}, longest {longest!r}, shortest {shortest!r}: integers of at least 1")
        if not 1 <= shortest <= longest:
            raise ValueError(f"suffixes of {shortest} to {longest} tokens: need 1 <= shortest <= longest")
        self.vocab_size = self.start_token = vocab_size
        self.longest, self.shortest, self.exact = longest, shortest, exact

    def start(self) -> Memory:
        """A state that holds nothing."""
        return Memory()

    def append(self, state: Memory, tokens: Sequence[int]) -> Array:
        """One-hot scores (n, V) after each token: 0 or -inf, exact 1 or 0."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        scores = np.empty((len(tokens), self.vocab_size), dtype=object if self.exact else np.float64)
        for i, token in enumerate(tokens):
            scores[i] = self.row(self.feed(state, [token]))
        return scores

    def feed(self, state: Memory, tokens: Sequence[int]) -> int | None:
        """Read and learn more tokens; the name of the row after them is its proposal, or None."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        for token in tokens:
            self._learn(state, int(token))
        return self._proposal(state)

    def row(self, proposal: int | None) -> Array:
        """One-hot scores (V,) at the proposal, without weight if there is none."""
        none, one = (0, 1) if self.exact else (-np.inf, 0.0)
        scores = np.full(self.vocab_size, none, dtype=object if self.exact else np.float64)
        if proposal is not None:
            scores[proposal] = one
        return scores

    def _suffixes(self, tokens: list[int]) -> list[Gram]:
        """The suffixes to try, longest first."""
        recent = tuple(tokens[-self.longest :])
        if self.start_token in recent:  # keep what follows the last start token
            recent = recent[len(recent) - recent[::-1].index(self.start_token) :]
        return [recent[len(recent) - length :] for length in range(len(recent), self.shortest - 1, -1)]

    def _learn(self, state: Memory, token: int) -> None:
        grams = self._suffixes(state.tokens) if token != self.start_token else []
        state.replaced.append(tuple((gram, state.followers.get(gram)) for gram in grams))
        state.followers.update(dict.fromkeys(grams, token))
        state.tokens.append(token)

    def _proposal(self, state: Memory) -> int | None:
        known = (state.followers[gram] for gram in self._suffixes(state.tokens) if gram in state.followers)
        return next(known, None)

    def rewind(self, state: Memory, length: int) -> None:
        """Keep the first ``length`` tokens, and undo what the others taught, latest first."""
        check_rewind(len(state), length, self.reach)
        while len(state) > length:
            state.tokens.pop()
            for gram, follower in state.replaced.pop():
                if follower is None:
                    del state.followers[gram]
                else:
                    state.followers[gram] = follower

    def copy(self, state: Memory) -> Memory:
        """A copy with its own lists and dictionary."""
        return Memory(list(state.tokens), dict(state.followers), list(state.replaced))

    def key(self, state: Memory) -> Hashable:
        """The tokens held, and what is remembered of them."""
        return tuple(state.tokens), frozenset(state.followers.items()), tuple(state.replaced)
