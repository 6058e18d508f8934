"""The map of the book on its landing page: which page needs which, drawn from one table."""

from dataclasses import dataclass
from typing import Any

from matplotlib.patches import FancyBboxPatch

from specdec.book.figures import COLOURS, Drawing, figure, new


@dataclass(frozen=True)
class Stop:
    """A page on the map: its file name, what the box says, where it stands, and the pages it needs."""

    page: str
    title: str
    promise: str
    column: float
    row: float
    needs: tuple[str, ...] = ()


PARTS = {
    "Foundations": (
        Stop("one-round", "One round, by hand", "play it first", 0, 0),
        Stop("output-head", "Scores to a token", "which p, which q", 1, 0, ("one-round",)),
        Stop("one-token", "One token", "the theorem and its proof", 0, 1, ("one-round", "output-head")),
        Stop("worked-trace", "The worked trace", "every figure recomputed", 1, 1, ("one-token",)),
        Stop("chain", "The chain", "many tokens and rounds", 0, 2, ("one-token",)),
    ),
    "Yield and cost": (
        Stop("output-count", "Output count", "is it 1.96 or 1.92?", 0, 3.4, ("chain",)),
        Stop("decode-bandwidth", "One decode step", "bytes and operations", 0, 4.4),
        Stop("elapsed-time", "Elapsed time", "acceptance is not speed", 0, 5.4, ("output-count", "decode-bandwidth")),
        Stop("state", "State", "caches that go back", 1, 3.4, ("chain",)),
    ),
    "Serving": (
        Stop("kv-cache", "The KV cache", "bytes a token, exactly", 1, 4.8, ("state",)),
        Stop("serving", "A serving system", "what speculation asks for", 1, 5.8, ("kv-cache",)),
    ),
    "Evaluation": (Stop("evaluation", "What a test shows", "claims and evidence", 1, 2, ("chain",)),),
    "Labs": (
        Stop("char-decoder", "Character decoder", "all of it on real text", 0, 6.8, ("elapsed-time", "state")),
        Stop("kv-storage", "KV storage", "size your own cache", 1, 6.8, ("kv-cache",)),
        Stop("conformance", "Conformance", "test your own sampler", 1, 7.8, ("evaluation",)),
    ),
}
WIDTH, HEIGHT, STEP = 1.0, 0.62, 1.2  # of a box; its distance to the next column


def book_map(caption: str) -> Drawing:
    """Boxes for the pages in reading order, an arrow from each page to those that need it, and a heading for each part."""
    fig, ax = new(5.9, 9.5)
    places = {}
    for part, stops in PARTS.items():
        for stop in stops:
            places[stop.page] = (stop.column * STEP, stop.row)
        left, top = (min(place) for place in zip(*(places[stop.page] for stop in stops), strict=True))
        ax.text(left + (0.06 if left else -0.06), top - 0.08, part, size=12, style="italic")
    for part, stops in PARTS.items():
        for stop in stops:
            x, y = places[stop.page]
            dashes = "--" if part == "Labs" else "-"
            shape = "round,pad=0,rounding_size=0.06"
            look: dict[str, Any] = {"facecolor": "none", "edgecolor": COLOURS[0], "linewidth": 2, "linestyle": dashes}
            ax.add_patch(FancyBboxPatch((x, y), WIDTH, HEIGHT, shape, **look))
            ax.text(x + WIDTH / 2, y + 0.22, stop.title, ha="center", va="center", size=13, weight="bold")
            ax.text(x + WIDTH / 2, y + 0.45, stop.promise, ha="center", va="center", size=11.5)
            for need in stop.needs:
                start, end = _ends(places[need], (x, y))
                bow = "arc3,rad=-0.12" if _passes(places[need], (x, y)) else None
                arrow: dict[str, Any] = {"arrowstyle": "->", "color": "black", "linewidth": 1.5, "connectionstyle": bow}
                ax.annotate("", end, start, arrowprops=arrow)
    bottom = max(y for _, y in places.values()) + HEIGHT
    ax.set(xlim=(-0.08, STEP + WIDTH + 0.3), ylim=(bottom + 0.05, -0.4))
    ax.axis("off")
    return figure(fig, alt=_in_words(), caption=caption)


def _passes(start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Whether an arrow stays in its column and goes past other boxes."""
    return start[0] == end[0] and end[1] - start[1] > 1.5


def _ends(start: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where an arrow leaves one box and meets the other: sideways in a row or past other boxes, else from bottom to top."""
    (x0, y0), (x1, y1) = start, end
    if y0 == y1:
        side = WIDTH if x1 > x0 else 0
        return (x0 + side, y0 + HEIGHT / 2), (x1 + WIDTH - side, y1 + HEIGHT / 2)
    if _passes(start, end):  # from right edge to right edge
        return (x0 + WIDTH, y0 + HEIGHT / 2), (x1 + WIDTH, y1 + HEIGHT / 2)
    if y1 - y0 > 2:  # past a row, an arrow keeps to the gap between the columns
        return (x0, y0 + HEIGHT / 2), (x1 + 0.95 * WIDTH, y1)
    lean = 0.3 * (x1 - x0)
    return (x0 + WIDTH / 2 + lean, y0 + HEIGHT), (x1 + WIDTH / 2 - lean, y1)


def _in_words() -> str:
    """The map as a text: each part with its pages, and what each needs."""
    titles = {stop.page: stop.title for stops in PARTS.values() for stop in stops}
    parts = []
    for part, stops in PARTS.items():
        pages = [
            stop.title + (f" (needs {' and '.join(titles[need] for need in stop.needs)})" if stop.needs else "") for stop in stops
        ]
        parts.append(f"{part}: {', '.join(pages)}")
    return "Map of the book. " + ". ".join(parts) + "."
