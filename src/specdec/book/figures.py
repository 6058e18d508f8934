"""Matplotlib figures as inline SVG: readable in light and dark, with alternative text and a caption."""

import html
import io
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

STYLE = matplotlib.rc_params_from_file(str(Path(__file__).with_name("book.mplstyle")), use_default_template=False)
COLOURS: tuple[str, ...] = tuple(STYLE["axes.prop_cycle"].by_key()["color"])
DASHES: tuple[Any, ...] = tuple(STYLE["axes.prop_cycle"].by_key()["linestyle"])  # a line is never told by colour alone


def new(width: float = 5.0, height: float = 2.8, **subplots: Any) -> tuple[Figure, Any]:
    """Return a figure in the book's style and its axes; further arguments go to `Figure.subplots`.

    The figure is not registered with pyplot, so a notebook never shows it a second time.
    """
    matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]  # globally: legends and labels that a page adds later read it too
    fig = Figure(figsize=(width, height), layout="constrained")
    return fig, fig.subplots(**subplots)


class Drawing:
    """A figure with its alternative text and caption, as a notebook and the site show it."""

    def __init__(self, svg: str, alt: str, caption: str) -> None:
        self.svg, self.alt, self.caption = svg, alt, caption

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>"
        return {
            "text/html": f'<figure class="book-figure">{self.svg}{caption}</figure>',
            "text/plain": repr(self),
        }


def figure(fig: Figure, alt: str, caption: str) -> Drawing:
    """Turn a figure into an inline drawing: `alt` says what is seen, `caption` the finding, in plain text."""
    if not alt.strip() or not caption.strip():
        raise ValueError("a figure needs alternative text and a caption")
    for patch in (patch for ax in fig.axes for patch in ax.patches if isinstance(patch, Rectangle)):
        if not (patch.get_width() and patch.get_height()):
            patch.set_visible(False)  # a bar of no size would show its edge
    # The salt makes the ids inside the SVG the same in every build, and different from other figures'.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": alt}):
        buffer = io.StringIO()
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(fig)  # a figure made by pyplot would be shown again at the end of the cell
    return Drawing(_inline(buffer.getvalue(), alt), alt, caption)


def _inline(svg: str, alt: str) -> str:
    """Make a saved SVG fit to stand inside a page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # names like axes_1, alike in every figure and never referred to
    # A <style> inside an inline SVG would reach the whole page; the root's own style reaches only the drawing.
    svg = re.sub(r'<style type="text/css">.*?</style>', "", svg, flags=re.S)
    svg = svg.replace("#000000", "currentColor")
    svg = re.sub(r'(<text [^>]*?style=")', r"\1fill: currentColor; ", svg)
    label = html.escape(alt)
    root = f'<svg role="img" aria-label="{label}" style="stroke-linejoin: round; stroke-linecap: butt" '
    return svg.replace("<svg ", root, 1)
