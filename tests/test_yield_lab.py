"""The lab *yield and cost*: its rules equal `specdec.accounting` as Fractions, and its page works without a kernel.

No tolerance: the browser computes in BigInt fractions, so the law, the mean, the speed, the best γ with its ties and the
break-even, which both halve 50 times, are the same numbers.
Needs Chromium; without it these tests are skipped, except in CI, where they fail.
"""

import json
import random
import re
from collections import Counter
from fractions import Fraction as F

import pytest
from bs4 import BeautifulSoup
from playwright import sync_api

from lab_pages import browser, busy, free_tabs, javascript, open_labs, settled, tab  # noqa: F401  (fixtures)
from specdec import accounting, law
from specdec.book import lab, lesson
from specdec.book.yield_lab import LARGEST, YieldLab, round_time, scenarios, step
from specdec.chance import law_of
from specdec.decoding import Speculative
from specdec.models.table import Table

MODULE = "".join(map(lab.source, ("lab_page.mjs", "fractions.mjs", "yield_rules.mjs")))
RUN = """
const plain = (key, value) => (typeof value?.[0] === "bigint" ? value.join("/") : value);
globalThis.run = (settings) => JSON.stringify(settings.map((setting) => {
  try {
    return computed(setting);
  } catch (error) {
    return { error: error instanceof ValueError ? error.message : `not a ValueError: ${error}` };
  }
}), plain);
globalThis.frontier = (settings) => JSON.stringify(settings.map((setting) =>
  break_even_alpha(read(setting).costs, Array.from({ length: LARGEST }, (_, g) => g + 1))), plain);
globalThis.numbers = (pairs) => pairs.map(([n, d]) => near([BigInt(n), BigInt(d)]));
"""
FIRST = YieldLab.defaults


# ---- what Python says --------------------------------------------------------------------------------------------------------


def computed(setting):
    """The lab's numbers by `specdec.accounting`, as Fractions."""
    alpha, gamma, base = F(setting["alpha"]), int(setting["gamma"]), step(setting)
    parts, count = round_time(setting, gamma), accounting.expected_count(alpha, gamma)
    rate = accounting.throughput(alpha, gamma, **parts)
    free = F(setting["overhead"])
    best, top = accounting.best_gamma(
        alpha, draft_step=F(setting["draft"]), verify=lambda g: round_time(setting, g)["verify"], overhead=free, largest=LARGEST
    )
    rates = [accounting.throughput(alpha, g, **round_time(setting, g)) for g in range(LARGEST + 1)]
    rest = {"draft": parts["draft"], "overhead": parts["overhead"], "baseline": base}
    return {
        "law": accounting.count_law(alpha, gamma), "mean": count, "time": sum(parts.values()), "rate": rate,
        "ratio": rate * base, "best": [best, top * base, [g for g, each in enumerate(rates) if each == top]],
        "even_verify": accounting.break_even_verify(alpha, gamma, **rest),
        "even_alpha": accounting.break_even_alpha(gamma, verify=parts["verify"], **rest) if gamma else None,
        "cheap": parts["verify"] < base,
    }  # fmt: skip


def asked(page, settings):
    """What JavaScript says of the settings, its texts turned to Fractions."""
    return [given if "error" in given else read(given) for given in json.loads(page.evaluate("given => run(given)", settings))]


def read(given):
    keys = ("mean", "time", "rate", "ratio", "even_verify", "even_alpha")
    numbers = {key: None if given[key] is None else F(given[key]) for key in keys}
    best = [given["best"]["gamma"], F(given["best"]["ratio"]), given["best"]["ties"]]
    return {**numbers, "law": [F(share) for share in given["law"]], "best": best, "cheap": given["cheap"]}


# ---- settings ----------------------------------------------------------------------------------------------------------------


def text(rng, high):
    """A number from 0 to `high` as a field may hold it: few and many decimals, fractions, the ends."""
    kind = rng.randrange(8)
    if kind == 0:
        return "0"
    if kind == 1:
        return str(high)
    if kind < 4:
        under = rng.randrange(1, 30)
        return f"{rng.randrange(high * under + 1)}/{under}"
    return f"{rng.uniform(0, high):.{rng.choice([1, 2, 2, 6])}f}"


def some_setting(rng):
    steps = rng.random() < 0.4
    cost = 2 if steps else 12
    draft = text(rng, cost) if rng.random() < 0.5 else text(rng, 1)
    alike = rng.random() < 0.5  # v = 1 and no overhead, where α = c ties
    base = rng.choice(["6", "7.5", "1/3", "0.001", "12"])
    setting = {
        "alpha": text(rng, 1), "gamma": str(rng.randrange(LARGEST + 1)), "unit": "steps" if steps else "ms", "draft": draft,
        "verify": ("1" if steps else base) if alike else text(rng, cost), "growth": rng.choice(["0", "0", text(rng, 1)]),
        "overhead": "0" if alike else text(rng, 2), "baseline": base, "map": "gamma",
    }  # fmt: skip
    if rng.random() < 0.1:
        setting |= {"draft": setting["alpha"]} if steps else {"draft": str(F(setting["alpha"]) * F(base))}
    return setting


def facts(setting, said):
    """What makes a setting worth comparing."""
    yield from ["γ = 0"] * (setting["gamma"] == "0")
    yield from ["α = 0"] * (F(setting["alpha"]) == 0)
    yield from ["α = 1"] * (F(setting["alpha"]) == 1)
    yield from ["drafting is free"] * (F(setting["draft"]) == 0)
    yield from ["verification grows"] * (F(setting["growth"]) > 0)
    yield from ["cheaper than a step"] * said["cheap"]
    yield from ["no γ pays"] * (said["best"][0] == 0)
    yield from ["a tie for the best"] * (len(said["best"][2]) > 1)
    yield from ["a best γ in between"] * (0 < said["best"][0] < LARGEST)
    yield from ["the largest is best"] * (said["best"][0] == LARGEST)
    yield from ["no α is enough"] * (setting["gamma"] != "0" and said["even_alpha"] is None)
    yield from ["any α is enough"] * (said["even_alpha"] == 0)
    yield from ["a break-even in between"] * (said["even_alpha"] is not None and 0 < said["even_alpha"] < 1)
    yield from ["no verification is fast enough"] * (said["even_verify"] <= 0)


@pytest.fixture(scope="module")
def cases():
    """Settings and what Python says of them."""
    rng = random.Random(3)
    settings = [some_setting(rng) for _ in range(330)]
    settings = [each for each in settings if sum(round_time(each, 1).values())]
    return settings, [computed(each) for each in settings]


def test_the_browser_equals_python_exactly(javascript, cases):  # noqa: F811
    settings, expected = cases
    for given, python, page in zip(settings, expected, asked(javascript(MODULE + RUN), settings), strict=True):
        assert page == python, given
    assert len(settings) >= 320
    counted = Counter(fact for given, said in zip(settings, expected, strict=True) for fact in facts(given, said))
    assert {fact: number for fact, number in counted.items() if number < 5} == {}
    assert len(counted) == 14


WRONG = [
    ("power(alpha, j)", "power(alpha, j + 1)"),
    ("j < gamma ? times(tail, stop) : tail", "times(tail, stop)"),
    ("gamma <= largest; gamma++", "gamma < largest; gamma++"),  # α^γ for α^(γ+1) in the closed form: a term too few
    ("plus(ONE, times(alpha, found[gamma - 1]))", "times(alpha, found[gamma - 1])"),
    ("if (gamma === 0) return { draft: ZERO, verify: costs.baseline, overhead: ZERO };", ""),
    ("plus(costs.verify, times(g, costs.growth))", "costs.verify"),
    ("plus(costs.verify, times(g, costs.growth))", "plus(costs.verify, costs.growth)"),
    ("plus(plus(draft, verify), overhead)", "plus(draft, verify)"),
    ("plus(plus(draft, verify), overhead)", "plus(draft, overhead)"),  # a break-even without the verification
    ("if (below(best, ratio))", "if (!below(ratio, best))"),
    ("gamma > 0 && equal(ratio, best)", "gamma > 0 && false"),
    ("halvings = 50", "halvings = 49"),
    ("!below(mean[gamma], length)", "below(length, mean[gamma])"),
    ("reduced([high, unit])", "reduced([low, unit])"),
    ('setting.unit === "steps" ? ONE : ', ""),
    ("minus(minus(times(mean, costs.baseline), draft), overhead)", "minus(times(mean, costs.baseline), draft)"),
    ("below(verify, costs.baseline)", "!below(costs.baseline, verify)"),
]


@pytest.mark.parametrize(("right", "wrong"), WRONG)
def test_a_wrong_rule_is_caught(javascript, cases, right, wrong):  # noqa: F811
    assert MODULE.count(right) == 1
    settings, expected = cases
    page = javascript(MODULE.replace(right, wrong) + RUN)
    try:
        some = 30  # most are caught early
        assert any(asked(page, settings[i : i + some]) != expected[i : i + some] for i in range(0, len(settings), some))
    except (ValueError, ZeroDivisionError, KeyError, TypeError, sync_api.Error):
        pass  # a wrong rule that yields no number is caught too
    page.complaints.clear()


EDGES = [
    ({"alpha": "0"}, {"law": [1, 0, 0], "mean": 1, "even_alpha": None}),
    ({"alpha": "1"}, {"law": [0, 0, 1], "mean": 3}),
    ({"gamma": "0"}, {"law": [1], "mean": 1, "time": 6, "ratio": 1, "even_verify": 6}),
    ({"gamma": "0", "alpha": "0"}, {"law": [1], "mean": 1}),
    ({}, {"law": [F(2, 5), F(6, 25), F(9, 25)], "mean": F(49, 25), "rate": F(49, 225), "even_verify": F(219, 25)}),
    ({"verify": "12"}, {"rate": F(49, 375), "ratio": F(98, 125)}),
    ({"verify": "8.76"}, {"ratio": 1}),
    ({"verify": "15"}, {"even_alpha": 1}),  # 18 ms: three tokens and no less
    ({"verify": "15.1"}, {"even_alpha": None}),
    ({"verify": "3"}, {"even_alpha": 0, "cheap": True}),
    ({"verify": "6"}, {"cheap": False}),
    ({"draft": "0", "alpha": "1"}, {"best": [16, F(17 * 6, 7), [16]]}),
    ({"unit": "steps", "alpha": "0.3", "draft": "0.4", "verify": "1", "overhead": "0"}, {"best": [0, 1, [0]]}),
    ({"unit": "steps", "alpha": "0.3", "draft": "3/10", "verify": "1", "overhead": "0"}, {"best": [0, 1, [0, 1]]}),
    ({"unit": "steps", "alpha": "1", "draft": "1", "verify": "1", "overhead": "0"}, {"best": [0, 1, list(range(17))]}),
    ({"unit": "steps", "alpha": "0", "draft": "0", "verify": "1", "overhead": "0"}, {"best": [0, 1, list(range(17))]}),
]


EDGES[0][1]["even_alpha"] = computed(FIRST)["even_alpha"]  # .366, whatever α is


@pytest.mark.parametrize(("changes", "known"), EDGES)
def test_edges(javascript, changes, known):  # noqa: F811
    (said,) = asked(javascript(MODULE + RUN), [{**FIRST, **changes}])
    assert {key: said[key] for key in known} == known
    assert said == computed({**FIRST, **changes})


def test_the_maps_line_is_the_least_break_even_of_all_gammas(javascript, cases):  # noqa: F811
    settings = cases[0][:60]
    found = json.loads(javascript(MODULE + RUN).evaluate("given => frontier(given)", settings))
    for setting, line in zip(settings, found, strict=True):
        each = [accounting.break_even_alpha(g, baseline=step(setting), **round_time(setting, g)) for g in range(1, LARGEST + 1)]
        assert (None if line is None else F(line)) == min((even for even in each if even is not None), default=None), setting


def test_drawn_numbers_are_the_exact_ones_to_a_float(javascript):  # noqa: F811
    """17 digits of a quotient, then one rounding and a power of ten: 4 in 10^16 at most."""
    rng = random.Random(8)
    sizes = [10**a for a in (1, 9, 60, 300)]
    pairs = [(rng.randrange(-a, a), rng.randrange(1, b)) for a in sizes for b in sizes for _ in range(9)]
    found = javascript(MODULE + RUN).evaluate("pairs => numbers(pairs)", [[str(n), str(d)] for n, d in pairs])
    for (n, d), number in zip(pairs, found, strict=True):
        assert number == pytest.approx(float(F(n, d)), rel=4e-16, abs=1e-290), (n, d)


def test_the_law_is_the_decoders_own(javascript):  # noqa: F811
    """The forgetful machine run along every branch, where iid is a theorem and no assumption."""
    p, q = law.exact([6, 3, 1], 10), law.exact([2, 3, 5], 10)
    decoder = Speculative(Table(p), Table(q), 3)
    counts = law_of(lambda chance: decoder.step(decoder.start(), chance)[0].emitted)
    (said,) = asked(javascript(MODULE + RUN), [{**FIRST, "gamma": "3"}])
    assert said["law"] == [counts[k] for k in (1, 2, 3, 4)]


def test_the_scenarios_are_the_lessons():
    first, alone, slow, even, none = map(computed, scenarios().values())
    said = lesson.load()
    assert first["law"] == list(said["count_law"]) and first["mean"] == said["expected_count"]
    rounded = said["tokens_per_second_rounded"]
    assert [round(float(1000 * each["rate"]), 1) for each in (first, alone, slow)] == [
        float(rounded[name]) for name in ("speculative", "baseline", "slower_verification")
    ]
    assert even["ratio"] == 1 and none["best"][0] == 0


# ---- the page ----------------------------------------------------------------------------------------------------------------


def field(page, key):
    return page.locator(f".lab-key-{key} :is(input:not([type=range]), select)")


def slider(page, key):
    return page.locator(f".lab-key-{key} input[type=range]")


def answers(page):
    rows = page.locator(".lab-table").first.locator("tr").all()
    return {row.locator("th").inner_text(): row.locator("td").inner_text() for row in rows}


def total(page):
    return page.locator(".lab-total").inner_text()


def test_the_page_shows_what_python_computes(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    assert total(page) == "217.8 tokens/s at assumed costs: 1.307 times the target alone, faster"
    told = answers(page)
    assert told["Mean tokens a round, E[K]"] == "1.96"
    assert told["A round lasts (assumed)"] == "2 + 6 + 1 = 9 ms"
    assert told["The target alone"] == "166.7 tokens/s"
    assert told["Verification may take, at most, to pay"] == "8.76 ms"
    assert told["Acceptance needed to pay at this γ"] == "0.3660"
    assert told["Best γ up to 16"] == "2: 1.307 times the target alone"
    law_table = page.locator("details").nth(1)
    law_table.locator("summary").click()
    assert law_table.locator("tbody").inner_text().split() == ["1", "0.4", "1", "2", "0.24", "0.6", "3", "0.36", "0.36"]


def test_the_scenarios_are_one_press_away(open_labs):  # noqa: F811
    page = open_labs(YieldLab(alpha="0.9"))
    for name, expected in zip(scenarios(), ("217.8", "166.7", "130.7", "166.7", "0.772"), strict=True):
        button = page.get_by_role("button", name=name, exact=True)
        button.focus()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        assert expected in total(page)
    assert "no γ is faster" in page.get_by_label("Warnings").inner_text()


CHANGES = {"alpha": "0.85", "gamma": "5", "draft": "0.3", "verify": "7", "growth": "1/2", "overhead": "0.2", "baseline": "8"}
CHANGES |= {"map": "draft"}


def test_every_control_changes_the_page_and_the_address_restores_it(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    results = page.locator(".lab-panel > :not([role])")  # what is said follows a moment later
    seen = [results.inner_html()]
    for key, value in CHANGES.items():
        enter(field(page, key), value)
        seen.append(results.inner_html())
        assert seen[-1] != seen[-2], key
    shared = settled(page, "yield")
    assert answers(open_labs(YieldLab(), begin=shared)) == answers(page)
    for key in reversed(CHANGES):
        assert results.inner_html() == seen.pop()
        enter(field(page, key), FIRST[key])
    assert [results.inner_html()] == seen


def enter(where, value):
    if where.evaluate("field => field.tagName") == "SELECT":
        where.select_option(value)
    else:
        where.fill(value)


def test_sliders_move_by_keyboard_and_the_result_is_said_once_the_hand_rests(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    presses = [("alpha", "ArrowRight", "0.61"), ("gamma", "ArrowRight", "3"), ("growth", "End", "20"), ("draft", "Home", "0")]
    for key, press, expected in presses:
        slider(page, key).focus()
        page.keyboard.press(press)
        assert field(page, key).input_value() == expected
    said = page.locator(".lab-spoken")
    sync_api.expect(said).to_contain_text("times the target alone, slower. Best γ: ")


def test_the_map_moves_by_arrow_keys_and_clicks(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    page.locator(".yield-map").focus()
    down = [("ArrowDown", "0.6", str(g)) for g in (2, 1, 0, 0)]
    for key, alpha, gamma in [("ArrowRight", "0.7", "2"), ("ArrowUp", "0.7", "3"), ("ArrowLeft", "0.6", "3"), *down]:
        page.keyboard.press(key)
        assert (field(page, "alpha").input_value(), field(page, "gamma").input_value()) == (alpha, gamma)
    field(page, "alpha").fill("0.63")
    page.locator(".yield-map").focus()
    page.keyboard.press("ArrowLeft")
    assert field(page, "alpha").input_value() == "0.6"
    page.locator(".yield-map rect").nth(11 * 4 + 9).click(position={"x": 4, "y": 4})  # fifth row, tenth column
    assert (field(page, "alpha").input_value(), field(page, "gamma").input_value()) == ("0.9", "4")
    field(page, "map").select_option("draft")
    page.locator(".yield-map").focus()
    page.keyboard.press("ArrowUp")
    assert field(page, "draft").input_value() == "1.2", "a fifth of a target step, next above a sixth"
    sync_api.expect(page.locator(".lab-spoken")).to_contain_text("tokens/s")


def test_the_maps_table_has_pythons_numbers(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    page.get_by_text("The map as a table").click()
    page.locator("details tbody tr").first.wait_for()
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("details").first.locator("tbody tr").all()]
    assert [row[0] for row in rows] == [str(g) for g in range(8, -1, -1)]
    for name, *cells, even in rows:
        at = accounting.break_even_alpha(int(name), baseline=6, **round_time(FIRST, int(name))) if name != "0" else None
        assert even == ("" if name == "0" else "never" if at is None else f"{float(at):.4f}")
        for tenth, cell in enumerate(cells):
            said = computed({**FIRST, "alpha": f"{tenth}/10", "gamma": name})
            assert cell.startswith(f"{float(said['ratio']):.3f}")
            assert ("slower" in cell) == (said["ratio"] < 1)
            assert ("best γ" in cell) == (said["best"][0] == int(name))


def test_the_unit_converts_costs_exactly_and_back(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    page.get_by_label("target steps", exact=True).check()
    assert {key: field(page, key).input_value() for key in ("draft", "verify", "overhead")} == {
        "draft": "1/6", "verify": "1", "overhead": "1/6",
    }  # fmt: skip
    assert total(page) == "1.307 tokens per target step at assumed costs: 1.307 times the target alone, faster"
    assert field(page, "baseline").is_disabled()
    assert float(slider(page, "draft").input_value()) == pytest.approx(1 / 6, abs=0.01)
    assert page.get_by_label("One draft step, target steps", exact=True).count() == 1
    assert page.get_by_label("One step of the target alone, ms: here the unit", exact=True).input_value() == "6"
    page.get_by_label("ms", exact=True).check()
    assert {key: field(page, key).input_value() for key in FIRST if key not in ("unit", "map")} == {
        key: FIRST[key] for key in FIRST if key not in ("unit", "map")
    }


def test_predictions_are_judged_by_the_lab(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    right = ["slower", "slower", "16", "2"]
    for item, answer in zip(page.locator(".yield-predict li").all(), right, strict=True):
        for button in item.get_by_role("button").all():
            button.focus()
            page.keyboard.press("Space")
            verdict = "Right" if button.inner_text() == answer else "Not so"
            assert f"You said {button.inner_text()}. {verdict}: " in page.locator(".yield-predict output").inner_text()
    field(page, "alpha").fill("0.5")
    assert page.locator(".yield-predict output").inner_text() == "", "the verdict was on another setting"


COMPLAINTS = [
    ("alpha", "1.01", "α is 1.01: give a number from 0 to 1, such as 0.6 or 3/5"),
    ("alpha", "", "α is empty: give a number"),
    ("alpha", "-0.1", "α is -0.1: give a number"),
    ("gamma", "17", "γ is 17: it must be at most 16"),
    ("gamma", "2.5", "γ is 2.5: give a whole number"),
    ("draft", "-1", "draft step is -1: give a number of at least 0"),
    ("verify", "1/0", "verification is 1/0: give a number of at least 0"),
    ("growth", "x", "growth of verification is x: give"),
    ("overhead", "1e3", "overhead is 1e3: give"),
    ("baseline", "0", "target step is 0"),
]


def test_what_cannot_be_computed_is_said_in_the_place_of_all_numbers(open_labs):  # noqa: F811
    page = open_labs(YieldLab())
    for key, value, complaint in COMPLAINTS:
        field(page, key).fill(value)
        assert complaint in page.get_by_role("alert").inner_text()
        assert not page.locator(".lab-total").is_visible()
        page.get_by_label("target steps", exact=True).check()  # converts nothing that it can't read, and does not fail
        page.get_by_role("button", name="Reset").click()
        assert page.get_by_role("alert").inner_text() == ""
        assert page.locator(".lab-total").is_visible()


def test_rounds_of_no_duration_are_refused_as_python_refuses_them(open_labs):  # noqa: F811
    free = {"draft": "0", "verify": "0", "overhead": "0"}
    page = open_labs(YieldLab(**free))
    with pytest.raises(ValueError, match="a round of no duration") as refused:
        computed({**FIRST, **free})
    assert page.get_by_role("alert").inner_text() == str(refused.value)


def test_a_verification_cheaper_than_a_step_is_warned_of(open_labs):  # noqa: F811
    page = open_labs(YieldLab(verify="5"))
    assert "does not do less work" in page.get_by_label("Warnings").inner_text()
    field(page, "verify").fill("6")
    assert not page.get_by_label("Warnings").is_visible()


def test_everything_has_a_name_and_fits_a_phone(open_labs):  # noqa: F811
    page = open_labs(YieldLab(gamma=16), width=390)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    unnamed = "[...document.querySelectorAll('input, select, textarea')].filter(x => !x.labels.length && !x.ariaLabel).length"
    assert page.evaluate(unnamed) == 0
    drawings = page.locator(".lab-panel figure svg").all()
    assert len(drawings) == 3
    for drawing in drawings:
        assert drawing.get_attribute("role") == "img" and len(drawing.get_attribute("aria-label")) > 40
        assert drawing.bounding_box()["width"] <= 390
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(x => x.id)")
    assert len(ids) == len(set(ids))
    assert page.get_by_text(re.compile("assumed")).count() >= 3


def test_a_move_is_computed_within_a_frame(open_labs):  # noqa: F811
    moved = """async () => {
      const fields = ["alpha", "gamma", "draft"].map((key) => document.querySelector(`.lab-key-${key} [type=range]`));
      for (let i = 0; i < 24; i++) {
        fields[i % 3].value = [0.2 + i / 150, i % 17, (i % 40) / 10][i % 3];
        fields[i % 3].dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise(requestAnimationFrame);
      }
    }"""
    assert 0 < busy(open_labs(YieldLab(map="draft")), moved) / 24 < 0.016


def test_without_javascript_the_scenarios_are_a_picture_and_a_table(open_labs):  # noqa: F811
    page = open_labs(YieldLab(), script=False)
    text = page.locator(".result-table").inner_text()
    assert all(number in text for number in ("217.8", "166.7", "130.7", "1.307", "0.784"))
    assert "The target alone takes 11.76 for 1.96 tokens" in page.locator("figure svg").get_attribute("aria-label")
    assert "assumed" in page.locator("figcaption").inner_text()


def test_the_object_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="gama: a setting has alpha, gamma"):
        YieldLab(gama=2)
    assert BeautifulSoup(YieldLab(gamma=0, unit="steps").static()._repr_html_(), "html.parser").figure
