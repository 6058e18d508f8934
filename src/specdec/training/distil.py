"""Distils a shipped transformer into an n-gram table: the mean of the target's laws after each context worth keeping."""

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import GPT2LMHeadModel

from specdec.law import overlap
from specdec.models import shipped
from specdec.models.distilled import Distilled, pack
from specdec.models.text import BOOK_HELD_OUT, Vocabulary, book_docstrings, split
from specdec.training import card
from specdec.training.transformer import windows

LONGEST = 8
"""Tokens in the longest context."""
READ_FROM = 32
"""A law counts from this place of a window on: before it the teacher knows too little of the text."""
SMALLEST_ROOT = 8
"""Entries below (8/255)², a thousandth, are dropped; ``models.distilled`` gives each token a floor."""


def text_windows(tokens: np.ndarray, context: int, start_token: int) -> torch.Tensor:
    """Windows (n, context) over the whole text, each beginning with the start token, whose counted parts meet."""
    starts = np.arange(0, len(tokens) - context, context - READ_FROM)
    return windows(tokens, starts, context, start_token)[0]


def sampled_windows(model: GPT2LMHeadModel, number: int, seed: int, batch: int = 64) -> torch.Tensor:
    """``number`` windows (number, context) of the teacher's own text at temperature 1, each from the start token."""
    torch.manual_seed(seed)
    context, start_token = model.config.n_positions, model.config.bos_token_id
    first = torch.full((batch, 1), start_token)
    drawn = {"do_sample": True, "top_k": 0, "max_new_tokens": context - 1, "suppress_tokens": [start_token]}
    batches = tqdm(range(-(-number // batch)), unit="batch", desc="sampling")
    return torch.cat([model.generate(first, attention_mask=torch.ones_like(first), **drawn) for _ in batches])[:number]


def teacher_laws(model: GPT2LMHeadModel, inputs: torch.Tensor, batch: int = 16) -> np.ndarray:
    """The teacher's laws (n, context - READ_FROM, V) at the counted places of windows, as float16."""
    start_token = model.config.bos_token_id
    rows = []
    with torch.no_grad():
        for some in tqdm(inputs.split(batch), unit="batch", desc="teacher"):
            logits = model(some, use_cache=False).logits[:, READ_FROM:, :start_token]
            rows.append(torch.softmax(logits, -1).half().numpy())
    return np.concatenate(rows)


def mean_laws(inputs: np.ndarray, laws: np.ndarray, length: int, least: float) -> tuple[np.ndarray, ...]:
    """The contexts of ``length`` tokens that stand before ``least`` counted places or more: tokens, counts, mean laws."""
    flat = laws.reshape(-1, laws.shape[-1])
    if length == 0:
        return np.empty((1, 0), np.uint8), np.array([len(flat)]), flat.mean(0, dtype=np.float64)[None]
    unsigned = inputs.astype(np.uint64)  # with signed ones numpy would multiply floats, which hold six tokens only
    views = np.lib.stride_tricks.sliding_window_view(unsigned, length, axis=1)[:, READ_FROM - length + 1 :]
    codes = views @ 256 ** np.arange(length, dtype=np.uint64)[::-1]
    _, first, group, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    frequent = np.flatnonzero(counts >= least)
    places = np.argsort(group.ravel(), kind="stable")
    places = places[np.isin(group.ravel()[places], frequent, kind="table")]
    begins = np.concatenate([[0], np.cumsum(counts[frequent])])
    means = np.empty((len(frequent), flat.shape[1]), np.float32)
    for a in range(0, len(frequent), 5_000):  # in parts, as the laws in float32 would not fit
        b = min(a + 5_000, len(frequent))
        part = flat[places[begins[a] : begins[b]]].astype(np.float32)
        means[a:b] = np.add.reduceat(part, begins[a:b] - begins[a], axis=0)
    contexts = views.reshape(-1, length)[first[frequent]].astype(np.uint8)
    return contexts, counts[frequent], means / counts[frequent, None]


def kept_rows(inputs: np.ndarray, laws: np.ndarray, gain: float) -> Iterator[tuple[bytes, np.ndarray]]:
    """The contexts worth their row, shortest first, with their laws.

    A row is worth count x TV(its law, the law of its longest kept suffix): the proposals that it saves from rejection on the
    text read. Rows below ``gain`` are left out.
    """
    kept: dict[bytes, np.ndarray] = {}
    for length in range(LONGEST + 1):
        for row, count, mean in zip(*mean_laws(inputs, laws, length, least=gain), strict=True):  # since TV is at most 1
            context, law = row.tobytes(), mean / mean.sum()
            suffix = context[1:]
            while length and suffix not in kept:
                suffix = suffix[1:]
            if not length or count * np.abs(law - kept[suffix]).sum() / 2 >= gain:
                kept[context] = law
    yield from kept.items()


def distil(model: GPT2LMHeadModel, tokens: np.ndarray, gain: float) -> dict[str, np.ndarray]:
    """The arrays of a ``Distilled`` table from the teacher's laws on a text (tokens,)."""
    inputs = text_windows(tokens, model.config.n_positions, model.config.bos_token_id)
    contexts, laws = zip(*kept_rows(inputs.numpy(), teacher_laws(model, inputs), gain), strict=True)
    rows = np.array(laws)
    rows[np.round(np.sqrt(rows) * 255) < SMALLEST_ROOT] = 0
    return pack(contexts, rows)


def acceptance(model: GPT2LMHeadModel, table: Distilled, inputs: torch.Tensor) -> float:
    """The mean of alpha = Σ min(p, q) over the counted places of windows."""
    laws = teacher_laws(model, inputs).astype(np.float64)
    laws /= laws.sum(axis=-1, keepdims=True)
    alphas = [
        overlap(p, np.exp(table.append(table.start(), text))[READ_FROM:]).mean()
        for p, text in zip(laws, inputs.tolist(), strict=True)
    ]
    return float(np.mean(alphas))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command ``distil``."""
    parser.add_argument("target", help="the shipped transformer to distil; the folder is called TARGET-ngram")
    parser.add_argument("--output", type=Path, default=shipped.FOLDER, help="where the folder goes (default: %(default)s)")
    parser.add_argument("--gain", type=float, default=8.0, help="what a row must be worth (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="torch's threads (default: %(default)s)")


def run(args: argparse.Namespace) -> None:
    """Distil, measure alpha, write the folder, and print its card."""
    torch.set_num_threads(args.threads)
    target = shipped.card(args.target)
    vocabulary = Vocabulary(target["vocabulary"]["symbols"])
    model = GPT2LMHeadModel.from_pretrained(shipped.FOLDER / args.target, dtype=torch.float32, local_files_only=True).eval()
    texts = split(book_docstrings(), BOOK_HELD_OUT)
    training = np.array(vocabulary.encode(texts[0]))
    arrays = distil(model, training, args.gain)
    print(json.dumps(export(args.output, target, model, arrays, args.gain, texts), indent=2))


def export(
    output: Path, target: dict[str, Any], model: GPT2LMHeadModel, arrays: dict[str, np.ndarray], gain: float,
    texts: tuple[str, str],
) -> dict[str, object]:  # fmt: skip
    """Measure alpha and write the folder of a table distilled from the first of two texts, the second held out; return its card.

    The files are put in place only when ``shipped.load`` accepts them.
    """
    vocabulary = Vocabulary(target["vocabulary"]["symbols"])
    held_out, table = np.array(vocabulary.encode(texts[1])), Distilled(arrays, vocabulary)
    read, own = text_windows(held_out, model.config.n_positions, len(vocabulary)), sampled_windows(model, 64, seed=2)

    folder = output / f"{target['name']}-ngram"
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(unfinished / shipped.TABLE, allow_pickle=False, **arrays)
    facts: dict[str, object] = {
        "kind": "distilled n-gram",
        "name": folder.name,
        "target": {"name": target["name"], "sha256": target["sha256"][shipped.WEIGHTS]},
        "rows": len(table),
        "rows_by_context_length": np.bincount(arrays["lengths"]).tolist(),
        "entries": len(arrays["tokens"]),
        "vocabulary": card.vocabulary(vocabulary),
        "text": card.text(*texts),
        "distilling": {"gain": gain, "longest": LONGEST, "read_from": READ_FROM, "smallest_root": SMALLEST_ROOT},
        "alpha": {
            "held_out": round(acceptance(model, table, read[::12]), 4),
            "own_text": round(acceptance(model, table, own), 4),
            "how": f"mean of Σ min(p, q) at temperature 1 over the places from {READ_FROM} on of windows of"
            f" {model.config.n_positions}: every twelfth of the held-out text, and 64 that the target drew itself",
        },
        "sha256": {shipped.TABLE: card.digest((unfinished / shipped.TABLE).read_bytes())},
    }
    (unfinished / shipped.CARD).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    shipped.load(unfinished)
    folder.mkdir(exist_ok=True)
    for file in (shipped.TABLE, shipped.CARD):
        os.replace(unfinished / file, folder / file)
    shutil.rmtree(unfinished)
    return facts
