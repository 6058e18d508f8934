"""The pictures of the KV lab: what fits at which length, and how a rank's memory is divided."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.patches import Rectangle

from specdec.book.figures import COLOURS, Drawing, figure, new
from specdec.book.lab_pictures import stacked_bars
from specdec.kv.plan import GIB, Plan


def map_picture(plan: Plan, budget: int, caption: str) -> Drawing:
    """Storage by length and concurrency, as a heat map of powers of two, with a line around those that fit."""
    longest = plan.target.longest or 2**17
    lengths, sequences = 2 ** np.arange(8, longest.bit_length()), 2 ** np.arange(0, 11)
    stored = plan.storage(lengths[None, :], sequences[:, None]).bytes / GIB
    fits = stored <= budget / GIB
    fig, ax = new(5, 4.4)
    for (y, x), size in np.ndenumerate(stored):
        column, row = math.log2(lengths[x]), math.log2(sequences[y])
        if fits[y, x]:
            # The shades of the map in the page, `kv_lab.mjs`.
            share = max(0.0, 1 + math.log2(size * GIB / budget) / 12)
            shade = 0.04 + 0.42 * share**2
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=COLOURS[0], alpha=shade, edgecolor="none"))
        shown = f"{size:,.0f}" if size >= 10 else f"{size:.2g}"
        ax.text(column, row, shown, ha="center", va="center", fontsize=9, fontweight="bold" if fits[y, x] else "normal")
    edges = np.arange(len(lengths) + 1) + 7.5
    ax.stairs(fits.sum(axis=0) - 0.5, edges, baseline=None, color=COLOURS[1], linewidth=2.5)
    ax.set(xlabel="tokens a sequence", ylabel="sequences", xlim=(edges[0], edges[-1]), ylim=(-0.5, 10.5))
    ax.set_xticks(np.log2(lengths), [f"{n:,}" if n < 1024 else f"{n // 1024}k" for n in lengths])
    ax.set_yticks(np.log2(sequences), [f"{n:,}" for n in sequences])
    fitting = zip(lengths.tolist(), plan.sequences(lengths, budget).tolist(), strict=True)
    told = "; ".join(f"{n:,} tokens: {m:,}" for n, m in fitting)
    alt = f"GiB by length and number of sequences; those below a line fit. The most that fit: {told}."
    return figure(fig, alt=alt, caption=caption)


def bar_picture(parts: Mapping[str, Mapping[str, int]], limit: int, caption: str) -> Drawing:
    """A bar for each plan, stacked of GiB by five parts, and the rank's memory as a line: {plan: {part: bytes}}."""
    fig, ax = new(6.2, 0.6 * len(parts) + 1.7)
    ends = stacked_bars(ax, {name: {kind: size / GIB for kind, size in each.items()} for name, each in parts.items()})
    ax.axvline(limit / GIB, color=COLOURS[1])
    ax.annotate("memory", (limit / GIB, 1), (-4, 2), xycoords=("data", "axes fraction"), textcoords="offset points", ha="right")
    ax.set(xlabel="GiB on a rank", xlim=(0, 1.05 * max(*ends, limit / GIB)))
    ax.invert_yaxis()
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, columnspacing=1.2)
    told = "; ".join(
        f"{name}: " + ", ".join(f"{kind} {size / GIB:.2f}" for kind, size in each.items()) for name, each in parts.items()
    )
    return figure(fig, alt=f"Stacked bars of GiB on a rank. {told}. Its memory: {limit / GIB:.0f}.", caption=caption)
