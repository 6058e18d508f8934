"""A GPT-2-shaped character transformer in numpy: cached passes over one position and over several, for one text or a batch.

Radford et al. (2019), with ReLU. Three rewritings leave the function as it is and save work in every pass:

- Layer norm subtracts a row's mean. Whatever is added to the residual stream is centred once, at load, so every row of the
  stream has mean zero and only the division is left. Gain and bias move into the matrix behind (``fold``).
- One matrix makes queries, keys and values of all heads; the queries' factor 1/√(head width) is folded into it.
- Keys are kept as columns and values as rows, so no pass transposes a cache. A column of ones beside the values makes one
  product yield the weighted sum and the softmax's normaliser; a one beside each row makes it meet the bias in the matrix.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from specdec.law import Array
from specdec.models import check_rewind, check_tokens
from specdec.models.text import Vocabulary

EPSILON = 1e-5
"""GPT-2's layer norm adds this to the variance."""


class Cache:
    """What a state holds: the tokens, and keys and values of the last ``cached`` of them from ``first`` on."""

    def __init__(self, keys: Array, values: Array) -> None:
        self.tokens: list[int] = []
        self.first = self.cached = 0
        self.keys, self.values = keys, values

    def __len__(self) -> int:
        return len(self.tokens)


class Transformer:
    """A GPT-2 of ``weights`` (its own tensor names) with ``heads`` heads over the characters of ``vocabulary``.

    The last row of the embedding is the start token's, which is fed first and never predicted. Computed in float32; scores
    are float64 logits. ``reach`` is infinite.

    A window holds ``window`` tokens. Beyond that the text ends (``slides=False``: decoders stop, ``append`` raises
    ``ValueError``), or the window moves by half a context at lengths that are fixed beforehand, so that a row depends on
    the tokens before it and on nothing else (``window_start``).
    """

    exact = False
    reach = math.inf

    def __init__(self, weights: Mapping[str, Array], heads: int, vocabulary: Vocabulary, slides: bool = False) -> None:
        self.vocabulary, self.heads, self.slides = vocabulary, heads, slides
        self.vocab_size, self.start_token = len(vocabulary), vocabulary.start_token
        embedding = weights["wte.weight"]
        self.window, self.width = weights["wpe.weight"].shape
        self.capacity = math.inf if slides else self.window
        if len(embedding) != self.vocab_size + 1 or self.width % heads:
            raise ValueError(
                f"the embedding has {len(embedding)} rows of width {self.width}: {self.vocab_size} characters, a start token"
                f" and {heads} heads need {self.vocab_size + 1} rows of a width that {heads} divides"
            )
        if slides and (self.window < 2 or self.window % 2):
            raise ValueError(f"a window of {self.window} tokens can't slide by half: its length must be even")
        self.layers = fold(weights, heads)
        self._epsilon = np.float32(EPSILON * self.width)
        self._tokens, self._places = centred(embedding), centred(weights["wpe.weight"])
        unembedding = np.vstack([embedding[: self.vocab_size].T, np.zeros(self.vocab_size)])
        self._out = _float32(behind_norm(weights, "ln_f", unembedding))
        self._workspaces: dict[int, tuple[Array, Array, Array]] = {}
        self._mask = np.triu(np.full((self.window, self.window), -np.inf, np.float32), 1)

    # ---- the protocol ---------------------------------------------------------------------------------------------

    def start(self) -> Cache:
        """A state that holds nothing, with room for a whole window."""
        shape = (len(self.layers), self.heads)
        depth = self.width // self.heads
        keys = np.empty((*shape, depth, self.window), np.float32)
        return Cache(keys, np.ones((*shape, self.window, depth + 1), np.float32))

    def append(self, state: Cache, tokens: Sequence[int]) -> Array:
        """Logits (n, V) after each token."""
        self._check(state, tokens)
        if not self._fits(state, len(tokens)):
            return self._across(state, tokens)
        state.tokens += tokens
        rows = self._one(state, tokens[0])[None] if len(tokens) == 1 else self._many([state], [tokens])
        return rows.astype(np.float64)

    def rewind(self, state: Cache, length: int) -> None:
        """Forget what lies beyond ``length``; nothing is computed, unless that lies in an earlier window."""
        check_rewind(len(state), length, self.reach)
        del state.tokens[length:]
        state.cached = max(0, min(state.cached, length - state.first))

    def copy(self, state: Cache) -> Cache:
        """A copy with caches of its own."""
        copy = Cache(state.keys.copy(), state.values.copy())
        copy.tokens, copy.first, copy.cached = list(state.tokens), state.first, state.cached
        return copy

    def key(self, state: Cache) -> Hashable:
        """The tokens held, and every number in the cache."""
        held = slice(0, state.cached)
        numbers = state.keys[..., held].tobytes(), state.values[:, :, held].tobytes()
        return tuple(state.tokens), state.first, state.cached, *numbers

    # ---- windows --------------------------------------------------------------------------------------------------

    def window_start(self, length: int) -> int:
        """Where the window of the row behind ``length`` tokens begins: a multiple of half a window, by ``length`` alone."""
        hop = self.window // 2
        return hop * max(0, math.ceil((length - self.window) / hop))

    def append_batch(self, states: Sequence[Cache], tokens: Sequence[Sequence[int]]) -> list[Array]:
        """``append`` for several states in one pass: logits (n_i, V) for each, whatever their lengths."""
        for state, fed in zip(states, tokens, strict=True):
            self._check(state, fed)
        if all(self._fits(state, len(fed)) for state, fed in zip(states, tokens, strict=True)):
            for state, fed in zip(states, tokens, strict=True):
                state.tokens += fed
            rows = self._many(states, tokens).astype(np.float64)
            return np.split(rows, np.cumsum([len(fed) for fed in tokens])[:-1])
        return [self._across(state, fed) for state, fed in zip(states, tokens, strict=True)]

    def _check(self, state: Cache, tokens: Sequence[int]) -> None:
        check_tokens(tokens, self.vocab_size, self.start_token)
        if len(state) + len(tokens) > self.capacity:
            raise ValueError(
                f"{len(state)} tokens and {len(tokens)} more do not fit into the context of {self.window}: stop there,"
                " or build the model with slides=True"
            )

    def _fits(self, state: Cache, number: int) -> bool:
        """Whether the next tokens lie in the window that the cache is of, and all before them are cached.

        The same as ``window_start`` of all their lengths being ``first``, without its arithmetic.
        """
        inside = state.first + state.cached == len(state.tokens) and state.cached + number <= self.window
        return inside and (state.first == 0 or state.cached >= self.window // 2)

    def _across(self, state: Cache, tokens: Sequence[int]) -> Array:
        """Rows for tokens that begin a new window, or cross into one: each window's part is computed with its own start."""
        rows, done = [], 0
        while done < len(tokens):
            first = self.window_start(len(state) + 1)
            part = 1
            while done + part < len(tokens) and self.window_start(len(state) + part + 1) == first:
                part += 1
            if state.first != first:
                state.first, state.cached = first, 0
            state.tokens += tokens[done : done + part]
            inside = [self.start_token, *state.tokens[first + 1 :]] if first else state.tokens
            rows.append(self._many([state], [inside[state.cached :]])[-part:].astype(np.float64))
            done += part
        return np.concatenate(rows)

    # ---- the passes -----------------------------------------------------------------------------------------------

    def _one(self, state: Cache, token: int) -> Array:
        """Logits (V,) after one token: vectors against matrices, as fast as numpy lets us. The baseline's pass."""
        place, heads, width, epsilon = state.cached, self.heads, self.width, self._epsilon
        held, matmul, largest, exp, maximum = place + 1, np.matmul, np.maximum.reduce, np.exp, np.maximum
        normed, mixed, hidden = (row[0] for row in self._workspace(1))
        x_normed, x_mixed, x_hidden = normed[:width], mixed[:width].reshape(heads, 1, -1), hidden[:-1]
        x = self._tokens[token] + self._places[place]
        for (qkv, out, up, down), keys, values in zip(self.layers, state.keys, state.values, strict=True):
            np.multiply(x, 1 / sqrt(x.dot(x) + epsilon), out=x_normed)
            q, keys[:, :, place], values[:, place, :-1] = normed.dot(qkv).reshape(3, heads, -1)
            a = matmul(q[:, None], keys[:, :, :held])
            a -= largest(a, -1, keepdims=True)
            exp(a, out=a)
            a = matmul(a, values[:, :held])
            np.divide(a[..., :-1], a[..., -1:], out=x_mixed)
            x += mixed.dot(out)
            np.multiply(x, 1 / sqrt(x.dot(x) + epsilon), out=x_normed)
            maximum(normed.dot(up), 0, out=x_hidden)
            x += hidden.dot(down)
        state.cached = held
        np.multiply(x, 1 / sqrt(x.dot(x) + epsilon), out=x_normed)
        return normed.dot(self._out)

    def _many(self, states: Sequence[Cache], tokens: Sequence[Sequence[int]]) -> Array:
        """Logits (Σ n_i, V) after each of n_i tokens fed to each state.

        All rows share the matrices; only attention looks at one text at a time.
        """
        spans = _spans(states, tokens)
        x = self._tokens[[token for fed in tokens for token in fed]]
        x += self._places[[place for _, _, begin, end in spans for place in range(begin, end)]]
        normed, mixed, hidden = self._workspace(len(x))
        x_hidden = hidden[:, :-1]
        for layer, (qkv, out, up, down) in enumerate(self.layers):
            self._norm(x, normed)
            h = normed @ qkv
            for state, rows, begin, end in spans:
                self._attend(state.keys[layer], state.values[layer], h[rows], begin, end, mixed[rows])
            x += mixed @ out
            self._norm(x, normed)
            np.maximum(np.matmul(normed, up, out=x_hidden), 0, out=x_hidden)
            x += hidden @ down
        for state, _, _, end in spans:
            state.cached = end
        self._norm(x, normed)
        return normed @ self._out

    def _workspace(self, rows: int) -> tuple[Array, Array, Array]:
        """Arrays for normed rows, mixed values and hidden rows, each ending in a column of ones that meets the bias."""
        if rows not in self._workspaces:
            shapes = ((rows, self.width + 1), (rows, self.width + 1), (rows, len(self.layers[0][3])))
            normed, mixed, hidden = (np.ones(shape, np.float32) for shape in shapes)
            self._workspaces[rows] = normed, mixed, hidden
        return self._workspaces[rows]

    def _norm(self, x: Array, out: Array) -> None:
        """Layer norm of rows whose mean is zero, without gain and bias: they are in the matrix behind."""
        squares = np.vecdot(x, x)
        squares += self._epsilon
        np.divide(x, np.sqrt(squares, out=squares)[:, None], out=out[:, :-1])

    def _attend(self, keys: Array, values: Array, qkv: Array, begin: int, end: int, out: Array) -> None:
        """Attention of the positions ``begin`` to ``end`` of one text: caches their keys and values, writes into ``out``."""
        n, heads = end - begin, self.heads
        q, k, v = qkv.reshape(n, 3, heads, -1).transpose(1, 2, 0, 3)
        keys[:, :, begin:end], values[:, begin:end, :-1] = k.swapaxes(1, 2), v
        a = np.matmul(q, keys[:, :, :end])
        a[..., begin:] += self._mask[:n, :n]  # all before are seen
        a -= np.maximum.reduce(a, -1, keepdims=True)
        np.exp(a, out=a)
        a = np.matmul(a, values[:, :end])
        np.divide(a[..., :-1], a[..., -1:], out=out[:, :-1].reshape(n, heads, -1).swapaxes(0, 1))


# ---- folding ------------------------------------------------------------------------------------------------------

def fold(weights: Mapping[str, Array], heads: int) -> list[tuple[Array, ...]]:
    """Each layer's matrices (in + 1, out), norms folded in, biases as last rows: qkv, attention's output, up, down."""
    width = weights["wte.weight"].shape[1]
    queries = np.ones(3 * width)
    queries[:width] = (width // heads) ** -0.5

    def with_bias(name: str) -> Array:
        return np.vstack([weights[f"{name}.weight"].astype(np.float64), weights[f"{name}.bias"].astype(np.float64)])

    layers = []
    for layer in (f"h.{i}" for i in range(sum(name.endswith(".attn.c_attn.weight") for name in weights))):
        qkv = behind_norm(weights, f"{layer}.ln_1", with_bias(f"{layer}.attn.c_attn")) * queries
        out = centred(with_bias(f"{layer}.attn.c_proj"))
        up = behind_norm(weights, f"{layer}.ln_2", with_bias(f"{layer}.mlp.c_fc"))
        down = centred(with_bias(f"{layer}.mlp.c_proj"))
        layers.append(tuple(map(_float32, (qkv, out, up, down))))
    return layers


def behind_norm(weights: Mapping[str, Array], norm: str, matrix: Array) -> Array:
    """A matrix (width + 1, out) that takes (x / √(x·x + width ε), 1) instead of (layer norm of x, 1), for x of mean zero."""
    gain, shift = (weights[f"{norm}.{part}"].astype(np.float64) for part in ("weight", "bias"))
    return np.vstack([sqrt(len(gain)) * gain[:, None] * matrix[:-1], matrix[-1] + shift @ matrix[:-1]])


def centred(matrix: Array) -> Array:
    """Rows without their mean, as float32."""
    wide = matrix.astype(np.float64)
    return _float32(wide - wide.mean(axis=-1, keepdims=True))


def _float32(values: Array) -> Array:
    return np.ascontiguousarray(values, np.float32)


def _spans(states: Sequence[Cache], tokens: Sequence[Sequence[int]]) -> list[tuple[Any, slice, int, int]]:
    """For each state: itself, its rows among all rows, and the window's positions that they take."""
    spans, row = [], 0
    for state, fed in zip(states, tokens, strict=True):
        end = state.cached + len(fed)
        spans.append((state, slice(row, row + len(fed)), state.cached, end))
        row += len(fed)
    return spans
