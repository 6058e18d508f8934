"""The benchmark's figures as tables: what the command prints and the book's page of results shows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Columns:
    """One table: a title, a header, and rows of texts and numbers."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def __str__(self) -> str:
        cells = [self.header, *(tuple(map(str, row)) for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join([self.title, *lines])


def ratio(figure: dict[str, Any]) -> str:
    """Median and quartiles of a speedup."""
    return f"{figure['median']:.2f} ({figure['low']:.2f} to {figure['high']:.2f})"


def machine(figures: dict[str, Any]) -> Columns:
    """What a part was measured on."""
    facts = figures["machine"]
    blas = "; ".join(f"{b['library']} {b['version']}, {b['kernels']} kernels, threads: {b['threads']}" for b in facts["blas"])
    versions = ", ".join(f"{name} {version}" for name, version in {"Python": facts["python"], **facts["versions"]}.items())
    rows = [
        ("processor", f"{facts['processor']}, {facts['cores']} cores"), ("BLAS", blas),
        ("OPENBLAS_CORETYPE", facts["OPENBLAS_CORETYPE"]), ("versions", versions), ("date", facts["date"]),
        ("turns", figures["turns"]),
    ]  # fmt: skip
    return Columns("Measured on", ("what", "value"), rows)


def units(figures: dict[str, Any], gamma: int) -> tuple[float, float]:
    """(c, v(γ+1)) of a target's part, in units of the baseline's time a token."""
    costs, token = figures["costs"], figures["microseconds_per_token"][figures["baseline"]]
    return costs["draft_step_us"] / token, costs["pass_us"][str(gamma + 1)] / token


def predicted(figures: dict[str, Any], row: dict[str, Any]) -> float:
    """E[K] / (γc + v(γ+1)) from measured figures."""
    c, v = units(figures, row["gamma"])
    return float(row["tokens_per_round"] / (row["gamma"] * c + v))


def speed(name: str, figures: dict[str, Any]) -> Iterator[Columns]:
    """The two tables of a target: speed, and counts."""
    per_token = figures["microseconds_per_token"]
    plain = ", ".join(f"{arm} {per_token[arm]:.0f}" for arm in ("plain loop", "autoregressive") if arm in per_token)
    rows = [
        (row["rule"], row["gamma"], ratio(row["speedup"]), f"{predicted(figures, row):.2f}", f"{row['ideal_share']:.3f}",
         f"{row['bookkeeping']:.3f}", f"{row['ledger_share']:.3f}")
        for row in figures["rounds"]
    ]  # fmt: skip
    yield Columns(
        f"Target {name}: speedup over the {figures['baseline']} (µs a token: {plain})",
        ("rule", "γ", "speedup: median (quartiles)", "predicted", "share of ideal", "bookkeeping", "ledger / clock"), rows,
    )  # fmt: skip
    counts = [
        (row["rule"], row["gamma"], f"{row['tokens_per_round']:.3f}", f"{row['iid_prediction']:.3f}",
         f"{row['sum_of_positions']:.3f}", f"{row['alpha']:.3f}", f"{row['wasted_rows']:.3f}",
         "\u00a0".join("–" if a is None else f"{a:.2f}" for a in row["acceptance_by_position"]))
        for row in figures["rounds"]
    ]  # fmt: skip
    header = (
        "rule", "γ", "tokens a round", "iid prediction", "1 + Σ by position", "accepted", "wasted rows", "acceptance by position",
    )  # fmt: skip
    yield Columns(f"Target {name}: counts", header, counts)


def passes(name: str, figures: dict[str, Any]) -> Iterator[Columns]:
    """v(n), and what a pass needs."""
    for model in (key for key in figures if key not in ("machine", "turns")):
        facts = figures[model]
        rows = [
            (row["n"], f"{row['us']:.0f}", f"{row['v']:.2f}", f"{row['calls_us']:.0f}",
             f"{(row['weight_bytes'] + row['cache_bytes']) / 1e6:.1f}", f"{row['operations'] / 1e6:.1f}",
             f"{(row['weight_bytes'] + row['cache_bytes']) / row['us'] / 1e3:.1f}", f"{row['operations'] / row['us'] / 1e3:.1f}")
            for row in facts["rows"]
        ]  # fmt: skip
        header = ("n", "µs", "v(n)", "µs of calls alone", "MB read", "million operations", "GB/s", "G operations/s")
        yield Columns(f"One pass of {model}, {facts['parameters'] / 1e6:.2f} M parameters read", header, rows)


def drafts(name: str, figures: dict[str, Any]) -> Iterator[Columns]:
    """The drafts beside each other."""
    rows = [
        (draft, row["gamma"], f"{row['alpha']:.3f}", f"{row['draft_step_us']:.1f}", f"{row['tokens_per_round']:.2f}",
         ratio(row["speedup"]))
        for draft, row in figures.items() if draft not in ("machine", "turns")
    ]  # fmt: skip
    header = ("draft", "best γ", "accepted", "µs a draft step", "tokens a round", "speedup: median (quartiles)")
    yield Columns("Drafts for small, strict verification", header, rows)


COMPARED = {
    "plain": "plain, ours over theirs", "speculative": "speculative, ours over theirs",
    "their_assisted_over_their_plain": "theirs, assisted over plain",
}  # fmt: skip
"""What the keys of a comparison mean."""


def ratios(name: str, figures: dict[str, Any]) -> Iterator[Columns]:
    """A comparison of a few arms: times, and ratios."""
    inner = {name: figures} if "microseconds_per_token" in figures else figures
    for part, facts in inner.items():
        if part in ("machine", "turns"):
            continue
        times = [(arm, f"{value:.0f}", "") for arm, value in facts["microseconds_per_token"].items()]
        medians = {key: value for key, value in facts.items() if isinstance(value, dict) and "median" in value}
        compared = [(COMPARED.get(key, key), "", ratio(value)) for key, value in medians.items()]
        header = ("what", "µs a token", "ratio: median (quartiles)")
        title = f"{name} at γ = {facts['gamma']}" if part == name else f"{name}, {part} at γ = {facts['gamma']}"
        yield Columns(title, header, times + compared)


def processes(name: str, figures: dict[str, Any]) -> Iterator[Columns]:
    """One process, and two."""

    def micro(form: dict[str, Any], kind: str) -> str:
        return f"{form[kind] * 1e6:.0f}" if kind in form else "–"

    rows = [
        (form, micro(facts, "seconds"), f"{facts['times']:.2f}",
         *(micro(facts, kind) for kind in ("waiting", "drafting", "shipping")),
         *(f"{facts[kind]:.0f}" if kind in facts else "–" for kind in ("sent", "received")),
         "–" if facts.get("used") is None else f"{facts['used']:.3f}")
        for form, facts in figures.items() if form not in ("machine", "turns")
    ]  # fmt: skip
    header = (
        "form", "µs a token", "times alone", "waiting µs", "drafting µs", "shipping µs", "bytes sent", "bytes received",
        "runs ahead used",
    )  # fmt: skip
    yield Columns("Draft and target in two processes; waiting, drafting, shipping and bytes are a round's", header, rows)


TABLES: dict[str, Callable[[str, dict[str, Any]], Iterator[Columns]]] = {
    "small": speed, "base": speed, "passes": passes, "drafts": drafts, "hugging face": ratios, "compiled": ratios,
    "processes": processes,
}  # fmt: skip


def tables(name: str, figures: dict[str, Any]) -> Sequence[Columns]:
    """The tables of one part."""
    return list(TABLES[name](name, figures))
