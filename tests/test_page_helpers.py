"""What pages show besides figures: result tables, marked text, and a map that knows the table of contents."""

import re
from fractions import Fraction
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from specdec.book.map_picture import PARTS
from specdec.book.tables import table
from specdec.book.text_view import MarkedText


def test_a_table_prints_fractions_exactly_and_floats_to_four_digits():
    shown = table(["x", "p"], [["A", Fraction(3, 5)], ["B", 0.123456]], "A law")
    assert repr(shown) == "A law\nx  p\nA  3/5\nB  0.1235"
    page = BeautifulSoup(shown._repr_html_(), "html.parser")
    assert [cell.text for cell in page.select("td")] == ["3/5", "0.1235"]
    assert [(cell.text, cell["scope"]) for cell in page.select("th")] == [("x", "col"), ("p", "col"), ("A", "row"), ("B", "row")]
    assert page.caption.text == page.div["aria-label"] == "A law"


def test_a_table_escapes_what_it_shows():
    page = BeautifulSoup(table(["<b>"], [["<i>"]], 'a "quoted" <u>')._repr_html_(), "html.parser")
    assert not page.select("b, i, u") and page.td is None and page.div["aria-label"] == 'a "quoted" <u>'


@pytest.mark.parametrize(
    ("header", "rows", "caption", "message"),
    [(["a"], [[1]], " ", "caption"), (["a", "b"], [[1, 2], [3]], "c", "table row 1 has 1 cells")],
)
def test_a_table_that_says_too_little_raises(header, rows, caption, message):
    with pytest.raises(ValueError, match=message):
        table(header, rows, caption)


def test_marked_text_reads_without_its_marks():
    origins = ["prompt", "accepted", "correction", "accepted", "bonus", "correction"]
    text = MarkedText("ab<d\ne", origins)
    assert repr(text) == "ab‹<›d↵⁺\n‹e›"
    page = BeautifulSoup(text._repr_html_(), "html.parser")
    assert page.select("pre")[0].text == "ab<d↵\ne"
    assert page.figcaption.text == "prompt (1), accepted (2), correction (2), bonus (1)"


def test_marked_text_needs_an_origin_for_each_character():
    with pytest.raises(ValueError, match="2 characters with 1 origins"):
        MarkedText("ab", ["accepted"])


def test_the_map_shows_every_lesson_of_the_table_of_contents():
    toc = (Path(__file__).parent.parent / "_toc.yml").read_text("utf-8")
    for part, listed in zip(PARTS, re.split(r"- caption: ", toc)[1:], strict=False):
        assert listed.startswith(part)
        assert {stop.page for stop in PARTS[part]} == set(re.findall(r"- file: \w+/([\w-]+)", listed))
