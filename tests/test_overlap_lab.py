"""The overlap lab: its exact numbers equal Python's, and its page works by hand, by keyboard and without a script.

Needs Chromium; without it these tests are skipped, except in CI, where they fail.
"""

import json
import random
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from bs4 import BeautifulSoup
from playwright import sync_api

from lab_pages import browser, free_tabs, javascript, open_labs, settled, tab  # noqa: F401  (fixtures)
from specdec import law
from specdec.book.lab import source
from specdec.book.overlap_lab import CORRECTIONS, OverlapLab, solved
from specdec.chance import law_of
from specdec.conformance import mutants
from specdec.verification import strict

BELOW, RULES = source("lab_page.mjs") + source("fractions.mjs"), source("overlap_rules.mjs")
RUN = """
globalThis.run = (settings) => JSON.stringify(settings.map(({ p, q, correction }) => {
  try {
    const c = verified(law("p", p), law("q", q), correction);
    const plain = (value) => (value === null ? null : typeof value[0] === "bigint" ? shown(value) : value.map(shown));
    return Object.fromEntries(Object.entries(c).map(([name, value]) => [name, plain(value)]));
  } catch (error) {
    return { error: error.name === "ValueError" ? error.message : `failed: ${error}` };
  }
}));
"""


def outcome(setting):
    """What Python says of a setting, Fractions as text."""
    try:
        found = solved(setting)
    except ValueError as error:
        return {"error": str(error)}
    found["variation"], found["lack"] = law.total_variation(found["p"], found["q"]), 1 - found["alpha"]
    found["sum"] = found["output"].sum()
    fraction = lambda value: value and str(value)  # noqa: E731  (None stays)
    return {name: list(map(str, x)) if isinstance(x, np.ndarray) else fraction(x) for name, x in found.items()}


def setting(rng):
    """A random setting: zeros, equal and disjoint laws, weights of every size."""
    size, most = rng.randint(2, 6), rng.choice([1, 3, 10, 20, 999])
    p, q = ([rng.randint(0, most) if rng.random() < 0.8 else 0 for _ in range(size)] for _ in "pq")
    kind = rng.randrange(8)
    if kind == 0:
        q = [2 * weight for weight in p] if most < 400 else p
    if kind == 1:
        q = [0 if weight else rng.randint(1, 20) for weight in p]
    if kind == 2:
        q = [int(i == rng.randrange(size)) for i in range(size)]
    return {"p": ",".join(map(str, p)), "q": ",".join(map(str, q)), "correction": rng.choice(list(CORRECTIONS))}


@pytest.fixture(scope="module")
def cases():
    """400 settings, and what Python says of them."""
    rng = random.Random(8)
    settings = [setting(rng) for _ in range(400)]
    return settings, [outcome(given) for given in settings]


def asked(page, settings):
    """What JavaScript says, without what only it has."""
    told = json.loads(page.evaluate("given => run(given)", settings))
    return [{key: value for key, value in each.items() if key not in ("correction", "corrected")} for each in told]


def texts(told):
    """Numbers compare as texts; 0 and null are told apart."""
    return [{key: "0" if value == 0 and value is not None else value for key, value in each.items()} for each in told]


def test_the_browser_equals_python_exactly(javascript, cases):  # noqa: F811
    settings, expected = cases
    page = javascript(BELOW + RULES + RUN)
    for given, python, told in zip(settings, texts(expected), asked(page, settings), strict=True):
        assert told == python, given
    sound = [(given, case) for given, case in zip(settings, expected, strict=True) if "error" not in case]
    counted = Counter(fact for given, case in sound for fact in facts(given, case))
    assert len(sound) >= 300
    assert min(counted.values()) >= 20
    assert len(counted) == 5 + len(CORRECTIONS) + 4


def facts(given, case):
    """What makes a setting worth comparing."""
    yield given["correction"]
    yield len(case["p"])
    yield from ["equal"] * (case["residual"] is None)
    yield from ["disjoint"] * (case["alpha"] in (0, "0"))
    yield from ["a wrong law"] * (case["wrong"] not in (0, "0"))
    yield from ["zeros"] * ("0" in case["p"])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("p.map((value, i) => least(value, q[i]))", "p.map((value, i) => times(value, q[i]))"),
        ("refilled.map((value) => over(value, total(refilled)))", "refilled"),
        ("p.map((value, i) => positive(minus(value, q[i])))", "p.map((value, i) => size(minus(value, q[i])))"),
        ("residual: ({ residual }) => residual", "residual: ({ p }) => p"),
        ("second.map((value) => times(lack, value))", "second.map((value) => times(alpha, value))"),
        ("times([1n, 2n], total(", "times([1n, 1n], total("),
        ("!below(one, other)", "!below(other, one)"),
        ("[weight, sum]", "[weight, sum + 1n]"),
    ],
)
def test_a_wrong_rule_is_caught(javascript, cases, right, wrong):  # noqa: F811
    assert RULES.count(right) == 1
    settings, expected = cases
    page = javascript(BELOW + RULES.replace(right, wrong) + RUN)
    assert asked(page, settings) != texts(expected)


@pytest.mark.parametrize(("correction", "rule"), [("residual", strict.verify), ("p", mutants.residual_is_p),
                                                  ("argmax", mutants.correction_is_argmax_of_p)])  # fmt: skip
def test_python_tells_what_the_rule_emits(cases, correction, rule):
    """The lab's own Python against the rules, run along every path."""
    sound = [given for given, case in zip(*cases, strict=True) if "error" not in case][:60]
    for given in sound:
        found = solved({**given, "correction": correction})
        p, q = found["p"], found["q"]
        emitted = law_of(lambda chance: rule(np.array([p, p]), q[None], [chance.draw(q, "propose")], chance).tokens[0])  # noqa: B023
        assert all(emitted.get(y, 0) == found["output"][y] for y in range(len(p)))


# ---- the page --------------------------------------------------------------------------------------------------------------

LAB = {"p": (5, 3, 2), "q": (2, 2, 6)}


@pytest.fixture
def visit(open_labs):  # noqa: F811
    """Open a page with the lab alone."""

    def visit(begin="", preset=LAB, **kind):
        return open_labs(OverlapLab(**preset), begin=begin, **kind)

    return visit


def shown(page):
    """The headline and the table's rows."""
    table = [row.locator("th, td").all_inner_texts() for row in page.locator(".lab-table tbody tr").all()]
    return page.locator(".lab-total").inner_text(), table


def last_words(page):
    return page.locator(".overlap-words li").last.inner_text()


def test_the_page_shows_what_python_computes(visit):
    page, found = visit(), solved(OverlapLab.filled(LAB))
    total, table = shown(page)
    assert total == "α = Σ min(p, q) = 1 − TV(p, q) = 3/5 = 0.600"
    columns = ("p", "q", "accepted", "rejected", "refilled", "residual", "output")
    for i, row in enumerate(table[:-1]):
        assert [Fraction(cell.split()[0]) for cell in row[1:]] == [found[name][i] for name in columns]
    assert table[-1] == ["sum", "1", "1", "3/5 = 0.600", "2/5 = 0.400", "2/5 = 0.400", "1", "1"]
    label = page.locator("figure svg").get_attribute("aria-label")
    assert "C: accepted 1/5, rejected 2/5, refilled 0, out 1/5, target 1/5." in label


def test_decimals_that_are_rounded_say_so(visit):
    page = visit(preset={"p": (2, 1), "q": (1, 1)})
    assert shown(page)[1][0][1:3] == ["2/3 ≈ 0.667", "1/2 = 0.500"]


@pytest.mark.parametrize(
    ("button", "total", "words"),
    [
        ("one symbol in the residual", "= 3/5 = 0.600", "Out comes (3/5, 3/10, 1/10) = p"),
        ("equal laws", "= 1", "= p, symbol by symbol"),
        ("disjoint laws", "= 0", "= p, symbol by symbol"),
        ("one-hot draft", "= 3/10 = 0.300", "= p, symbol by symbol"),
    ],
)
def test_examples_by_keyboard(visit, button, total, words):
    page = visit()
    page.get_by_role("button", name=button).focus()
    page.keyboard.press("Enter")
    assert shown(page)[0].endswith(total)
    assert words in last_words(page)
    assert page.locator("[aria-pressed=true]").all_inner_texts() == [button]
    first = page.locator(".overlap-words li").first.inner_text()
    assert ("nothing is ever rejected" in first) == (button == "equal laws")
    assert ("share no symbol" in first) == (button == "disjoint laws")


@pytest.mark.parametrize(
    ("correction", "law_out", "words"),
    [
        ("p", "(2/5, 8/25, 7/25)", "not p: the distance from p is 1/10 = 0.100"),
        ("argmax", "(3/5, 1/5, 1/5)", "not p: the distance from p is 1/10 = 0.100"),
        ("p - q", None, "is no law: what comes out sums to 19/25 = 0.760. The missing 6/25 falls on"),
    ],
)
def test_wrong_corrections_tell_the_law_that_comes_out(visit, correction, law_out, words):
    page = visit()
    page.get_by_label("The correction is").select_option(correction)
    assert words in last_words(page)
    if law_out:
        assert f"Out comes {law_out}" in last_words(page)
    sync_api.expect(page.locator(".lab-spoken")).to_contain_text(words[-12:])


def test_a_degenerate_residual_lets_argmax_pass(visit):
    page = visit(preset={"p": (6, 3, 1), "q": (2, 3, 5), "correction": "argmax"})
    assert "= p all the same: on this pair the wrong correction and the residual agree" in last_words(page)


def test_sliders_move_by_keyboard_and_the_result_is_said_once_the_hand_rests(visit):
    page = visit()
    slider = page.get_by_label("Weight of A in the draft q, slider")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.get_by_label("Weight of A in the draft q", exact=True).input_value() == "5"
    said = page.locator(".lab-spoken")
    sync_api.expect(said).to_contain_text("α is 48/65 ≈ 0.738")
    page.get_by_label("Number of symbols").select_option("4")
    assert len(shown(page)[1]) == 5
    assert page.locator("[data-weight=pD]").input_value() == "1"
    page.get_by_label("Number of symbols").select_option("2")
    assert [row[0] for row in shown(page)[1]] == ["A", "B", "sum"]
    page.get_by_role("button", name="Reset").click()
    assert shown(page) == shown(visit())


@pytest.mark.parametrize("width", [1000, 390])
def test_bars_drag_to_the_nearest_weight(visit, width):
    page = visit(width=width)
    for name, drop, place in (("qC", 0.5, ("q", 2)), ("pA", 0.25, ("p", 0))):
        page.locator(f"[data-bar={name}]").scroll_into_view_if_needed()
        box = page.locator(f"[data-bar={name}]").bounding_box()
        tall = page.locator("figure svg").bounding_box()
        scale = tall["height"] / float(page.locator("figure svg").get_attribute("height"))
        now = float(Fraction(solved(OverlapLab.filled(LAB))[place[0]][place[1]]))
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y + (now - drop) * 170 * scale, steps=5)
        page.mouse.up()
    weights = {name: page.locator(f"[data-weight={name}]").input_value() for name in ("qC", "pA")}
    assert weights == {"qC": "4", "pA": "2"}  # 4 of 2 + 2 + 4 is 1/2; 2 of 2 + 3 + 2 is nearest to 1/4
    assert "not p" not in last_words(page)


def test_the_address_restores_a_setting(visit):
    page = visit()
    page.locator("[data-weight=pB]").fill("7")
    page.get_by_label("The correction is").select_option("p")
    shared = settled(page, "overlap")
    assert shown(visit(shared)) == shown(page)
    other = visit()
    other.evaluate("address => { location.hash = address; }", shared)
    sync_api.expect(other.locator(".lab-total")).to_have_text(shown(page)[0])


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"pA": ""}, "the weight of A in p is empty: give a whole number of at least 0"),
        ({"qB": "-1"}, "the weight of B in q is -1: give a whole number of at least 0"),
        ({"qB": "1,5"}, "the weight of B in q is 1.5: give a whole number of at least 0"),
        ({"pC": "1000"}, "the weight of C in p is 1000: it must be at most 999"),
        ({"pA": "0", "pB": "0", "pC": "0"}, "p has no weight above 0: give one symbol at least 1"),
    ],
)
def test_what_cannot_be_computed_is_said_in_the_place_of_all_numbers(visit, values, complaint):
    page = visit()
    for name, value in values.items():
        page.locator(f"[data-weight={name}]").fill(value)
    assert page.get_by_role("alert").inner_text() == complaint
    assert not page.locator(".lab-total").is_visible()
    page.get_by_role("button", name="two symbols").click()
    assert page.get_by_role("alert").inner_text() == ""
    assert page.locator(".lab-total").is_visible()


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("p=1%2C2", "p has 2 weights and q 3: give both the same number"),
        ("p=1&q=1", "p has 1 weights: give 2 to 6"),
        ("q=1%2C1%2C1%2C1%2C1%2C1%2C1", "q has 7 weights: give 2 to 6"),
        ("correction=x", "correction is x: choose one of residual, p, argmax, p - q"),
    ],
)
def test_a_broken_link_is_told(visit, address, complaint):
    assert complaint in visit(f"#overlap:{address}").get_by_role("alert").inner_text()


@pytest.mark.parametrize("symbols", [3, 6])
def test_everything_has_a_name_and_fits_a_phone(visit, symbols):
    page = visit(preset={"p": list(range(1, symbols + 1)), "q": [999] * symbols}, width=390)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    unnamed = "[...document.querySelectorAll('input, select')].filter(x => !x.labels.length && !x.ariaLabel).length"
    assert page.evaluate(unnamed) == 0
    assert page.locator("fieldset legend").count() == page.locator("fieldset").count()
    assert page.locator("figure svg").bounding_box()["width"] <= 390
    assert page.locator("th:not([scope])").count() == 0


def test_masses_differ_by_more_than_colour(visit):
    fills = "name => getComputedStyle(document.querySelector(name)).fill"
    page = visit()
    assert "hatch" in page.evaluate(fills, ".overlap-rejected")
    assert "dots" in page.evaluate(fills, ".overlap-corrected")


def test_without_javascript_the_same_pair_is_a_table(visit):
    text = visit(script=False).locator(".result-table").inner_text()
    assert re.search(r"C\s+1/5\s+3/5\s+1/5\s+2/5\s+0\s+0\s+1/5", text)
    assert "α = 3/5, and the output is p." in text


def test_the_object_prints_a_line_and_refuses_what_it_cannot_compute():
    assert repr(OverlapLab(**LAB)) == "OverlapLab: p 5,3,2, q 2,2,6, correction residual"
    for given, fault in (({"p": (1, 2)}, "p has 2 weights and q 3"), ({"p": "1,x,2"}, "the weight of B in p is x"),
                         ({"q": "0,0,0"}, "q has no weight above 0"), ({"correction": "x"}, "choose one of"),
                         ({"p": "1"}, "2 to 6"), ({"pp": 1}, "pp: a setting has p, q, correction")):  # fmt: skip
        with pytest.raises(ValueError, match=fault):
            OverlapLab(**given)
    equal = OverlapLab(p=(1, 1), q=(2, 2), correction="p")
    assert "none" in BeautifulSoup(equal.static()._repr_html_(), "html.parser").text
    assert json.loads(equal.facts()) is None
