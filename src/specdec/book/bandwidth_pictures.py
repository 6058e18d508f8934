"""Pictures of a pass's time against its bytes, operations and calls: for the chapter decode-bandwidth."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specdec.book.figures import COLOURS, DASHES, Drawing, figure, new

MARKERS = "osD^"


def roofline(
    rate: float, bandwidths: Mapping[str, float], points: Mapping[str, Sequence[tuple[int, float, float]]], caption: str
) -> Drawing:
    """Operations a second against operations a byte, log-log: roofs from a rate and some bandwidths, and each model's passes.

    ``points``: for each model (n, operations a byte, operations a second). Each roof is named beside its slope.
    """
    fig, ax = new(5.5, 4)
    each = [intensity for rows in points.values() for _, intensity, _ in rows]
    ridges = [rate / bandwidth for bandwidth in bandwidths.values()]
    left, right = min(each) / 1.6, max(max(each), *ridges) * 2
    told = []
    for (name, bandwidth), dashes in zip(bandwidths.items(), ("-", "--", "-."), strict=False):
        corner = rate / bandwidth
        roof = np.array([bandwidth * left, rate, rate]) / 1e9
        ax.plot([left, corner, right], roof, color=COLOURS[4], linestyle=dashes, label=name)
        told.append(f"roof {name}: {bandwidth / 1e9:.3g} GB/s, flat from {corner:.3g} operations a byte")
    ax.annotate(f"{rate / 1e9:.3g}", (right, rate / 1e9), (0, 4), textcoords="offset points", ha="right")
    for (name, rows), marker, colour in zip(points.items(), MARKERS, COLOURS, strict=False):
        ns, x, y = zip(*rows, strict=True)
        ax.plot(x, np.array(y) / 1e9, marker=marker, markersize=6, color=colour, linestyle=":", linewidth=1, label=name)
        told.append(f"{name}: " + ", ".join(f"n {n} {speed / 1e9:.3g} Gop/s" for n, speed in zip(ns, y, strict=True)))
    ax.set(xscale="log", yscale="log", xlim=(left, right), xlabel="operations a byte", ylabel="billion operations a second")
    _ticks(ax.xaxis, [2.0**k for k in range(-1, 10) if left < 2.0**k < right])
    low, high = ax.get_ylim()
    _ticks(ax.yaxis, [digit * 10.0**k for k in range(-3, 5) for digit in (1, 3) if low < digit * 10.0**k < high])
    ax.legend(fontsize=9.5, loc="lower right")
    return figure(fig, alt=f"Roofline, both axes logarithmic. {'; '.join(told)}.", caption=caption)


def v_by_rows(models: Mapping[str, Mapping[int, float]], caption: str) -> Drawing:
    """v(n) of each model, with the lines of free positions (1) and of positions one after another (n)."""
    fig, ax = new(5.5, 3.4)
    told = []
    for (name, v), marker, colour, dashes in zip(models.items(), MARKERS, COLOURS, DASHES, strict=False):
        ax.plot(list(v), list(v.values()), marker=marker, markersize=5, color=colour, linestyle=dashes, label=name)
        told.append(f"{name}: " + ", ".join(f"{value:.2f} at {n}" for n, value in v.items()))
    ns = list(v)
    ax.plot(ns, ns, color=COLOURS[4], linewidth=1, linestyle="-")
    ax.axhline(1, color=COLOURS[4], linewidth=1, linestyle="-")
    ax.annotate("n passes of one", (ns[-2], ns[-2]), (-6, 0), textcoords="offset points", ha="right")
    ax.annotate("free", (ns[-1], 1), (0, 4), textcoords="offset points", ha="right")
    ax.set(xscale="log", yscale="log", xlabel="positions in the pass n", ylabel="v(n)")
    for axis in (ax.xaxis, ax.yaxis):
        _ticks(axis, ns)
    ax.legend(loc="upper left", bbox_to_anchor=(0, 0.95))
    return figure(fig, alt=f"v(n), both axes logarithmic. {'; '.join(told)}.", caption=caption)


def parts_by_rows(models: Mapping[str, Sequence[Mapping[str, Any]]], caption: str) -> Drawing:
    """A panel a model: at each n what explains the time, stacked, and a line where the clock stopped.

    Each row has ``n``, and in microseconds ``measured`` and what is stacked: ``calls``, ``reading``, ``computing`` beyond
    reading, and the ``rest`` of the products.
    """
    fig, axes = new(5.5, 2 * len(models) + 0.7, nrows=len(models), squeeze=False)
    told = []
    labels = {"calls": "calls", "reading": "reading", "computing": "computing beyond it", "rest": "rest of the products"}
    for ax, (name, rows) in zip(axes[:, 0], models.items(), strict=True):
        unit, scale = ("ms", 1e3) if rows[-1]["measured"] >= 1e4 else ("µs", 1.0)
        places = np.arange(len(rows))
        measured, base = np.array([row["measured"] for row in rows]) / scale, np.zeros(len(rows))
        for (part, label), hatch, colour in zip(labels.items(), ("", "///", "..", "xxx"), COLOURS, strict=False):
            height = np.array([row[part] for row in rows]) / scale
            face = "none" if hatch else colour
            ax.bar(places, height, 0.6, base, facecolor=face, edgecolor=colour, hatch=hatch, label=label)
            base = base + height
        ax.hlines(measured, places - 0.42, places + 0.42, color="black", linewidth=2.5, label="measured")
        ax.set(ylabel=unit, title=name, ylim=(0, 1.08 * max(*base, *measured)))
        ax.set_xticks(places, [str(row["n"]) for row in rows])
        said = ", ".join(f"n {row['n']}: {time:.3g} measured, {sum_:.3g} explained"
                         for row, time, sum_ in zip(rows, measured, base, strict=True))  # fmt: skip
        told.append(f"{name}, in {unit}: {said}")
    axes[-1, 0].set_xlabel("positions in the pass n")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    seen = "Stacked bars of calls, reading, computing and the rest of the products, and a line at the measured time."
    return figure(fig, alt=f"{seen} {'; '.join(told)}.", caption=caption)


def _ticks(axis: Any, places: Sequence[float]) -> None:
    """Ticks of a logarithmic axis, as plain numbers."""
    axis.set_ticks(places, [f"{place:g}" for place in places])
    axis.set_ticks([], minor=True)
