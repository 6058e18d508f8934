"""The lesson's figures are right, and a reader finds each of them on the built page of the worked trace."""

import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup

from specdec import accounting
from specdec.book import lesson
from specdec.chance import law_of
from specdec.decoding import Speculative
from specdec.law import exact
from specdec.models import abc_machine
from specdec.models.table import Table
from specdec.verification import strict

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "chapters/worked-trace.md"
PAGE = ROOT / "_build/html/chapters/worked-trace.html"
TRACE = lesson.load()
NAMES = {  # the page's words for the lesson's results
    "conditional acceptance": "conditional_acceptance",
    "accepted mass": "accepted_mass",
    "acceptance α": "acceptance",
    "rejection": "rejection",
    "correction": "correction",
    "output law": "output",
    "law of the count": "count_law",
    "mean count": "expected_count",
}
RATES = {"tokens/s": "speculative", "tokens/s, baseline": "baseline", "tokens/s, slower verification": "slower_verification"}
ASSUMED_MS = {f"{name.replace('_', ' ')}, ms": ms for name, ms in TRACE["assumed_ms"].items()}


def recomputed():
    """The lesson's results from the programs that verify and decode, along every path; no figure of the lesson but p, q, γ."""
    p, q = TRACE["target"], TRACE["draft"]
    symbols = range(len(p))

    def one_proposal(chance):
        x = chance.draw(q, "propose")
        round_ = strict.verify(np.array([p, p]), q[None], [x], chance)
        return round_.origins[0], round_.tokens[0]

    decoder = Speculative(Table(p), Table(q), TRACE["gamma"])
    paths = law_of(one_proposal)
    counts = law_of(lambda chance: decoder.step(decoder.start(), chance)[0].emitted)
    accepted = exact([paths.get(("accepted", x), 0) for x in symbols])
    corrected = exact([paths.get(("correction", y), 0) for y in symbols])
    return {
        "conditional_acceptance": accepted / q,
        "accepted_mass": accepted,
        "acceptance": accepted.sum(),
        "rejection": corrected.sum(),
        "correction": corrected / corrected.sum(),
        "output": accepted + corrected,
        "counts": exact(sorted(counts)),
        "count_law": exact([counts[count] for count in sorted(counts)]),
        "expected_count": sum(count * weight for count, weight in counts.items()),
    }


def recomputed_rates():
    """Tokens per second under the lesson's assumed times."""
    ms, mean = TRACE["assumed_ms"], recomputed()["expected_count"]
    rest = ms["draft_together"] + ms["overhead"]
    return {
        "speculative": mean / Fraction(rest + ms["verification"], 1000),
        "slower_verification": mean / Fraction(rest + ms["slower_verification"], 1000),
        "baseline": 1 / Fraction(ms["baseline_token"], 1000),
    }


@pytest.mark.parametrize("name", recomputed())
def test_figure_is_what_the_decoder_gives(name):
    assert np.array_equal(recomputed()[name], TRACE[name])


def test_output_law_is_the_target_and_the_laws_are_the_running_example():
    assert (TRACE["output"] == TRACE["target"]).all()
    assert (TRACE["target"] == abc_machine.P).all()
    assert (TRACE["draft"] == abc_machine.Q).all()


def test_formulas_agree_with_the_decoder():
    alpha, gamma = TRACE["acceptance"], TRACE["gamma"]
    assert accounting.count_law(alpha, gamma) == list(TRACE["count_law"])
    assert accounting.expected_count(alpha, gamma) == TRACE["expected_count"]


def test_rates_follow_from_the_assumed_times():
    rates = recomputed_rates()
    for name, stated in TRACE["tokens_per_second"].items():
        assert float(rates[name]) == float(stated)
    for name, stated in TRACE["tokens_per_second_rounded"].items():
        assert abs(rates[name] - stated) <= Fraction(1, 20)  # half a unit of the last digit stated


def test_answers_are_the_recomputed_figures():
    answers = TRACE["answers"]
    assert (answers["correction_after_rejection"] == recomputed()["correction"]).all()
    assert answers["expected_count"] == recomputed()["expected_count"]
    assert answers["preserving_p_makes_true"] is False


def right_answers(page):
    """The options marked right in a page's quizzes."""
    return re.findall(r"^- \[x\] (.*)$", (ROOT / "chapters" / page).read_text("utf-8"), re.M)


def test_quizzes_mark_the_lessons_answers_right():
    answers = right_answers("worked-trace.md")
    assert f"({numbers(TRACE['answers']['correction_after_rejection'])})" in answers
    assert f"{float(TRACE['answers']['expected_count']):g}" in answers
    # To preserve p is to preserve p's falsehoods: the quiz's false statement keeps its probability.
    assert "It still comes out with probability 2/5." in right_answers("chain.md")


def numbers(value, style=str):
    """Several numbers as the page writes them."""
    return ", ".join(style(v) for v in np.atleast_1d(np.array(value, dtype=object)))


def decimal(value):
    return f"{float(value):.4g}"


@pytest.fixture(scope="module")
def article():
    """The built page's article. A missing or older page fails in CI and is skipped elsewhere."""
    if not PAGE.exists() or PAGE.stat().st_mtime < SOURCE.stat().st_mtime:
        reason = f"{PAGE.relative_to(ROOT)} is {'older than its source' if PAGE.exists() else 'not built'}: run `make book` first"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return BeautifulSoup(PAGE.read_text("utf-8"), "html.parser").find("article")


@pytest.fixture(scope="module")
def rows(article):
    """The page's table of all figures: {name: (lesson, recomputed, evidence)}."""
    (table,) = [t for t in article.find_all("table") if t.caption and t.caption.get_text().startswith("Every figure")]
    cells = [[cell.get_text(strip=True) for cell in row.find_all(["th", "td"])] for row in table.tbody.find_all("tr")]
    return {name: tuple(rest) for name, *rest in cells}


def badges(article, kind):
    """The numbers in the prose that carry an evidence badge."""
    texts = [span.get_text().replace("\xa0", " ") for span in article.select(f".evidence-{kind}")]
    return {text.removesuffix(kind).strip() for text in texts}


def test_page_shows_every_result_as_the_lesson_and_as_the_decoder_give_it(rows):
    ours = recomputed()
    for name, key in NAMES.items():
        assert rows[name] == (numbers(TRACE[key], decimal), numbers(ours[key]), "derived")


def test_page_shows_every_rate(rows):
    ours = recomputed_rates()
    for name, key in RATES.items():
        assert rows[name] == (decimal(TRACE["tokens_per_second_rounded"][key]), str(ours[key]), "derived")


def test_page_shows_what_is_assumed_as_assumed(rows):
    given = {"target p": TRACE["target"], "draft q": TRACE["draft"], "proposals γ": TRACE["gamma"], **ASSUMED_MS}
    for name, value in given.items():
        assert rows[name] == (numbers(value, decimal), "", "assumed")
    assert rows.keys() == {*given, *NAMES, *RATES}


def test_prose_labels_the_figures_by_their_evidence(article):
    assumed = {f"{ms} ms" for ms in TRACE["assumed_ms"].values()}
    assumed |= {f"({numbers(TRACE[name])})" for name in ("target", "draft")}
    assert assumed <= badges(article, "assumed")
    derived = {decimal(rate) for rate in TRACE["tokens_per_second_rounded"].values()}
    derived |= {str(TRACE[name]) for name in ("acceptance", "rejection", "expected_count")}
    derived |= {str(weight) for weight in TRACE["count_law"]}
    derived |= {f"({numbers(TRACE['correction'])})"}
    assert derived <= badges(article, "derived")


def test_text_holds_the_lessons_decimals(article):
    text = " ".join(article.get_text(" ").split())
    for name in ("expected_count", "count_law"):
        for value in np.atleast_1d(TRACE[name]):
            assert re.search(rf"(?<![\d.]){re.escape(decimal(value))}(?!\d)", text), value
