"""One target pass over n positions: its time, the operations and bytes that it needs, and what calls alone cost."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from specdec.law import Array
from specdec.models.text import PRINTABLE, Vocabulary
from specdec.models.transformer import Transformer
from specdec.tuning import median_seconds

HELD = 128
"""Tokens in the cache when a pass begins."""


def random_transformer(layers: int, width: int, heads: int, window: int = 256, seed: int = 0) -> Transformer:
    """A transformer of random weights, for time alone: what it says means nothing, but it costs what a trained one costs."""
    generator = np.random.default_rng(seed)
    vocabulary = Vocabulary(PRINTABLE)

    def normal(*shape: int) -> Array:
        return (generator.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)

    weights = {"wte.weight": normal(len(vocabulary) + 1, width), "wpe.weight": normal(window, width)}
    inner = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width), "mlp.c_fc": (width, 4 * width),
             "mlp.c_proj": (4 * width, width)}  # fmt: skip
    for layer in range(layers):
        for name, shape in inner.items():
            weights[f"h.{layer}.{name}.weight"] = normal(*shape)
            weights[f"h.{layer}.{name}.bias"] = np.zeros(shape[1], np.float32)
    for norm in ("ln_f", *(f"h.{layer}.ln_{i}" for layer in range(layers) for i in (1, 2))):
        weights[f"{norm}.weight"], weights[f"{norm}.bias"] = np.ones(width, np.float32), np.zeros(width, np.float32)
    return Transformer(weights, heads, vocabulary)


def parameters(model: Transformer) -> int:
    """The numbers in the matrices that every pass reads: layers and unembedding, biases included."""
    return sum(matrix.size for layer in model.layers for matrix in layer) + model.width * model.vocab_size


def needs(model: Transformer, rows: int, held: int = HELD) -> dict[str, int]:
    """What a pass over ``rows`` positions behind ``held`` cached ones must do, by formula.

    ``operations``: two for each parameter and row, and two for each row, cached position and channel in both products of
    attention. ``weight_bytes``: each parameter read once. ``cache_bytes``: keys and values read up to each row's end, once.
    """
    depth, width, size = len(model.layers), model.width, 4
    seen = held + rows
    return {
        "operations": 2 * rows * parameters(model) + 4 * depth * width * sum(range(held + 1, seen + 1)),
        "weight_bytes": size * parameters(model),
        "cache_bytes": size * 2 * depth * width * seen,
    }


def time_passes(model: Transformer, rows: Sequence[int], repeats: int = 40) -> dict[int, float]:
    """Median seconds of a pass over each number of rows behind HELD cached tokens: as ``tuning.median_seconds`` does."""
    state = model.start()
    tokens = np.random.default_rng(0).integers(0, model.vocab_size, HELD + max(rows)).tolist()
    model.append(state, tokens[:HELD])

    def one(number: int) -> int:
        model.append(state, tokens[HELD : HELD + number])
        model.rewind(state, HELD)
        return 1

    return median_seconds({number: partial(one, number) for number in rows}, repeats)


def table(models: dict[str, Transformer], rows: Sequence[int], repeats: int = 40) -> dict[str, Any]:
    """For each model and number of rows: microseconds, v(n), what the pass needs, and the time of a pass of tiny width.

    ``calls_us`` is the time of a model of the same depth and heads, one channel a head: all of numpy's calls and the softmax,
    and hardly any other arithmetic.
    """
    out = {}
    for name, model in models.items():
        timed = time_passes(model, rows, repeats)
        calls = time_passes(random_transformer(len(model.layers), model.heads, model.heads), rows, repeats)
        out[name] = {
            "layers": len(model.layers), "width": model.width, "parameters": parameters(model),
            "rows": [
                {"n": n, "us": timed[n] * 1e6, "v": timed[n] / timed[rows[0]], "calls_us": calls[n] * 1e6, **needs(model, n)}
                for n in rows
            ],
        }  # fmt: skip
    return out
