"""A character n-gram distilled from a target: for each kept context, the mean of the target's laws after it.

Made by ``python -m specdec.training distil``. A row is the longest kept suffix of the text, down to the empty one, which is
always kept. Rows are stored as the square roots of their probabilities in steps of 1/255, only those that are not zero.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from specdec.chance import Weights
from specdec.law import Array, Transforms, normalise, to_law
from specdec.models import check_rewind, check_tokens
from specdec.models.text import Vocabulary

FLOOR = 1e-5
"""Added to every probability before normalising: a token that a row lacks can still be proposed, so q > 0 wherever p > 0."""


class Distilled:
    """The table of ``arrays``, as ``pack`` makes them. The state is the text held, a byte a token."""

    exact = False
    reach = capacity = math.inf

    def __init__(self, arrays: Mapping[str, Array], vocabulary: Vocabulary) -> None:
        self.vocabulary, self.vocab_size, self.start_token = vocabulary, len(vocabulary), vocabulary.start_token
        contexts, lengths, filled = arrays["contexts"].tobytes(), arrays["lengths"].tolist(), arrays["filled"]
        tokens, roots = arrays["tokens"], arrays["roots"]
        together = len(lengths) == len(filled) and sum(lengths) == len(contexts) and filled.sum() == len(tokens) == len(roots)
        if self.start_token > 255 or not together or (tokens >= self.vocab_size).any():
            raise ValueError("the table's contexts, lengths and rows do not belong together: distil the table again")
        ends = np.cumsum(lengths).tolist()
        self._rows = {contexts[end - length : end]: i for i, (end, length) in enumerate(zip(ends, lengths, strict=True))}
        if b"" not in self._rows:
            raise ValueError("the table lacks the empty context, which every text falls back to: distil the table again")
        self.longest = max(lengths)
        self._tokens, self._roots = tokens, roots
        self._prepared = lru_cache(2)(self._prepare)
        self._begins = [0, *np.cumsum(filled, dtype=np.int64).tolist()]

    def __len__(self) -> int:
        return len(self._rows)

    def start(self) -> bytearray:
        """A state that holds nothing."""
        return bytearray()

    def append(self, state: bytearray, tokens: Sequence[int]) -> Array:
        """Log probabilities (n, V) after each token."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        scores = np.empty((len(tokens), self.vocab_size))
        for i, token in enumerate(tokens):
            scores[i] = self.row(self.feed(state, [token]))
        return scores

    def feed(self, state: bytearray, tokens: Sequence[int]) -> int:
        """Hold more tokens; the name of the row after them is its number."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        state += bytes(tokens)
        rows, recent = self._rows, bytes(state[-self.longest :])
        while recent not in rows:
            recent = recent[1:]
        return rows[recent]

    def prepared(self, transforms: Transforms) -> dict[int, Weights | None]:
        """The processed law of every row by its number, None where no token is left; kept for two (hashable) ``Transforms``."""
        return self._prepared(transforms)

    def _prepare(self, transforms: Transforms) -> dict[int, Weights | None]:
        laws = np.full((len(self), self.vocab_size), FLOOR)
        laws[np.repeat(np.arange(len(self)), np.diff(self._begins)), self._tokens] += (self._roots / 255) ** 2
        scores = transforms.scores(np.log(normalise(laws)))
        left = np.flatnonzero(scores.max(axis=-1) > -np.inf).tolist()
        made: dict[int, Weights | None] = dict.fromkeys(range(len(self)))
        return made | dict(zip(left, Weights.of_rows(to_law(scores[left])), strict=True))

    def row(self, number: int) -> Array:
        """Log probabilities (V,) of a row."""
        part = slice(self._begins[number], self._begins[number + 1])
        law = np.full(self.vocab_size, FLOOR)
        law[self._tokens[part]] += (self._roots[part] / 255) ** 2
        return np.log(normalise(law))

    def rewind(self, state: bytearray, length: int) -> None:
        """Keep the first ``length`` tokens."""
        check_rewind(len(state), length, self.reach)
        del state[length:]

    def copy(self, state: bytearray) -> bytearray:
        """A copy of the text."""
        return bytearray(state)

    def key(self, state: bytearray) -> Hashable:
        """The text held."""
        return bytes(state)


def pack(contexts: Sequence[bytes], laws: Array) -> dict[str, Array]:
    """The arrays of a table: ``laws`` (rows, V) after ``contexts``, each a byte a token.

    ``contexts`` and ``lengths`` spell the contexts; ``filled`` counts each row's entries; ``tokens`` and ``roots`` list them.
    """
    roots = np.round(np.sqrt(laws) * 255).astype(np.uint8)
    rows, tokens = np.nonzero(roots)
    return {
        "contexts": np.frombuffer(b"".join(contexts), np.uint8),
        "lengths": np.array([len(context) for context in contexts], np.uint8),
        "filled": np.bincount(rows, minlength=len(laws)).astype(np.uint8),
        "tokens": tokens.astype(np.uint8),
        "roots": roots[rows, tokens],
    }
