"""What pages show besides figures: result tables, marked text, and a map that knows the table of contents."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup

from specdec.book.map_picture import PARTS
from specdec.book.pooled import Pooled
from specdec.book.tables import table
from specdec.book.text_view import MarkedText, SideBySide, marked
from specdec.decoding import Generation, Ledger, RoundRecord
from specdec.models import abc_machine
from specdec.models.table import Table
from specdec.models.text import Vocabulary
from specdec.verification import Round


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


def test_plain_text_has_no_signs_and_columns_keep_their_titles():
    ledger = Ledger([RoundRecord(0, Round((0,), ("bonus",)), 1)])
    plain = marked(Generation((0,), ("bonus",), ledger), Vocabulary("ab"), "b")
    assert plain.origins == ("prompt", "drawn") and repr(plain) == "ba"
    page = BeautifulSoup(SideBySide({"one <": plain, "two": plain})._repr_html_(), "html.parser")
    assert [title.text for title in page.select("strong")] == ["one <", "two"]
    assert not page.details and len(page.select("figure")) == 2


def test_pooled_drafts_are_pooled_row_by_row_and_go_back_together():
    one, other = (Table(model.rows.astype(float)) for model in abc_machine.remembering())
    pooled = Pooled(lambda a, b: (a + b) / 2, one, other)
    state = pooled.start()
    rows = pooled.append(state, [3, 0, 1])
    with np.errstate(divide="ignore"):
        means = (np.log(one.rows[[3, 0, 1]]) + np.log(other.rows[[3, 0, 1]])) / 2
    assert np.allclose(rows, means)
    copy, key = pooled.copy(state), pooled.key(state)
    pooled.rewind(state, 1)
    assert len(state) == 1 and len(copy) == 3 and pooled.key(copy) == key != pooled.key(state)
    assert np.array_equal(pooled.append(state, [0, 1]), rows[1:])


def test_the_map_shows_every_lesson_of_the_table_of_contents():
    toc = (Path(__file__).parent.parent / "_toc.yml").read_text("utf-8")
    for part, listed in zip(PARTS, re.split(r"- caption: ", toc)[1:], strict=False):
        assert listed.startswith(part)
        assert {stop.page for stop in PARTS[part]} == set(re.findall(r"- file: \w+/([\w-]+)", listed))


def test_the_landing_page_names_every_page():
    root = Path(__file__).parent.parent
    listed = set(re.findall(r"- file: (\S+)", (root / "_toc.yml").read_text("utf-8")))
    assert listed == listed & set(re.findall(r"\{doc\}`([\w/-]+)`", (root / "intro.md").read_text("utf-8")))
