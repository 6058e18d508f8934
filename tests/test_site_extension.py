"""The Sphinx extension on small sources: badges in words, and quizzes that refuse to be built wrong."""

import gc
import io
import sys

import pytest
from bs4 import BeautifulSoup
from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer

from small_site import small_site
from specdec.book import site
from test_site import built

GOOD = """:::{quiz} Which is $\\alpha$?
- [ ] one $q$

  No: *that* is $q$.
- [x] two

  Yes.

  A second paragraph.
:::
"""


@pytest.fixture
def build(tmp_path):
    """Build one page with the extension; return it parsed, and the warnings."""

    def build(text):
        (tmp_path / "index.md").write_text("# Page\n\n" + text, "utf-8")
        settings = {"extensions": ["myst_parser", "specdec.book.site"], "html_theme": "basic"}
        settings["myst_enable_extensions"] = ["colon_fence", "dollarmath"]
        warnings = io.StringIO()
        with small_site(tmp_path, tmp_path, settings, warnings) as app:
            app.build()
        return BeautifulSoup((tmp_path / "html" / "index.html").read_text("utf-8"), "html.parser"), warnings.getvalue()

    return build


def test_a_number_stays_with_its_unit_and_its_sign(build):
    page, _ = build("It takes 5 ms, 7.4 % of 10 GB/s at γ = 1. See 3 models, x = y, `5 ms` and the code.\n\n```\n5 ms\n```\n")
    held = "It takes 5~ms, 7.4~% of 10~GB/s at γ~=~1. See 3 models, x = y, 5 ms and the code."
    assert page.select_one("p").text.replace("\u00a0", "~") == held
    assert page.select_one("pre").text.strip() == "5 ms"
    for signature in built("chapters/api").css("dt.sig"):
        assert "\u00a0" not in signature.text(), "a default value that is copied is the code's"


@pytest.mark.parametrize("kind", ["derived", "assumed", "measured", "cited"])
def test_a_badge_is_a_word_with_its_meaning(build, kind):
    page, warnings = build(f"| mean |\n|---|\n| {{{kind}}}`49/25` |\n\n{{{kind}}}`$\\alpha$` here.\n")
    assert not warnings
    assert page.td.text == f"49/25\u00a0{kind}"
    badge = page.td.abbr
    assert badge.text == kind and badge["title"]
    assert page.select_one("p .math").text == "α"


def test_a_quiz_is_a_form_with_labels_and_folded_reasons(build):
    page, warnings = build(GOOD + "\n" + GOOD)
    assert not warnings
    first, second = page.select("form.quiz")
    assert first.legend.text == "Which is α?"
    assert [label.text for label in first.select("label")] == ["a)\u00a0one q", "b)\u00a0two"]
    assert [label["for"] for label in first.select("label")] == [field["id"] for field in first.select("input")]
    assert {field["name"] for field in first.select("input")} == {"quiz-1"}
    assert {field["name"] for field in second.select("input")} == {"quiz-2"}
    assert first.button.has_attr("hidden")  # the script shows it
    assert first.select_one("[role=status]").text == ""
    reasons = [item.text.split("\n") for item in first.select("details li")]
    assert reasons[0][:2] == ["a) is not right.", "No: that is q."]
    assert [line for line in reasons[1] if line] == ["b) is right.", "Yes.", "A second paragraph."]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD.replace("[x]", "[ ]"), "exactly one of them marked [x]"),
        (GOOD.replace("[ ]", "[x]"), "exactly one of them marked [x]"),
        (GOOD.replace("[ ] one", "one"), "starts with [ ] or [x]"),
        (GOOD.replace("\n  No: *that* is $q$.\n", ""), "its feedback is an indented paragraph"),
        (":::{quiz} Which?\n- [x] one\n\n  Yes.\n:::\n", "two or more answers"),
        (":::{quiz} Which?\nNone.\n:::\n", "one list of answers"),
        (GOOD.replace("- [ ]", "Words.\n\n- [ ]"), "one list of answers"),
    ],
    ids=["none right", "two right", "unmarked", "no feedback", "one answer", "no list", "more than a list"],
)
def test_a_wrong_quiz_is_a_build_error(build, text, complaint):
    _, warnings = build(text)
    assert "ERROR" in warnings and complaint in warnings


class StopError(Exception):
    """What stops a build."""


def stop(app, page, *_):
    if page == "late":
        raise StopError


def test_a_page_is_finished_when_it_is_written_whatever_the_build_comes_to(tmp_path):
    (tmp_path / "index.md").write_text("# Index\n\n<i class='x'></i> $x$\n\n```{toctree}\nlate\n```\n", "utf-8")
    (tmp_path / "late.md").write_text("# Late\n", "utf-8")
    settings = {"extensions": ["myst_parser", "specdec.book.site"], "html_theme": "sphinx_book_theme"}
    with small_site(tmp_path, tmp_path, settings | {"myst_enable_extensions": ["dollarmath"]}) as app:
        app.connect("html-page-context", stop)
        with pytest.raises(ExtensionError):
            app.build()
        assert not gc.isenabled()
    assert gc.isenabled(), "a test's build leaves the process as it was"
    page = BeautifulSoup((tmp_path / "html" / "index.html").read_text("utf-8"), "html.parser")
    assert page.select("style#maths") and page.select("svg.svg-inline--fa") and not page.select("i[class*=fa-]")
    assert page.select("[role=banner] .navbar-brand") and not page.select("svg.theme-switch title")


OWN = '''"""Own."""

from fractions import Fraction
from pathlib import Path
from textwrap import TextWrapper

Named = Path
"""Another module's class, documented here."""

class Mine(Fraction):
    """A class."""

def made():
    """A function."""
'''


def skip_all(app, what, name, obj, *_):
    """A wrong twin: it skips a name that the module documents too."""
    return getattr(obj, "__module__", "own_module") != "own_module" or None


@pytest.mark.parametrize(
    ("handler", "named", "read"), [(site.skip_imported, True, False), (skip_all, False, False), (lambda *_: None, True, True)]
)
def test_autodoc_shows_the_same_without_reading_what_a_module_imports(tmp_path, monkeypatch, handler, named, read):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ModuleAnalyzer, "cache", {})
    monkeypatch.setattr(site, "skip_imported", handler)
    (tmp_path / "own_module.py").write_text(OWN, "utf-8")
    (tmp_path / "index.rst").write_text("Page\n====\n\n.. automodule:: own_module\n   :members:\n", "utf-8")
    settings = {"extensions": ["sphinx.ext.autodoc", "specdec.book.site"], "html_theme": "basic"}
    with small_site(tmp_path, tmp_path, settings) as app:
        app.build()
    monkeypatch.delitem(sys.modules, "own_module")
    page = BeautifulSoup((tmp_path / "html" / "index.html").read_text("utf-8"), "html.parser")
    shown = [name.text for name in page.select("dt .descname")]
    assert shown == ["Mine", *["Named"] * named, "made"]
    assert any(name == "textwrap" for _, name in ModuleAnalyzer.cache) is read
