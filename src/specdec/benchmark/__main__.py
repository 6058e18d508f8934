"""``python -m specdec.benchmark``: measure this machine, print the figures as tables, write them as JSON."""

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from specdec import processes
from specdec.benchmark import machine, passes, report, speed
from specdec.decoding import Speculative, Stop
from specdec.models import shipped
from specdec.models.ngram import NGram
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.text import BOOK_HELD_OUT, PRINTABLE, Vocabulary, book_docstrings, split

GAMMAS = (3, 5, 7, 11, 15)
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32)


def small(turns: int) -> dict[str, Any]:
    """Speed of the target ``small``."""
    return speed.compare(shipped.load("small"), shipped.load("small-ngram"), GAMMAS, turns)


def base(turns: int) -> dict[str, Any]:
    """Speed of the target ``base``."""
    return speed.compare(shipped.load("base"), shipped.load("base-ngram"), (3, 7, 11), turns)


def drafts(turns: int) -> dict[str, Any]:
    """``small`` with each draft, at the γ that suits it best among a few, strict verification."""
    vocabulary, target = Vocabulary(PRINTABLE), shipped.load("small")
    text = split(book_docstrings(), BOOK_HELD_OUT)[0]
    made = {
        "distilled n-gram": shipped.load("small-ngram"),
        "Witten-Bell 5-gram": NGram(text, vocabulary, 5),
        "one-layer transformer": shipped.load("draft"),
        "prompt lookup": PromptLookup(len(vocabulary)),
    }
    out: dict[str, Any] = {}
    for name, draft in made.items():
        result = speed.compare(target, draft, (1, 2, 3, 5, 7), turns, rules=("strict",))
        out[name] = {**speed.best(result["rounds"], "strict"), "draft_step_us": result["costs"]["draft_step_us"]}
    return out


def pass_times(turns: int) -> dict[str, Any]:
    """Passes of random models in the shapes of both targets, and of one that no cache holds."""
    shapes = {"small's shape, 12 x 64": (12, 64, 4), "base's shape, 6 x 256": (6, 256, 8), "8 x 512": (8, 512, 8)}
    return passes.table({name: passes.random_transformer(*shape) for name, shape in shapes.items()}, ROWS, repeats=turns)


def hugging_face(turns: int) -> dict[str, Any]:
    """Hugging Face transformers on the same weights."""
    from specdec.benchmark import huggingface

    return huggingface.compare("small", "draft", turns)


def compiled(turns: int) -> dict[str, Any]:
    """A plain loop in torch on the same weights."""
    from specdec.benchmark import compiled

    return {name: compiled.compare(name, f"{name}-ngram", 7, turns) for name in ("small", "base")}


def in_two_processes(turns: int) -> dict[str, Any]:
    """Draft and target of ``small`` in two processes, in step and ahead, at γ = 5."""
    target, prompts = shipped.load("small"), speed.prompts(turns)
    alone = Speculative(target, shipped.load("small-ngram"), 5, stop=Stop(length=speed.LENGTH))
    forms = processes.measure(alone, partial(shipped.load, "small-ngram"), prompts)
    return {form: {kind: None if isnan(value) else value for kind, value in facts.items()} for form, facts in forms.items()}


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "small": small, "base": base, "passes": pass_times, "drafts": drafts, "processes": in_two_processes,
    "hugging face": hugging_face, "compiled": compiled,
}  # fmt: skip
NEED_TORCH = ("hugging face", "compiled")


def main() -> None:
    """Run the chosen parts one after the other and keep what is done, should a later one fail."""
    parser = argparse.ArgumentParser(prog="python -m specdec.benchmark", description=__doc__)
    parser.add_argument("--turns", type=int, default=30, help="turns of every comparison (default 30; 20 or more for a record)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=f"among {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, help="write the figures here; parts that are there already and not run again stay")
    arguments = parser.parse_args()
    found = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    with threadpool_limits(1):
        for name in arguments.only:
            try:
                figures = PARTS[name](arguments.turns)
            except ModuleNotFoundError as missing:
                if name not in NEED_TORCH:
                    raise
                print(f"\n{name}: left out, {missing.name} is not installed: pip install 'specdec[training]'")
                continue
            found[name] = {"machine": machine.describe(), "turns": arguments.turns, **figures}
            print("", report.machine(found[name]), *report.tables(name, found[name]), sep="\n\n", flush=True)
            if arguments.json:
                unfinished = arguments.json.with_suffix(".unfinished")
                unfinished.write_text(json.dumps(found, indent=1) + "\n")
                os.replace(unfinished, arguments.json)


if __name__ == "__main__":
    main()
