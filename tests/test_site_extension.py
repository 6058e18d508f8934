"""The Sphinx extension on small sources: badges in words, and quizzes that refuse to be built wrong."""

import io

import pytest
from bs4 import BeautifulSoup

from small_site import small_site

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
