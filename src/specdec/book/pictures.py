"""Pictures that more than one page draws."""

from collections.abc import Sequence

import numpy as np

from specdec.book.figures import Drawing, figure, new
from specdec.law import Array, overlap


def overlap_picture(p: Array, q: Array, symbols: Sequence[str], caption: str) -> Drawing:
    """The draft's mass split into accepted and rejected, and the output's into accepted and refilled, side by side."""
    accepted = np.minimum(p, q).astype(float)
    rejected, refilled = q.astype(float) - accepted, p.astype(float) - accepted
    fig, axes = new(7, 2.8, ncols=2)
    places = range(len(symbols))
    panels = (
        ("what the draft proposes: q", rejected, "///", "rejected"),
        ("what the round emits: p", refilled, "..", "refilled"),
    )
    for ax, (title, extra, hatch, name) in zip(axes, panels, strict=True):
        ax.bar(places, accepted, color="C0", label="accepted")
        ax.bar(places, extra, bottom=accepted, facecolor="none", edgecolor="C1", hatch=hatch, label=name)
        ax.set(title=title, xticks=places, xticklabels=list(symbols), ylim=(0, 1.25 * float(max(p.max(), q.max()))))
        ax.legend(loc="upper center", ncols=2)
    axes[0].set_ylabel("probability")
    shares = ", ".join(
        f"{symbol} accepted {a:.2f}, rejected {r:.2f}, refilled {f:.2f}"
        for symbol, a, r, f in zip(symbols, accepted, rejected, refilled, strict=True)
    )
    alt = f"Two bar charts of probability mass. {shares}. Acceptance {float(overlap(p, q)):.2f}."
    return figure(fig, alt=alt, caption=caption)
