"""The picture of the state page: what two caches hold, are fed, give back and lack, for each number of accepted proposals."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from specdec.book.figures import Drawing, figure, new


class Turn(NamedTuple):
    """One cache in one round: the tokens that it held before, was fed (pass by pass), held after, and lacked then, as text."""

    before: str
    fed: str
    after: str
    pending: str


KINDS: dict[str, dict[str, Any]] = {
    "held before": {"facecolor": "C0", "alpha": 0.35},
    "fed and kept": {"facecolor": "none", "edgecolor": "C0", "linewidth": 2.5},
    "fed and rewound": {"facecolor": "none", "edgecolor": "C1", "linestyle": "--"},
    "pending": {"facecolor": "none", "edgecolor": "C2", "linestyle": ":", "linewidth": 2},
}


def _cell(ax: Axes, x: float, y: float, token: str, kind: str) -> None:
    ax.add_patch(Rectangle((x - 0.42, y - 0.4), 0.84, 0.8, **KINDS[kind]))
    ax.text(x, y, token, ha="center", va="center")
    if kind == "fed and rewound":
        ax.plot([x - 0.42, x + 0.42], [y - 0.4, y + 0.4], color="C1", linestyle="-", linewidth=1)


def _widest(turn: Turn) -> str:
    return turn.before + turn.fed.replace(" ", "")


def caches_picture(rounds: Mapping[int, Mapping[str, Turn]], caption: str) -> Drawing:
    """A row of cells for each cache, under each number of accepted proposals."""
    fig, ax = new(4.9, 6.2)
    slots = max(len(_widest(turn)) for caches in rounds.values() for turn in caches.values())
    y, said = 0.0, []
    for accepted, caches in rounds.items():
        ax.text(-2.4, y, f"{accepted} accepted", va="center", weight="bold")
        for name, turn in caches.items():
            y -= 1
            ax.text(-2.4, y, name, va="center")
            for x, token in enumerate(_widest(turn)):
                fed = "fed and kept" if x < len(turn.after) else "fed and rewound"
                _cell(ax, x, y, token, "held before" if x < len(turn.before) else fed)
            for x, token in enumerate(turn.pending, start=slots + 1):
                _cell(ax, x - 0.3, y, token, "pending")
            back = len(_widest(turn)) - len(turn.after)
            said.append(
                f"{accepted} accepted, {name}: held {turn.before}, fed {turn.fed}, gave back {back}, then lacks {turn.pending}"
            )
        y -= 1.3
    for number, kind in enumerate(KINDS):
        left, line = (-2.0, 3.2)[number % 2], y - 1.1 * (number // 2)
        _cell(ax, left, line, "", kind)
        ax.text(left + 0.6, line, kind, va="center")
    ax.set(xlim=(-2.5, slots + 2.4), ylim=(y - 1.7, 0.6), aspect="equal")
    ax.axis("off")
    return figure(fig, alt=f"Rows of cells, one a token. {'; '.join(said)}.", caption=caption)
