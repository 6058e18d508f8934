"""Trains a GPT-2-shaped character transformer on the docstrings of numpy and matplotlib.

Seeded: batch k depends on the seed and k alone, so a run that was broken off and resumed sees the same batches.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from tqdm import tqdm
from transformers import GPT2Config, GPT2LMHeadModel

from specdec.training.muon import Muon

CHECKPOINT_EVERY = 100
"""Steps between two checkpoints."""


@dataclass(frozen=True)
class Recipe:
    """Shape and schedule of one transformer. A step sees ``batch`` windows of ``context`` characters."""

    layers: int
    width: int
    heads: int
    steps: int
    stored: str = "float32"
    context: int = 256
    batch: int = 16
    seed: int = 0
    matrix_rate: float = 0.02
    other_rate: float = 3e-3


RECIPES = {
    "small": Recipe(layers=12, width=64, heads=4, steps=1500),
    "base": Recipe(layers=6, width=256, heads=8, steps=1200, stored="float16", batch=8),
    "draft": Recipe(layers=1, width=64, heads=4, steps=800),
}
"""The three transformers that the package ships."""


def network(recipe: Recipe, vocab_size: int) -> GPT2LMHeadModel:
    """An untrained network over ``vocab_size`` characters and the start token, whose id is ``vocab_size``."""
    torch.manual_seed(recipe.seed)
    config = GPT2Config(
        vocab_size=vocab_size + 1, bos_token_id=vocab_size, eos_token_id=vocab_size,
        n_positions=recipe.context, n_embd=recipe.width, n_layer=recipe.layers, n_head=recipe.heads,
        activation_function="relu", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        attn_implementation="sdpa",
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    for name, matrix in model.named_parameters():
        if ".h." in name and matrix.dim() == 2:  # GPT-2's fixed .02 is far too small at width 64
            deep = (2 * recipe.layers) ** -0.5 if "c_proj" in name else 1.0
            torch.nn.init.normal_(matrix, 0, deep * len(matrix) ** -0.5)
    return model


def windows(tokens: np.ndarray, starts: np.ndarray, context: int, start_token: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(inputs, targets), both (n, context): each window is fed the start token and all its characters but the last."""
    targets = tokens[starts[:, None] + np.arange(context)]
    inputs = np.concatenate([np.full((len(starts), 1), start_token), targets[:, :-1]], axis=1)
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def bits(model: GPT2LMHeadModel, tokens: np.ndarray, number: int = 256) -> np.ndarray:
    """Mean bits per character at each place (context,) of ``number`` windows spread evenly over a text."""
    context, start_token = model.config.n_positions, model.config.bos_token_id
    starts = np.linspace(0, len(tokens) - context, number).astype(int)
    rows = []
    with torch.no_grad():
        for some in np.array_split(starts, -(-number // 16)):
            inputs, targets = windows(tokens, some, context, start_token)
            logits = model(inputs, use_cache=False).logits[:, :, :start_token]
            rows.append(functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none"))
    return (torch.cat(rows).mean(0) / np.log(2)).numpy()


def schedule(step: int, steps: int) -> float:
    """The learning rate's factor: 30 steps up, level, and down to 0 over the last three fifths."""
    return min(1, (step + 1) / 30, (1 - step / steps) / 0.6)


def train(recipe: Recipe, tokens: np.ndarray, held_out: np.ndarray, vocab_size: int, checkpoint: Path) -> GPT2LMHeadModel:
    """The trained network. Resumes from ``checkpoint`` if it is there and of the same recipe; writes it as it goes."""
    model = network(recipe, vocab_size)
    inner = {name: matrix for name, matrix in model.named_parameters() if ".h." in name and matrix.dim() == 2}
    others = [weight for name, weight in model.named_parameters() if name not in inner]
    optimizers = [
        Muon(inner.values(), recipe.matrix_rate),
        torch.optim.AdamW(others, recipe.other_rate, betas=(0.9, 0.95), weight_decay=0.01),
    ]
    rates = [recipe.matrix_rate, recipe.other_rate]
    done = _resume(checkpoint, recipe, model, optimizers)
    progress = tqdm(range(done, recipe.steps), initial=done, total=recipe.steps, unit="step", mininterval=5)
    for step in progress:
        for optimizer, rate in zip(optimizers, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * schedule(step, recipe.steps)
        chosen = np.random.default_rng((recipe.seed, step)).integers(0, len(tokens) - recipe.context, recipe.batch)
        inputs, targets = windows(tokens, chosen, recipe.context, vocab_size)
        logits = model(inputs, use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % CHECKPOINT_EVERY == 0:
            _save(checkpoint, step + 1, recipe, model, optimizers)
            progress.set_postfix(held_out_bits=f"{bits(model, held_out, 32).mean():.3f}")
    return model.eval()


def _save(path: Path, step: int, recipe: Recipe, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
    """Write a checkpoint beside the old one, then put it in its place: a run broken off here loses nothing."""
    state = {
        "step": step, "recipe": asdict(recipe), "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
    }  # fmt: skip
    unfinished = path.with_suffix(".unfinished")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def _resume(path: Path, recipe: Recipe, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]) -> int:
    """Load a checkpoint into model and optimizers; the number of steps already done, 0 without one."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    if state["recipe"] != asdict(recipe):
        raise ValueError(f"{path} is a checkpoint of another recipe ({state['recipe']}): delete it, or choose another folder")
    model.load_state_dict(state["model"])
    for optimizer, held in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(held)
    return int(state["step"])
