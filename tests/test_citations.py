"""The bibliography: an entry is called what the text calls it, and stands where its name belongs."""

import re

import pytest
from pybtex.database import parse_string
from selectolax.lexbor import LexborHTMLParser

from specdec.book.citations import BookStyle
from test_site import SITE, path_of

ENTRIES = r"""
@misc{z, author = {Zhou, An and Wu, Bo and Li, Ci}, title = {T}, year = {2024}}
@misc{n, author = {{NVIDIA}}, title = {T}, year = {2021}}
@misc{m, author = {M{\"u}ller, An and Wu, Bo}, title = {T}, year = {1999}}
@misc{o, author = {{OpenBLAS developers}}, title = {T}, year = {2020}}
"""


def test_entries_are_called_by_name_and_year_and_sorted_by_name():
    style = BookStyle()
    entries = style.sort(parse_string(ENTRIES, "bibtex").entries.values())
    labels = list(style.format_labels(entries))
    assert labels == ["Müller and Wu 1999", "NVIDIA 2021", "OpenBLAS developers 2020", "Zhou et al. 2024"]


@pytest.fixture(scope="module")
def bibliography():
    return LexborHTMLParser(path_of("chapters/bibliography").read_text("utf-8"))


def test_a_citation_reads_as_the_label_it_leads_to(bibliography):
    labels = {entry.attrs["id"]: entry.css_first(".label").text().strip("[]") for entry in bibliography.css("div.citation")}
    assert len(labels) == len(set(labels.values())) > 10
    links = 0
    for page in (SITE / "chapters").glob("*.html"):
        for link in LexborHTMLParser(page.read_text("utf-8")).css("a.reference.internal[href*='#id']"):
            label = labels.get(link.attrs["href"].partition("#")[2])
            if label and re.fullmatch(r"(.*, )?\d{4}", link.text()):
                links += 1
                assert link.text().replace(",", "").split()[-1] == label.split()[-1]
                assert label.startswith(link.text().rpartition(",")[0])
    assert links > 20
