"""The pictures of the character lab: the ledger, the law of the output count, speedup against γ, and drafts by temperature."""

from collections.abc import Mapping, Sequence
from typing import Any

from specdec.book.figures import COLOURS, DASHES, Drawing, figure, new

HATCHES = ("", "///", "..", "xx", "--")
MARKERS = "osD^v"


def stacked_bars(ax: Any, parts: Mapping[str, Mapping[str, float]]) -> list[float]:
    """A bar for each key of ``parts``, stacked of its numbers, each kind with a colour and a hatch; where the bars end."""
    ends = [0.0] * len(parts)
    kinds = dict.fromkeys(kind for numbers in parts.values() for kind in numbers)
    for kind, colour, hatch in zip(kinds, COLOURS, HATCHES, strict=False):
        widths = [numbers.get(kind, 0.0) for numbers in parts.values()]
        face = "none" if hatch else colour
        ax.barh(list(parts), widths, 0.6, ends, facecolor=face, edgecolor=colour, hatch=hatch, label=kind)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    return ends


def ledger_picture(parts: Mapping[str, Mapping[str, float]], caption: str) -> Drawing:
    """A bar for each decoder, stacked of the milliseconds of a committed token by part: {decoder: {part: seconds}}."""
    fig, ax = new(5.5, 0.6 * len(parts) + 1.5)
    kinds = list(dict.fromkeys(part for seconds in parts.values() for part in seconds))
    ends = stacked_bars(ax, {name: {kind: 1e3 * each for kind, each in seconds.items()} for name, seconds in parts.items()})
    for place, end in enumerate(ends):
        ax.annotate(f"{end:.2f}", (end, place), (4, 0), textcoords="offset points", va="center")
    ax.set(xlabel="milliseconds a committed token", xlim=(0, 1.12 * max(ends)))
    ax.invert_yaxis()
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=len(kinds), columnspacing=1.2)
    told = "; ".join(
        f"{name}: " + ", ".join(f"{kind} {1e3 * value:.3f}" for kind, value in seconds.items()) for name, seconds in parts.items()
    )
    return figure(fig, alt=f"Stacked bars of milliseconds a committed token by part. {told}.", caption=caption)


def count_picture(
    bars: Mapping[str, Sequence[float]], marks: Mapping[str, Sequence[float]], caption: str,
    xlabel: str = "tokens that a round emits", ylabel: str = "share of rounds",
) -> Drawing:  # fmt: skip
    """Shares by count from 1 on: bars side by side, and laws beside them as markers."""
    fig, ax = new(5.5, 3.2)
    counts, width = range(1, len(next(iter(bars.values()))) + 1), 0.8 / len(bars)
    for i, (name, shares) in enumerate(bars.items()):
        places = [count + (i - (len(bars) - 1) / 2) * width for count in counts]
        face = "none" if HATCHES[i] else COLOURS[i]
        ax.bar(places, shares, 0.9 * width, facecolor=face, edgecolor=COLOURS[i], hatch=HATCHES[i], label=name)
    for i, (name, shares) in enumerate(marks.items(), start=len(bars)):
        ax.plot(counts, shares, color=COLOURS[i], marker="D", markersize=8, linestyle="none", label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel, xticks=counts)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=len(bars) + len(marks))
    told = "; ".join(
        f"{k}: " + ", ".join(f"{name} {shares[k - 1]:.3f}" for name, shares in {**bars, **marks}.items()) for k in counts
    )
    return figure(fig, alt=f"Bars of {ylabel} by {xlabel}. {told}.", caption=caption)


def speedup_picture(
    predicted: Mapping[int, float], measured: Mapping[str, Mapping[int, Mapping[str, float]]], caption: str
) -> Drawing:
    """Speedup against γ: the predicted curve, and for each rule the measured medians with their quartiles.

    ``measured``: {rule: {γ: {"median", "low", "high"}}}.
    """
    fig, ax = new(5.5, 3.8)
    ax.axhline(1, color=COLOURS[4], linewidth=1, linestyle="-", label="plain decoding")
    ax.plot(list(predicted), list(predicted.values()), color=COLOURS[0], linestyle="-", label="predicted, strict")
    told = ["predicted: " + ", ".join(f"{value:.2f} at {gamma}" for gamma, value in predicted.items())]
    for i, (rule, points) in enumerate(measured.items(), start=1):
        gammas = [gamma + 0.2 * (i - 1) for gamma in points]
        medians = [point["median"] for point in points.values()]
        below = [point["median"] - point["low"] for point in points.values()]
        above = [point["high"] - point["median"] for point in points.values()]
        ax.errorbar(
            gammas, medians, (below, above), color=COLOURS[i], marker=MARKERS[i], markersize=7, linestyle="none",
            elinewidth=1.5, capsize=3, label=f"measured, {rule}", fillstyle="none" if i > 1 else "full",
        )  # fmt: skip
        told.append(f"measured {rule}: " + ", ".join(f"{point['median']:.2f} at {gamma}" for gamma, point in points.items()))
    top = max(*predicted.values(), *(point["high"] for points in measured.values() for point in points.values()))
    ticks = sorted({0, *(gamma for points in measured.values() for gamma in points)})
    ax.set(xlabel="proposals a round γ", ylabel="speedup", ylim=(0, 1.05 * top), xticks=ticks)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure(fig, alt=f"Speedup over plain decoding by gamma. {'; '.join(told)}.", caption=caption)


def sweep_picture(
    temperatures: Sequence[float], alphas: Mapping[str, Sequence[float]], gains: Mapping[str, Sequence[float]], caption: str
) -> Drawing:
    """Two panels over temperature, a line for each draft: mean α, and the predicted speedup at the best γ."""
    fig, (upper, lower) = new(5.5, 5.4, nrows=2, sharex=True)
    told = []
    for ax, lines, what in ((upper, alphas, "mean α"), (lower, gains, "predicted speedup")):
        for (draft, values), colour, dashes, marker in zip(lines.items(), COLOURS, DASHES, MARKERS, strict=False):
            ax.plot(temperatures, values, color=colour, linestyle=dashes, marker=marker, markersize=5, label=draft)
            told.append(f"{what} of {draft}: " + ", ".join(f"{v:.2f} at {T}" for T, v in zip(temperatures, values, strict=True)))
        ax.set_ylabel(what)
    upper.set_ylim(0, 1.05)
    lower.axhline(1, color=COLOURS[4], linewidth=1, linestyle="-")
    lower.set_xlabel("temperature")
    fig.legend(*upper.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure(fig, alt=f"Two line charts over temperature. {'; '.join(told)}.", caption=caption)
