"""Pictures of what a KV cache takes: by a text's length, and by how an engine hands out cells. For the chapter kv-cache."""

from collections.abc import Mapping, Sequence

from specdec.book.figures import COLOURS, DASHES, Drawing, figure, new
from specdec.kv.counts import padded
from specdec.kv.plan import GIB, Plan
from specdec.kv.shape import CacheShape

MIB = 2**20


def growth(shapes: Mapping[str, tuple[CacheShape, str]], longest: int, caption: str) -> Drawing:
    """Bytes of one sequence against its length, both logarithmic, from 128 tokens to ``longest`` or the model's own limit.

    ``shapes``: to each label its shape, and where the label stands: ``left``, above the line's beginning in two lines, or
    ``right``, behind its end.
    """
    fig, ax = new(5.5, 3.9)
    said = []
    for (label, (shape, place)), colour, dashes in zip(shapes.items(), COLOURS, DASHES, strict=False):
        lengths = _doublings(128, min(longest, shape.longest or longest))
        stored = [Plan(shape).storage(length, 1).bytes for length in lengths]
        ax.plot(lengths, stored, color=colour, linestyle=dashes)
        text, at, shift = (label.replace(", ", ",\n"), 0, (2, 11)) if place == "left" else (label, -1, (5, -3))
        ax.annotate(text, (lengths[at], stored[at]), shift, textcoords="offset points", fontsize=9.5)
        said.append(f"{label}: {stored[0] / MIB:.3g} MiB at {lengths[0]} tokens, {stored[-1] / MIB:.5g} MiB at {lengths[-1]}")
    ticks = [128, 1024, 8192, 65536]
    ax.set(xscale="log", yscale="log", xlabel="tokens of the sequence", ylabel="bytes", xlim=(120, longest * 9))
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_yticks([4 * MIB, 32 * MIB, 256 * MIB, 2 * GIB, 16 * GIB], ["4 MiB", "32 MiB", "256 MiB", "2 GiB", "16 GiB"])
    ax.minorticks_off()
    ax.spines["bottom"].set_bounds(120, longest)
    return figure(fig, alt=f"Lines, both axes logarithmic. {'; '.join(said)}.", caption=caption)


def _doublings(first: int, last: int) -> list[int]:
    lengths = [first]
    while 2 * lengths[-1] <= last:
        lengths.append(2 * lengths[-1])
    return lengths


def cells(lengths: Sequence[int], lookahead: int, units: Mapping[str, int], caption: str) -> Drawing:
    """A panel for each unit of allocation, in tokens: cells that hold a token, lookahead slots, and what lies idle."""
    fig, axes = new(5.5, 1.5 * len(units) + 0.6, nrows=len(units), sharex=True, squeeze=False)
    said = []
    for ax, (name, unit) in zip(axes[:, 0], units.items(), strict=True):
        held = [padded(length + lookahead, unit) for length in lengths]
        rows = [-row for row in range(len(lengths))]
        ax.barh(rows, lengths, 0.62, color=COLOURS[0], label="holds a token")
        ax.barh(rows, lookahead, 0.62, lengths, facecolor="none", edgecolor=COLOURS[1], hatch="////", label="lookahead slots")
        for row, allocated in zip(rows, held, strict=True):
            for begin in range(0, allocated, unit):
                ax.barh(row, unit, 0.8, begin, facecolor="none", edgecolor=COLOURS[4], linewidth=1.2,
                        label="allocated" if row == begin == 0 else None)  # fmt: skip
        ax.set_title(f"{name}: {sum(held)} cells for {sum(lengths)} tokens", fontsize=10.5, loc="left")
        ax.set_yticks(rows, [f"{length} tokens" for length in lengths])
        ax.tick_params(left=False)
        ax.spines["left"].set_visible(False)
        said.append(f"{name}: " + ", ".join(f"{length} tokens in {cell}" for length, cell in zip(lengths, held, strict=True)))
    axes[-1, 0].set_xlabel("cells of each sequence")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9.5)
    alt = f"Bars of used cells in outlines of allocated ones, {lookahead} lookahead slots behind each text. {'; '.join(said)}."
    return figure(fig, alt=alt, caption=caption)
