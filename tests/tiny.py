"""A transformer small enough to store: its weights, a text, torch's logits on it, and GPT-2 written down plainly in float64."""

import hashlib
import json
from pathlib import Path

import numpy as np
import safetensors.numpy

from specdec.models.text import Vocabulary

REFERENCE = Path(__file__).parent / "reference" / "logits" / "tiny.npz"
HEADS, LAYERS, WIDTH, CONTEXT = 2, 2, 16, 24
VOCABULARY = Vocabulary("abcdefghij")
CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "dtype": "float32", "vocab_size": 11, "n_positions": CONTEXT,
    "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": None, "activation_function": "relu",
    "layer_norm_epsilon": 1e-5, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": True, "bos_token_id": 10, "eos_token_id": 10, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
}  # fmt: skip


def random_weights(seed=0):
    """Weights at which every part matters: gains and biases too, and layer norms far from their defaults."""
    draw = np.random.default_rng(seed).normal
    weights = {"wte.weight": draw(0, 1, (11, WIDTH)), "wpe.weight": draw(0, 1, (CONTEXT, WIDTH))}
    for norm in [f"h.{layer}.ln_{i}" for layer in range(LAYERS) for i in (1, 2)] + ["ln_f"]:
        weights |= {f"{norm}.weight": draw(1, 0.3, WIDTH), f"{norm}.bias": draw(0, 0.3, WIDTH)}
    for layer in range(LAYERS):
        for name, into, out in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            weights[f"h.{layer}.{name}.weight"] = draw(0, (into * WIDTH) ** -0.5, (into * WIDTH, out * WIDTH))
            weights[f"h.{layer}.{name}.bias"] = draw(0, 0.3, out * WIDTH)
    return {name: np.float32(values) for name, values in weights.items()}


def stored():
    """(weights, tokens (24,), torch's logits (24, 11)), as the reference file holds them."""
    with np.load(REFERENCE) as arrays:
        weights = {name: arrays[name] for name in arrays.files if name not in ("tokens", "logits")}
        return weights, arrays["tokens"].tolist(), arrays["logits"]


def textbook(weights, heads, tokens):
    """GPT-2 as published, with ReLU, in float64: logits (n, V + 1) of one whole pass, without a cache."""
    weights = {name: np.float64(values) for name, values in weights.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    n = len(tokens)
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:n]
    for layer in range(sum(name.endswith("c_attn.bias") for name in weights)):
        q, k, v = (
            part.reshape(n, heads, -1).swapaxes(0, 1)
            for part in np.split(linear(norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn.c_attn"), 3, axis=-1)
        )
        a = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]) + np.triu(np.full((n, n), -np.inf), 1)
        a = np.exp(a - a.max(-1, keepdims=True))
        mixed = (a / a.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(n, -1)
        x = x + linear(mixed, f"h.{layer}.attn.c_proj")
        x = x + linear(np.maximum(linear(norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc"), 0), f"h.{layer}.mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def digest(folder):
    """The SHA-256 of the folder's weight file."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def write(folder, weights, card=(), config=()):
    """Write the folder of a shipped transformer, with some entries of card and config replaced; return it."""
    folder.mkdir(exist_ok=True)
    safetensors.numpy.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    architecture = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": CONTEXT, "stored": "float32"}
    facts = {
        "kind": "transformer", "name": folder.name, "architecture": architecture,
        "vocabulary": {"symbols": VOCABULARY.symbols, "start_token": 10},
        "sha256": {"model.safetensors": digest(folder)},
    }  # fmt: skip
    (folder / "card.json").write_text(json.dumps(facts | dict(card)), "utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(config)), "utf-8")
    return folder
