"""The picture of the character lab: three laws of the output count side by side."""

from collections.abc import Sequence

from specdec.book.figures import Drawing, figure, new


def count_picture(measured: Sequence[float], exact: Sequence[float], iid: Sequence[float], caption: str) -> Drawing:
    """Shares of rounds by output count: bars for what was measured, markers for the two predictions."""
    fig, ax = new(5, 3)
    counts = range(1, len(measured) + 1)
    ax.bar(counts, measured, width=0.7, facecolor="none", edgecolor="C4", hatch="//", label="measured")
    marks = {"linestyle": "none", "markersize": 9, "markeredgewidth": 2.5}
    ax.plot(counts, exact, color="C0", marker="o", label="exact, at these contexts", **marks)
    ax.plot(counts, iid, color="C1", marker="x", label="iid, with accepted/verified", **marks)
    ax.set(xlabel="tokens that a round emits", ylabel="share of rounds", xticks=counts)
    ax.legend()
    said = "; ".join(
        f"{k} tokens: measured {m:.3f}, exact {e:.3f}, iid {i:.3f}"
        for k, m, e, i in zip(counts, measured, exact, iid, strict=True)
    )
    return figure(fig, alt=f"Bars and markers of the share of rounds by tokens emitted. {said}.", caption=caption)
