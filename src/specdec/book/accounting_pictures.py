"""Pictures of what a round yields and costs: for the chapters output-count and elapsed-time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from specdec.accounting import best_gamma, break_even_verify, expected_count, throughput
from specdec.book.figures import COLOURS, DASHES, Drawing, figure, new


def count_by_gamma(alphas: Sequence[Any], largest: int, caption: str) -> Drawing:
    """E[K] against gamma for each alpha, with the limit 1/(1 - alpha) as a thin line where it fits."""
    fig, ax = new(5.5, 3.6)
    gammas = list(range(largest + 1))
    told = []
    for alpha, marker, colour, dashes in zip(alphas, "osD^", COLOURS, ("-", "--", "-.", (0, (5, 1))), strict=False):
        means = [float(expected_count(alpha, gamma)) for gamma in gammas]
        limit = 1 / (1 - float(alpha))
        ax.plot(gammas, means, marker=marker, markersize=4, color=colour, linestyle=dashes)
        ax.hlines(limit, 0, largest, color=colour, linewidth=1.4, linestyle=":")
        ax.annotate(f"α = {float(alpha):g}", (largest, means[-1]), (8, 0), textcoords="offset points", va="center")
        told.append(f"alpha {float(alpha):g}: {means[2]:.2f} at gamma 2, {means[-1]:.2f} at gamma {largest}, limit {limit:.2f}")
    ax.set(xlabel="proposals per round γ", ylabel="tokens per round E[K]", xlim=(0, largest + 1.6), ylim=(0.8, None))
    ax.set_xticks(gammas[::2])
    return figure(fig, alt=f"Expected tokens per round against gamma. {'; '.join(told)}.", caption=caption)


def count_laws(laws: Mapping[str, Sequence[Any]], caption: str) -> Drawing:
    """Laws of the output count side by side: one hatched bar a law at each count from 1."""
    fig, ax = new(5.5, 3.2)
    width, told = 0.8 / len(laws), []
    for place, ((name, law), hatch) in enumerate(zip(laws.items(), ("", "///", ".."), strict=False)):
        shares = [float(weight) for weight in law]
        where = np.arange(1, len(shares) + 1) + (place - (len(laws) - 1) / 2) * width
        face = COLOURS[place] if not hatch else "none"
        bars = ax.bar(where, shares, width, facecolor=face, edgecolor=COLOURS[place], hatch=hatch, label=name)
        ax.bar_label(bars, fmt="%.2f", fontsize=9, padding=1)
        told.append(f"{name}: {', '.join(f'{share:.3g}' for share in shares)}")
    ax.set(xlabel="tokens emitted K", ylabel="probability", xticks=range(1, len(shares) + 1))
    ax.legend()
    return figure(fig, alt=f"Bars of the probability of each count from 1 to {len(shares)}. {'; '.join(told)}.", caption=caption)


def speed_by_verification(
    alpha: Any, gamma: int, *, draft: Any, overhead: Any, baseline: Any, marked: Sequence[Any], caption: str
) -> Drawing:
    """Tokens a second against the verification time, with the baseline's speed, the break-even and some marked times."""
    fig, ax = new(5.5, 3.4)
    even = break_even_verify(alpha, gamma, draft=draft, baseline=baseline, overhead=overhead)
    times = np.linspace(float(baseline) / 2, 2.5 * float(baseline), 200)
    ax.plot(times * 1e3, throughput(float(alpha), gamma, draft=float(draft), verify=times, overhead=float(overhead)))
    ax.axhline(1 / float(baseline), color=COLOURS[1], linestyle=DASHES[1])
    ax.annotate("target alone", (times[0] * 1e3, 1 / float(baseline)), (0, -5), textcoords="offset points", va="top")
    told = []
    for time in sorted([*marked, even]):
        speed = float(throughput(alpha, gamma, draft=draft, verify=time, overhead=overhead))
        ms = float(time) * 1e3
        ax.plot(ms, speed, marker="D" if time == even else "o", color=COLOURS[0])
        ax.annotate(f"{ms:g} ms: {speed:.1f}", (ms, speed), (6, 6), textcoords="offset points")
        told.append(f"{ms:g} ms gives {speed:.1f}")
    ax.set(xlabel="verification time, ms (assumed)", ylabel="tokens per second", ylim=(0, None))
    alt = f"Tokens per second fall as verification takes longer: {', '.join(told)}. Target alone: {1 / float(baseline):.1f}."
    return figure(fig, alt=alt, caption=caption)


def best_gamma_map(alphas: Sequence[Any], costs: Sequence[Any], largest: int, caption: str) -> Drawing:
    """The best gamma (0 to ``largest``) as a number in each cell of alpha against draft cost c, and the speedup below it.

    v = 1. The line is alpha = c: where alpha is at most c, gamma = 0 is best.
    """
    fig, ax = new(5.2, 4.2)
    told = []
    for row, cost in enumerate(costs):
        # With v = 1 and times in target steps, throughput is speedup.
        best = [best_gamma(alpha, draft_step=cost, verify=lambda gamma: 1, largest=largest) for alpha in alphas]
        for column, (gamma, speedup) in enumerate(best):
            shade = 0.1 + 0.45 * gamma / largest if gamma else 0.0
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=COLOURS[0], alpha=shade, edgecolor="none"))
            ax.text(column, row + 0.14, f"{gamma}" if gamma < largest else f"≥{largest}", ha="center", va="center", weight="bold")
            ax.text(column, row - 0.26, f"{float(speedup):.2f}×", ha="center", va="center", fontsize=8.5)
        told.append(f"c {float(cost):g}: {' '.join(str(gamma) for gamma, _ in best)}")
    edges = [sum(alpha <= cost for alpha in alphas) - 0.5 for cost in costs]
    rows = np.arange(len(costs) + 1) - 0.5
    ax.stairs(edges, rows, baseline=None, orientation="horizontal", color=COLOURS[1], linewidth=2.5)
    ax.set(xlim=(-0.55, len(alphas) - 0.45), ylim=(-0.55, len(costs) - 0.45))
    ax.set(xlabel="acceptance α", ylabel="cost of a draft step c, in target steps")
    ax.set_xticks(range(len(alphas)), [f"{float(alpha):g}" for alpha in alphas])
    ax.set_yticks(range(len(costs)), [f"{float(cost):g}" for cost in costs])
    names = ", ".join(f"{float(alpha):g}" for alpha in alphas)
    return figure(fig, alt=f"Best gamma for alpha {names}, one row a draft cost. {'; '.join(told)}.", caption=caption)


def round_and_alone(parts: Mapping[str, Any], count: Any, step: Any, unit: str, caption: str) -> Drawing:
    """A round's time by part (draft, verify, overhead), above the time in which the target alone makes ``count`` tokens."""
    fig, ax = new(5.8, 2.3)
    start, told = 0.0, []
    for (name, time), hatch, colour in zip(parts.items(), ("..", "", "///"), COLOURS, strict=False):
        look = {"facecolor": colour, "alpha": 0.6} if not hatch else {"facecolor": "none", "edgecolor": colour, "hatch": hatch}
        ax.barh(1, float(time), 0.5, left=start, label=f"{name} {float(time):g}", **look)
        start += float(time)
        told.append(f"{name} {float(time):g}")
    alone, whole = float(count * step), int(count)
    widths = [float(step)] * whole + [alone - whole * float(step)]
    begins = [k * float(step) for k in range(len(widths))]
    ax.barh([0] * len(widths), widths, 0.5, left=begins, facecolor="none", edgecolor="black")
    ax.set_yticks([1, 0], ["a round", f"target alone,\n{float(count):g} tokens"])
    ax.set(xlabel=f"{unit} (assumed)", xlim=(0, 1.05 * max(start, alone)), ylim=(-0.5, 1.5))
    fig.legend(loc="outside upper center", ncols=3)
    alt = f"A round takes {start:g} {unit}: {', '.join(told)}. The target alone takes {alone:g} for {float(count):g} tokens."
    return figure(fig, alt=alt, caption=caption)
