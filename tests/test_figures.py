"""Figures: alternative text and caption, a drawing that is the same in every build, colours that can be read."""

import itertools
import subprocess
import sys
from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
from bs4 import BeautifulSoup
from colorspacious import cspace_convert

from specdec.book import figures

DARK = "#121212"  # the theme's page in dark mode


def drawn(alt="Two lines that cross", caption="They cross at 1 < 2."):
    """Return a small figure with everything that pages use."""
    fig, ax = figures.new()
    ax.plot([1, 3, 2], label="a & b")
    ax.bar([0, 1], [1, 2], hatch="//", label="bars")
    ax.set_title("title")
    ax.text(1, 1, "red", color="red")
    ax.legend()
    return figures.figure(fig, alt=alt, caption=caption)


def html(drawing):
    return drawing._repr_mimebundle_()["text/html"]


def test_alternative_text_and_caption_are_there_and_escaped():
    soup = BeautifulSoup(html(drawn(alt='A "line" & more')), "html.parser")
    assert soup.figure.svg["role"] == "img"
    assert soup.figure.svg["aria-label"] == 'A "line" & more'
    assert soup.figcaption.text == "They cross at 1 < 2."
    assert repr(drawn()) == drawn()._repr_mimebundle_()["text/plain"] == "Figure: Two lines that cross"


@pytest.mark.parametrize(("alt", "caption"), [("", "c"), ("  ", "c"), ("a", ""), ("a", "\n")])
def test_an_empty_text_is_an_error(alt, caption):
    with pytest.raises(ValueError, match="alternative text and a caption"):
        drawn(alt, caption)


def test_a_bar_of_no_size_has_no_edge():
    def shapes(heights):
        fig, ax = figures.new()
        ax.bar(range(len(heights)), heights, edgecolor="C1")
        ax.set(xlim=(0, 4), ylim=(0, 4), xticks=[], yticks=[])
        return figures.figure(fig, alt="Bars", caption="Some.").svg.count("<path")

    assert shapes([1, 0, 2, 0]) == shapes([1, 2])
    assert shapes([1, 2]) == shapes([1]) + 1


def test_the_same_figure_is_the_same_text_and_two_figures_share_no_id():
    assert html(drawn()) == html(drawn())
    ids = [tag["id"] for alt in ("one", "two") for tag in BeautifulSoup(html(drawn(alt)), "html.parser").find_all(id=True)]
    assert ids and len(ids) == len(set(ids))


def test_a_drawing_follows_the_page_and_leaves_it_alone():
    text = html(drawn())
    soup = BeautifulSoup(text, "html.parser")
    assert "#000000" not in text and "currentColor" in text
    assert not soup.find_all(["style", "metadata", "script"])
    assert not [tag for tag in soup.find_all("path") if "fill: #ffffff" in tag.get("style", "")]
    words = {tag.text: tag["style"] for tag in soup.find_all("text")}
    assert words["title"].startswith("fill: currentColor")
    assert "fill: #ff0000" in words["red"].split("currentColor", 1)[1]


def contrast(first, second):
    """Return WCAG's contrast ratio of two colours."""

    def luminance(colour):
        c = np.array(matplotlib.colors.to_rgb(colour))
        return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", figures.COLOURS)
@pytest.mark.parametrize("page", ["#ffffff", DARK])
def test_colours_stand_out_on_light_and_dark_pages(colour, page):
    assert contrast(colour, page) >= 3


def test_a_pyplot_figure_is_closed():
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots()
    ax.plot([1, 2])
    figures.figure(fig, alt="a line", caption="It rises.")
    assert fig.number not in plt.get_fignums()


def test_the_library_does_not_import_what_only_pages_need():
    code = "import sys, specdec; sys.exit(any(m in sys.modules for m in ('matplotlib', 'sphinx', 'IPython', 'docutils')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


VISIONS = [None, "protanomaly", "deuteranomaly", "tritanomaly"]
APART = 20  # CIE76 distance, in CIELAB; one is about what can be told side by side, and lines stand apart


def seen(colour, vision):
    """Return a colour as somebody without one kind of cones sees it, in sRGB (Machado, Oliveira and Fernandes, 2009)."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    if vision is None:
        return rgb
    return cspace_convert(rgb, {"name": "sRGB1+CVD", "cvd_type": vision, "severity": 100}, "sRGB1").clip(0, 1)


def nearest(colours, vision):
    """Return the smallest distance of two colours."""
    labs = [cspace_convert(seen(colour, vision), "sRGB1", "CIELab") for colour in colours]
    return min(np.linalg.norm(one - other) for one, other in itertools.combinations(labs, 2))


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart_whatever_the_eye(vision):
    assert nearest(figures.COLOURS, vision) >= APART


def test_a_palette_of_red_and_green_would_fail():
    colours = ["#d62728", "#6b8e23"]
    assert nearest(colours, None) >= APART > nearest(colours, "deuteranomaly")


def test_the_style_is_a_file_that_matplotlib_takes_as_it_is():
    import matplotlib.style

    with matplotlib.style.context(Path(figures.__file__).with_name("book.mplstyle")):
        assert matplotlib.rcParams["axes.prop_cycle"] == figures.STYLE["axes.prop_cycle"]
    assert len(set(figures.DASHES)) == len(figures.COLOURS) == len(set(figures.COLOURS))
