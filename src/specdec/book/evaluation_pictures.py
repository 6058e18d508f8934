"""Pictures for the chapter on evaluation: evidence as texts are drawn, and false alarms as a test is looked at."""

from collections.abc import Mapping, Sequence

from specdec.book.figures import COLOURS, DASHES, Drawing, figure, new

Path = Sequence[tuple[int, float]]
"""(number of texts or tosses, what was found there), in order."""


def evidence_paths(paths: Mapping[str, Path], threshold: float, caption: str) -> Drawing:
    """The logarithm of the e-value against the number of texts, one line a sampler, and the threshold of refutation."""
    fig, ax = new(5.4, 3.4)
    ends = []
    for i, (name, path) in enumerate(paths.items()):
        numbers, values = zip(*path, strict=True)
        ax.plot(numbers, values, color=COLOURS[i], linestyle=DASHES[i], marker="oDs^"[i], markevery=[-1], label=name)
        ends.append(f"{name} ends at {values[-1]:.1f} after {numbers[-1]} texts")
    ax.set(xscale="log", xlabel="texts", ylabel="log e-value")
    ticks = [100, 1000, 10_000]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.axhline(threshold, color="black", linewidth=1)
    above = {"xytext": (2, 4), "textcoords": "offset points", "size": 9.5}
    ax.annotate("refuted", (0, threshold), xycoords=("axes fraction", "data"), **above)
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=2, fontsize=9.5, handlelength=3.5)
    alt = f"Log e-value against the number of texts, from 0; the threshold is {threshold:.1f}. {'; '.join(ends)}."
    return figure(fig, alt=alt, caption=caption)


def false_alarms(curves: Mapping[str, Path], level: float, caption: str) -> Drawing:
    """The probability of a false alarm up to n against n, one line a test, and the level that was promised."""
    fig, ax = new(5.4, 2.8)
    told = []
    for i, (name, curve) in enumerate(curves.items()):
        numbers, values = zip(*curve, strict=True)
        ax.plot(numbers, values, color=COLOURS[i], linestyle=DASHES[i])
        middle = len(curve) // 2
        ax.annotate(name, curve[middle], xytext=(0, -16), textcoords="offset points", size=9.5)
        told.append(f"{name}: {values[0]:.3f} at {numbers[0]}, {values[-1]:.3f} at {numbers[-1]}")
    ax.axhline(level, color="black", linewidth=1)
    ax.annotate(f"promised: {level:g}", (numbers[-1], level), xytext=(0, 4), textcoords="offset points", ha="right", size=9.5)
    ax.set(xlabel="tosses", ylabel="false alarm so far", ylim=(-0.03, None))
    alt = f"Probability of a false alarm so far, against tosses; {level:g} was promised. {'; '.join(told)}."
    return figure(fig, alt=alt, caption=caption)
