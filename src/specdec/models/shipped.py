"""Loads the models that the package ships, and others in folders of the same form; refuses a faulty file by name.

A folder holds ``card.json`` (what the model is, written by ``specdec.training``) and what the card's ``kind`` needs: a
transformer has Hugging Face's ``config.json`` and ``model.safetensors``, under the tensor names of OpenAI's gpt2; a distilled
n-gram has ``table.npz``.
"""

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from specdec.law import Array
from specdec.models.distilled import Distilled
from specdec.models.text import Vocabulary
from specdec.models.transformer import EPSILON, Transformer

FOLDER = Path(__file__).parent / "weights"
"""Where the shipped models lie, one folder each."""

CARD, CONFIG, WEIGHTS, TABLE = "card.json", "config.json", "model.safetensors", "table.npz"
KINDS = ("transformer", "distilled n-gram")


def names() -> list[str]:
    """The shipped models."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}") if path.parent.suffix != ".unfinished")


def card(model: str | Path) -> dict[str, Any]:
    """The card of a shipped model (a name) or of a folder (a Path).

    ``ValueError`` names the file and the fault, or lists the names there are.
    """
    folder = _folder(model)
    if isinstance(model, str) and not folder.is_dir():
        raise ValueError(f"no model is called {model!r}: there are {', '.join(names()) or 'none yet'}; give a folder as a Path")
    try:
        facts = json.loads(_read(folder, CARD))
        kind, name = facts["kind"], facts["name"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise _refusal(folder, CARD, f"no card: {error!r}") from None
    if kind not in KINDS:
        raise _refusal(folder, CARD, f"is of the unknown kind {kind!r}")
    if isinstance(model, str) and name != model:
        raise _refusal(folder, CARD, f"is the card of {name!r}")
    return facts


def _folder(model: str | Path) -> Path:
    return FOLDER / model if isinstance(model, str) else model


def load(model: str | Path, slides: bool = False) -> Transformer | Distilled:
    """A shipped model by its name, or one in a folder given as a Path; ``slides`` as in ``Transformer``.

    ``ValueError`` names the first file with a fault, the fault and the remedy: nothing is computed with a wrong weight.
    """
    facts, folder = card(model), _folder(model)
    return _transformer(facts, folder, slides) if facts["kind"] == "transformer" else _distilled(facts, folder)


def _distilled(facts: dict[str, Any], folder: Path) -> Distilled:
    try:
        vocabulary, digest = Vocabulary(facts["vocabulary"]["symbols"]), facts["sha256"][TABLE]
    except (KeyError, TypeError, ValueError) as error:
        raise _refusal(folder, CARD, f"describes no distilled n-gram: {error!r}") from None
    content = _content(folder, TABLE, digest)
    try:
        return Distilled(np.load(io.BytesIO(content), allow_pickle=False), vocabulary)
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise _refusal(folder, TABLE, f"no table: {error!r}") from None


def _transformer(facts: dict[str, Any], folder: Path, slides: bool) -> Transformer:
    try:
        layers, width, heads, context = (facts["architecture"][key] for key in ("layers", "width", "heads", "context"))
        stored, digest = facts["architecture"]["stored"], facts["sha256"][WEIGHTS]
        symbols, start_token = facts["vocabulary"]["symbols"], facts["vocabulary"]["start_token"]
        vocabulary = Vocabulary(symbols)
        if min(layers, width, heads, context) < 1 or width % heads or start_token != len(symbols):
            raise ValueError(f"{layers=}, {width=}, {heads=}, {context=}, {start_token=} of {len(symbols)} symbols")
    except (KeyError, TypeError, ValueError) as error:
        raise _refusal(folder, CARD, f"describes no transformer: {error!r}") from None
    _check_config(folder, layers, width, heads, context, len(symbols) + 1)
    weights = _tensors(folder, digest)
    shapes = _shapes(layers, width, context, len(symbols) + 1)
    if weights.keys() != shapes.keys():
        missing, extra = sorted(shapes.keys() - weights.keys()), sorted(weights.keys() - shapes.keys())
        raise _refusal(folder, WEIGHTS, f"lacks the tensors {missing} and has {extra} too many")
    for name, tensor in weights.items():
        if tensor.shape != shapes[name] or tensor.dtype != stored:
            fault = f"{name} is {tensor.dtype} {tensor.shape}, the card says {stored} {shapes[name]}"
            raise _refusal(folder, WEIGHTS, fault)
        if not np.isfinite(tensor).all():
            raise _refusal(folder, WEIGHTS, f"{name} holds {np.sum(~np.isfinite(tensor))} values that are no finite number")
    return Transformer(weights, heads, vocabulary, slides)


def _check_config(folder: Path, layers: int, width: int, heads: int, context: int, rows: int) -> None:
    """Refuse a config that is not the card's, or of another function than ``Transformer`` computes."""
    expected = {
        "model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": context,
        "vocab_size": rows, "n_inner": None, "activation_function": "relu", "layer_norm_epsilon": EPSILON,
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "tie_word_embeddings": True,
    }  # fmt: skip
    try:
        config = json.loads(_read(folder, CONFIG))
        found = {key: config[key] for key in expected}
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise _refusal(folder, CONFIG, f"no config of a GPT-2: {error!r}") from None
    for key, value in expected.items():
        if found[key] != value:
            raise _refusal(folder, CONFIG, f"{key} is {found[key]!r}, the card and this code say {value!r}")


def _content(folder: Path, file: str, digest: str) -> bytes:
    """The bytes of a file, if they are those that the card's SHA-256 is of."""
    content = _read(folder, file)
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        said = f"{len(content)} bytes with the SHA-256 {found[:12]}…, the card says {str(digest)[:12]}…"
        raise _refusal(folder, file, f"{said}: truncated, changed or another model's")
    return content


def _tensors(folder: Path, digest: str) -> dict[str, Array]:
    """The tensors by name."""
    content = _content(folder, WEIGHTS, digest)
    try:
        return safetensors.numpy.load(content)
    except safetensors.SafetensorError as error:
        raise _refusal(folder, WEIGHTS, f"no safetensors file: {error}") from None


def _shapes(layers: int, width: int, context: int, rows: int) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a GPT-2."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (rows, width), "wpe.weight": (context, width)}
    norms = [f"h.{layer}.ln_{i}" for layer in range(layers) for i in (1, 2)]
    matrices = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
    for norm in (*norms, "ln_f"):
        shapes |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    for layer in range(layers):
        for name, (into, out) in matrices.items():
            shapes[f"h.{layer}.{name}.weight"] = (into * width, out * width)
            shapes[f"h.{layer}.{name}.bias"] = (out * width,)
    return shapes


def _read(folder: Path, file: str) -> bytes:
    try:
        return (folder / file).read_bytes()
    except OSError as error:
        raise _refusal(folder, file, f"cannot be read ({error.strerror})") from None


def _refusal(folder: Path, file: str, fault: str) -> ValueError:
    command = "distil" if folder.name.endswith("-ngram") else "transformer"
    remedy = f"restore the file, or train it again: python -m specdec.training {command} {folder.name.removesuffix('-ngram')}"
    return ValueError(f"{folder / file}: {fault}; {remedy}")
