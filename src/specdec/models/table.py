"""The exact tabular machine: a law for every context of a fixed number of last tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specdec.law import Array, check_law, is_exact
from specdec.models import check_tokens
from specdec.models.window import Window


class Table(Window):
    """A Markov model given by its rows, shape (V+1, …, V+1, V): one axis for each remembered token, then the law.

    ``rows`` of shape (V,) forget everything (order 0); shape (V+1, V) remember the last token, and so on. Index V along a
    context axis is the start token. Object dtype makes an exact model; float64 rows are returned as logits (their log).
    The state is the list of tokens held.
    """

    def __init__(self, rows: Array) -> None:
        if not isinstance(rows, np.ndarray) or rows.ndim == 0:
            raise ValueError(f"rows must be a numpy array of shape (V+1, …, V), not {rows!r}")
        self.vocab_size = rows.shape[-1]
        self.start_token = self.vocab_size
        self.order = self.window = rows.ndim - 1
        if rows.shape[:-1] != (self.vocab_size + 1,) * self.order:
            raise ValueError(f"rows have shape {rows.shape}: every context axis needs V+1 = {self.vocab_size + 1} entries")
        check_law(rows.reshape(-1, self.vocab_size), "table")
        self.rows = rows.copy()
        self.rows.flags.writeable = False  # every law that a reader takes from it is a view
        self.exact = is_exact(rows)
        with np.errstate(divide="ignore"):
            self._scores = self.rows if self.exact else np.log(self.rows)

    def append(self, state: list[int], tokens: Sequence[int]) -> Array:
        """Scores (n, V) after each token."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        scores = np.empty((len(tokens), self.vocab_size), dtype=self._scores.dtype)
        for i, token in enumerate(tokens):
            state.append(int(token))
            scores[i] = self._scores[self.context(state)]
        return scores

    def law_after(self, tokens: Sequence[int]) -> Array:
        """The law (V,) after the start token and ``tokens``, straight from the table."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        return self.rows[self.context([self.start_token, *tokens])]


def text_law(
    model: Table, length: int, prefix: tuple[int, ...] = ()
) -> dict[tuple[int, ...], Any]:
    """The model's autoregressive law of the next ``length`` tokens.

    By the chain rule: a product of its rows. This is what every decoder must
    reproduce, and it uses no decoding code.
    """
    law: dict[tuple[int, ...], Any] = {(): 1}
    for _ in range(length):
        law = {
            (*text, token): weight * row[token]
            for text, weight in law.items()
            for row in [model.law_after((*prefix, *text))]
            for token in np.flatnonzero(row).tolist()
        }
    return law
