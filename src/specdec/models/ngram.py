"""A character n-gram: next-token laws from counts, with Witten-Bell interpolation down to the uniform law.

Witten and Bell (1991), method C, in the recursive form of Chen and Goodman (1999): with c(h, x) the count of
x after the context h, c(h) their sum, d(h) the number of different x, and h' the context without its oldest
token,

    p(x | h) = (c(h, x) + d(h) p(x | h')) / (c(h) + d(h)),

p(x | h) = p(x | h') where h never occurs, and 1/V below the empty context. So no token has probability 0.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from specdec.law import Array, to_law
from specdec.models import LanguageModel, check_tokens
from specdec.models.text import Vocabulary
from specdec.models.window import Window


class NGram(Window):
    """An n-gram of n = ``order`` (1: unigram) trained on a text or its tokens; context: the last n-1 tokens.

    The text is padded on the left with start tokens, and so is a context that reaches back beyond the start.
    ``exact=True`` gives rows of Fractions from the same counts, for small alphabets. The last ``remembered``
    rows are kept for reuse. The state is the list of tokens held.
    """

    def __init__(
        self,
        text: str | Sequence[int],
        vocabulary: Vocabulary,
        order: int,
        exact: bool = False,
        remembered: int = 2**15,
    ) -> None:
        if not isinstance(order, int | np.integer):
            raise ValueError(f"order is {order!r}: it must be an integer")
        self.vocabulary, self.order, self.exact = vocabulary, int(order), exact  # numpy's would overflow in a power
        self.vocab_size, self.start_token = len(vocabulary), vocabulary.start_token
        self._base, self.window = self.vocab_size + 1, self.order - 1
        tokens = np.asarray(vocabulary.encode(text) if isinstance(text, str) else text)
        self._check(tokens)
        self._levels = _count(tokens.astype(np.int64), self._base, self.order)
        size = self.vocab_size
        self._uniform = np.full(size, Fraction(1, size)) if exact else np.full(size, 1 / size)
        self._row = lru_cache(remembered)(self._compute_row)

    def _check(self, tokens: Array) -> None:
        order, size = self.order, self.vocab_size
        if order < 1 or self._base**order >= 2**63:
            raise ValueError(f"order is {order}: it must be at least 1, and {self._base}^order below 2^63")
        if len(tokens) < order:
            raise ValueError(f"the text has {len(tokens)} tokens: order {order} needs at least {order}")
        if tokens.dtype.kind not in "iu" or tokens.min() < 0 or tokens.max() >= size:
            raise ValueError(
                f"training tokens must be integers from 0 to {size - 1}, without the start token"
            )

    def append(self, state: list[int], tokens: Sequence[int]) -> Array:
        """Scores (n, V) after each token: log probabilities, or exact ones."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        rows = np.empty((len(tokens), self.vocab_size), dtype=self._uniform.dtype)
        for i, token in enumerate(tokens):
            state.append(int(token))
            rows[i] = self._row(self.context(state))
        return rows if self.exact else np.log(rows)

    def feed(self, state: list[int], tokens: Sequence[int]) -> tuple[int, ...]:
        """Hold more tokens; the name of the row after them is the context."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        state += map(int, tokens)
        return self.context(state)

    def row(self, context: tuple[int, ...]) -> Array:
        """Scores (V,) in a context."""
        law = self._row(context)
        return law if self.exact else np.log(law)

    def law_after(self, tokens: Sequence[int]) -> Array:
        """The law (V,) after the start token and ``tokens``."""
        check_tokens(tokens, self.vocab_size, self.start_token)
        return self._row(self.context([self.start_token, *tokens])).copy()

    def _compute_row(self, context: tuple[int, ...]) -> Array:
        """The recursion above, on floats or Fractions."""
        lower = self._row(context[1:]) if context else self._uniform
        codes, counts = self._levels[len(context)]
        first = self._base * _code(context, self._base)
        begin, end = codes.searchsorted([first, first + self._base]).tolist()
        if begin == end:
            return lower
        total, distinct = int(counts[begin:end].sum()), end - begin
        row = distinct * lower
        row[codes[begin:end] - first] += counts[begin:end]
        return row / (total + distinct)


def _count(tokens: Array, base: int, order: int) -> list[tuple[Array, Array]]:
    """For each k = 1 to ``order``: the distinct k-grams that end at a token of the text, and their counts.

    A k-gram's code is the number whose digits in ``base`` V+1 are its tokens; codes of one context are
    neighbours.
    """
    padded = np.concatenate([np.full(order - 1, base - 1, dtype=np.int64), tokens])
    codes, levels = np.zeros(len(tokens), dtype=np.int64), []
    for k in range(1, order + 1):
        oldest = order - k
        codes = codes + padded[oldest : oldest + len(tokens)] * base ** (k - 1)
        levels.append(np.unique(codes, return_counts=True))
    return levels


def _code(context: tuple[int, ...], base: int) -> int:
    code = 0
    for token in context:
        code = code * base + token
    return code


def bits_per_character(model: LanguageModel, tokens: Sequence[int], chunk: int = 1024) -> float:
    """The mean of -log2 p over ``tokens``, fed from the start of text; inf if the model excludes one of them.

    It is the model's cross-entropy on the text: what an arithmetic coder would spend on a character, on
    average.
    """
    if len(tokens) == 0 or min(tokens) < 0 or max(tokens) >= model.vocab_size:
        raise ValueError(
            f"a text to score needs tokens, all from 0 to {model.vocab_size - 1} (no start token)"
        )
    state, fed, bits = model.start(), [model.start_token, *tokens[:-1]], 0.0
    for begin in range(0, len(tokens), chunk):
        laws = to_law(model.append(state, fed[begin : begin + chunk]))
        chosen = laws[np.arange(len(laws)), tokens[begin : begin + chunk]].astype(float)
        with np.errstate(divide="ignore"):
            bits -= float(np.log2(chosen).sum())
    return bits / len(tokens)
