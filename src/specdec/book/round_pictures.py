"""Pictures for playing by hand: laws as strips to look a uniform up on, and rounds laid out position by position."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from specdec.book.figures import COLOURS, Drawing, figure, new
from specdec.law import Array

FILLS = ("none", to_rgba(COLOURS[0], 0.3), to_rgba(COLOURS[1], 0.3))  # beside the letters, never instead of them
EDGE = {"edgecolor": "black", "linewidth": 1}


def strips_picture(
    groups: Mapping[str, Mapping[str, Array]], symbols: Sequence[str], caption: str, pins: Sequence[Any] = ()
) -> Drawing:
    """Laws as unit strips cut into cells, one a symbol, in headed groups; ``pins`` marks uniforms above the first strip."""
    lines = sum(len(laws) + 0.9 for laws in groups.values()) + 0.4
    fig, ax = new(5.5, 0.34 * lines + 0.6)
    y, said = 0.0, []
    for heading, laws in groups.items():
        ax.text(0, y, heading, weight="bold", va="center")
        for label, law in laws.items():
            y += 1
            ax.text(-0.02, y, label, ha="right", va="center")
            _strip(ax, law, y, symbols)
            ax.vlines(np.arange(11) / 10, y + 0.36, y + 0.64, color=COLOURS[4], linewidth=0.7)  # tenths, beside the cells only
            said.append(f"{heading}, {label}: {_cells(law, symbols)}")
        y += 1.3
    for u in pins:
        ax.plot(float(u), 0.45, marker="v", color="C1", markersize=8, clip_on=False)
    ax.set(xlim=(0, 1), ylim=(y - 0.7, -0.5), xticks=np.arange(11) / 10, yticks=[], xlabel="uniform")
    ax.spines["left"].set_visible(False)
    marks = f" Marks at {', '.join(map(str, pins))}." if len(pins) else ""
    return figure(fig, alt="Unit strips cut into cells. " + "; ".join(said) + "." + marks, caption=caption)


def _strip(ax: Any, law: Array, y: float, symbols: Sequence[str]) -> None:
    """One strip: a cell for each symbol of positive weight."""
    ends = np.cumsum(law)
    for place, (weight, end) in enumerate(zip(law, ends, strict=True)):
        if weight > 0:
            ax.barh(y, float(weight), left=float(end - weight), height=0.72, facecolor=FILLS[place % len(FILLS)], **EDGE)
            ax.text(float(end - weight / 2), y, symbols[place], ha="center", va="center", weight="bold")


def _cells(law: Array, symbols: Sequence[str]) -> str:
    """A strip in words: where each cell ends."""
    ends = np.cumsum(law)
    return ", ".join(f"{symbol} to {end}" for symbol, end, weight in zip(symbols, ends, law, strict=True) if weight > 0)


def rounds_picture(played: Sequence[tuple[str, str, str]], caption: str) -> Drawing:
    """Rounds laid out by position: for each (text before, proposals, emitted), what became of each and which row judged it."""
    fig, ax = new(5.5, 1.5 * len(played))
    said = []
    for number, (before, proposals, emitted) in enumerate(played):
        words = []
        for place in range(len(proposals) + 1):
            shown, verdict, style = _verdict(proposals, emitted, place)
            last = (before + proposals[:place])[-1:]
            row = f"row after {last}" if last else "row start"
            x, y = place * 1.1, number * 1.9
            ax.text(x + 0.5, y, row, ha="center", va="center", size=11.5)
            ax.add_patch(_box(x, y + 0.25, style))
            ax.text(x + 0.5, y + 0.6, shown, ha="center", va="center", weight="bold", size=14)
            ax.text(x + 0.5, y + 1.03, verdict.replace(", ", ",\n"), ha="center", va="top", size=11.5)
            words.append(f"{row}: {shown} {verdict}")
        ax.text(-0.08, y + 0.6, f"round {number + 1}", ha="right", va="center")
        said.append(f"Round {number + 1}, {'; '.join(words)}; emitted {emitted}")
    width = 1.1 * max(len(proposals) for _, proposals, _ in played) + 1
    ax.set(xlim=(-0.6, width + 0.05), ylim=(1.9 * len(played) - 0.5, -0.3))
    ax.axis("off")
    return figure(fig, alt=". ".join(said) + ".", caption=caption)


def _verdict(proposals: str, emitted: str, place: int) -> tuple[str, str, str]:
    """(what the box shows, what became of it, box style) at a position of a round."""
    last = len(emitted) - 1
    if place < last:
        return proposals[place], "accepted", "accepted"
    if place == last and place < len(proposals):
        return f"{proposals[place]} → {emitted[place]}", "rejected, corrected", "rejected"
    if place == last:
        return f"+ {emitted[place]}", "bonus", "bonus"
    return (proposals[place], "discarded, not judged", "unused") if place < len(proposals) else ("–", "no bonus", "unused")


def _box(x: float, y: float, style: str) -> Rectangle:
    """A cell: filled if its symbol stays, thick-edged if it was replaced, dashed if unused."""
    looks: dict[str, dict[str, Any]] = {
        "accepted": {"facecolor": to_rgba(COLOURS[0], 0.3), **EDGE},
        "bonus": {"facecolor": to_rgba(COLOURS[2], 0.3), **EDGE},
        "rejected": {"facecolor": "none", "edgecolor": COLOURS[1], "linewidth": 3},
        "unused": {"facecolor": "none", "edgecolor": COLOURS[4], "linestyle": "--"},
    }
    return Rectangle((x, y), 1, 0.7, **looks[style])
