"""Trains a transformer by its recipe and writes the folder that the package ships.

The folder holds ``config.json``, ``model.safetensors`` and ``card.json``. Tensors have the names of OpenAI's gpt2, so
``GPT2LMHeadModel.from_pretrained(folder)`` loads it as it is.
"""

import argparse
import json
import os
import platform
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import save
from transformers import GPT2LMHeadModel

from specdec.models import shipped
from specdec.models.text import BOOK_HELD_OUT, PRINTABLE, Vocabulary, book_docstrings, split
from specdec.training import card
from specdec.training.transformer import RECIPES, Recipe, bits, train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command ``transformer``."""
    parser.add_argument("name", choices=RECIPES, help="the recipe, and the folder's name")
    parser.add_argument("--output", type=Path, default=shipped.FOLDER, help="where the folder goes (default: %(default)s)")
    parser.add_argument(
        "--work", type=Path, default=Path("_build/training"), help="where checkpoints lie; a run resumes from its own"
    )
    parser.add_argument("--steps", type=int, help="train for another number of steps than the recipe's")
    parser.add_argument("--threads", type=int, default=2, help="torch's threads (default: %(default)s)")


def run(args: argparse.Namespace) -> None:
    """Train, or take a finished checkpoint, then export and print the card."""
    torch.set_num_threads(args.threads)
    recipe = RECIPES[args.name] if args.steps is None else replace(RECIPES[args.name], steps=args.steps)
    vocabulary, texts = Vocabulary(PRINTABLE), split(book_docstrings(), BOOK_HELD_OUT)
    training, held_out = (np.array(vocabulary.encode(text)) for text in texts)
    args.work.mkdir(parents=True, exist_ok=True)
    model = train(recipe, training, held_out, len(vocabulary), args.work / f"{args.name}.checkpoint")
    print(json.dumps(export(args.output / args.name, recipe, model, vocabulary, texts), indent=2))


def export(
    folder: Path, recipe: Recipe, model: GPT2LMHeadModel, vocabulary: Vocabulary, texts: tuple[str, str]
) -> dict[str, object]:
    """Write the folder of a model trained on the first of two texts, the second held out; return its card.

    The files are put in place only when all are complete and ``shipped.load`` accepts them. Bits are measured with torch
    in float32, on the weights as they are stored.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    model.config.dtype, model.config.architectures = "float32", ["GPT2LMHeadModel"]  # computed in float32, however stored
    model.config.save_pretrained(unfinished)
    tensors = {
        name.removeprefix("transformer."): weight.detach().numpy().astype(recipe.stored)
        for name, weight in model.named_parameters()
    }
    content = save(tensors, metadata={"format": "pt"})
    (unfinished / shipped.WEIGHTS).write_bytes(content)

    stored = GPT2LMHeadModel.from_pretrained(unfinished, dtype=torch.float32, local_files_only=True)
    held_out = np.array(vocabulary.encode(texts[1]))
    by_place = bits(stored, held_out, len(held_out) // recipe.context)
    facts: dict[str, object] = {
        "kind": "transformer",
        "name": folder.name,
        "architecture": {
            "layers": recipe.layers, "width": recipe.width, "heads": recipe.heads, "context": recipe.context,
            "activation": "relu", "parameters": sum(tensor.size for tensor in tensors.values()), "stored": recipe.stored,
        },
        "vocabulary": card.vocabulary(vocabulary),
        "text": card.text(*texts),
        "training": {
            "recipe": asdict(recipe),
            "characters_seen": recipe.steps * recipe.batch * recipe.context,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "bits_per_character": {
            "held_out": round(float(by_place.mean()), 4),
            "held_out_late": round(float(by_place[recipe.context // 2 :].mean()), 4),
            **card.comparisons(*texts, vocabulary),
            "how": {
                "held_out": f"all places of windows of {recipe.context} that cover the held-out text, each after a start token;"
                " torch, float32, from the stored weights",
                "held_out_late": "the second half of each window's places",
                **card.HOW_COMPARED,
            },
        },
        "sha256": {shipped.WEIGHTS: card.digest(content)},
    }  # fmt: skip
    (unfinished / shipped.CARD).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")

    shipped.load(unfinished)
    folder.mkdir(exist_ok=True)
    for file in (shipped.CONFIG, shipped.WEIGHTS, shipped.CARD):
        os.replace(unfinished / file, folder / file)
    shutil.rmtree(unfinished)
    return facts
