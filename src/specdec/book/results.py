"""The record of ``python -m specdec.benchmark --json src/specdec/book/results.json`` that the pages show."""

import json
from pathlib import Path
from typing import Any

from specdec.benchmark import report, speed
from specdec.book.tables import ResultTable, table

FILE = Path(__file__).parent / "results.json"


def record() -> dict[str, Any]:
    """The figures by part: ``small``, ``base``, ``passes``, ``drafts``, ``processes``, ``hugging face``, ``compiled``."""
    return json.loads(FILE.read_text("utf-8"))


def machine(part: str) -> ResultTable:
    """What a part was measured on."""
    shown = report.machine(record()[part])
    return table(shown.header, shown.rows, f"{shown.title}: {part}")


def shown(part: str, number: int = 0) -> ResultTable:
    """One of the tables of a part, in the order in which the benchmark prints them."""
    figures = report.tables(part, record()[part])[number]
    return table(figures.header, figures.rows, figures.title)


def speed_row(target: str, rule: str, gamma: int | None = None) -> dict[str, Any]:
    """The figures of a rule at a γ, by default at its fastest."""
    return speed.best([row for row in record()[target]["rounds"] if gamma in (None, row["gamma"])], rule)


def wide() -> bool:
    """Whether the record was made with OpenBLAS's AVX-512 kernels."""
    kernels = [blas["kernels"] for blas in record()["small"]["machine"]["blas"]]
    return any(name.startswith(("Skylake", "Cooper", "Sapphire")) for name in kernels)


def small_bars() -> dict[str, float]:
    """The bars for the speedup on ``small`` with these kernels, by rule."""
    return {"strict": 2.0, "block": 2.1} if wide() else {"strict": 1.6, "block": 1.7}


def needed() -> ResultTable:
    """v(γ+1) as it was measured on ``small``, and the largest v at which a round could reach its rule's bar."""
    rows = []
    for row in record()["small"]["rounds"]:
        c, v = report.units(record()["small"], row["gamma"])
        count = row["tokens_per_round"]
        rows.append((row["rule"], row["gamma"], count, v, count / small_bars()[row["rule"]] - row["gamma"] * c))
    header = ("rule", "γ", "tokens a round", "v measured", "v at the bar")
    return table(header, rows, "What a pass may cost if small is to reach its bar")


def verdicts() -> ResultTable:
    """The bars that the book set itself for these kernels, beside the record."""
    best = {(target, rule): speed_row(target, rule) for target in ("small", "base") for rule in ("strict", "block")}
    base = max(best["base", rule]["speedup"]["median"] for rule in ("strict", "block"))
    seven = {rule: speed_row("small", rule, 7) for rule in ("strict", "block")}
    theirs = record()["hugging face"]
    asked = [
        ("speedup on small, strict", small_bars()["strict"], best["small", "strict"]["speedup"]["median"], 1),
        ("speedup on small, block", small_bars()["block"], best["small", "block"]["speedup"]["median"], 1),
        ("speedup on base, the better rule", 2.5 if wide() else None, base, 1),
        ("share of the ideal, small, strict, at its best γ", 0.95, best["small", "strict"]["ideal_share"], 1),
        ("share of the ideal, small, block, at its best γ", 0.92, best["small", "block"]["ideal_share"], 1),
        ("bookkeeping at γ = 7, strict", 0.05, seven["strict"]["bookkeeping"], -1),
        ("bookkeeping at γ = 7, block", 0.07, seven["block"]["bookkeeping"], -1),
        ("ours speculative over Hugging Face assisted", 8, theirs["speculative"]["median"], 1),
        ("ours plain over Hugging Face plain", 4, theirs["plain"]["median"], 1),
    ]
    rows = [
        (what, "no bar" if bar is None else f"{'≥' if sign > 0 else '≤'} {bar:g}", f"{value:.3g}",
         "–" if bar is None else "met" if sign * value >= sign * bar else "missed")
        for what, bar, value, sign in asked
    ]  # fmt: skip
    caption = f"The bars for {'AVX-512' if wide() else 'AVX2'} kernels, and the record"
    return table(("figure", "bar", "measured", "verdict"), rows, caption)
