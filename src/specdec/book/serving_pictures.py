"""The picture of the chapter serving: what a verification costs as the batch grows, and where memory ends it."""

from collections.abc import Callable, Mapping, Sequence

from specdec.book.figures import COLOURS, DASHES, Drawing, figure, new


def v_by_batch(
    v: Callable[[int, int], float], fits: Mapping[int, Sequence[int]], ends: Mapping[str, str], gamma: int, caption: str
) -> Drawing:
    """v(γ+1) against the batch, a curve for each context, with marks at the largest batches that fit.

    ``v(batch, context)``; ``fits``: for each context the largest batch in each memory, in the order of ``ends``, which gives
    each memory's name and marker.
    """
    fig, ax = new(5.5, 3.6)
    batches = [2**k for k in range(11)]
    told = []
    for (context, largest), colour, dashes in zip(fits.items(), COLOURS, DASHES, strict=False):
        curve = sorted({*batches, *(batch for batch in largest if batch <= batches[-1])})
        ax.plot(curve, [v(batch, context) for batch in curve], color=colour, linestyle=dashes, label=f"behind {context:,} tokens")
        for batch, marker in zip(largest, ends.values(), strict=True):
            if 1 <= batch <= batches[-1]:
                ax.plot([batch], [v(batch, context)], color=colour, marker=marker, markersize=8, linestyle="")
        told.append(
            f"behind {context:,} tokens v is " + ", ".join(f"{v(batch, context):.2f} at {batch}" for batch in batches[::2])
            + "; " + ", ".join(f"{batch} fit on {name}" for name, batch in zip(ends, largest, strict=True))
        )  # fmt: skip
    for name, marker in ends.items():
        ax.plot([], [], color=COLOURS[4], marker=marker, markersize=8, linestyle="", label=f"all that fits on {name}")
    ax.set(xscale="log", xlabel="texts in the batch", ylabel=f"v({gamma + 1})", ylim=(0.8, gamma + 1.4))
    ax.set_xticks(batches[::2], [str(batch) for batch in batches[::2]])
    ax.minorticks_off()
    ax.legend(fontsize=9.5, loc="upper left")
    return figure(fig, alt=f"v against the batch, which is on a logarithmic axis: {'; '.join(told)}.", caption=caption)
