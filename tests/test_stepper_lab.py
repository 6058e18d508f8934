"""The stepper: what its page shows is what the library decodes, decision by decision and cache by cache, with no kernel.

Needs Chromium; without it the tests of the page are skipped, except in CI, where they fail.
"""

import gzip
import json
import random
import re
from fractions import Fraction
from functools import cache

import pytest

from lab_pages import browser, free_tabs, javascript, open_labs, settled, tab  # noqa: F401  (fixtures)
from specdec.book import stepper_lab
from specdec.book.lab import source
from specdec.book.stepper_lab import GAMMAS, MACHINES, SYMBOLS, Stepper, asked, facts_of, held, letters, played
from specdec.chance import Recorded, Scripted
from specdec.conformance import mutants
from specdec.decoding import Speculative
from specdec.models.abc_machine import forgetful, remembering
from specdec.models.table import Table
from specdec.verification import strict

ROUNDS = 4
NEEDED = ROUNDS * (2 * max(GAMMAS) + 1)
WALK = "".join(map(source, ("lab_page.mjs", "fractions.mjs", "stepper_walk.mjs")))
MORE = """
globalThis.walked = ([settings, facts]) => JSON.stringify(settings.map((setting) => walk(setting, JSON.parse(facts)).map(
  ({ u, fed, ...step }) => ({ ...step, u: u?.text, fed: [fed.target, fed.draft], wrong: step.wrong?.message }))));
globalThis.seeds = (number) => Array.from({ length: number }, (_, i) => [seeded(BigInt(i), 0), seeded(7n, i)]).flat();
globalThis.read = (texts) => texts.map((text) => fraction(text)?.map(String) ?? null);
"""


class Spy:
    """A model that notes the tokens of its passes."""

    def __init__(self, model):
        self._model, self.fed = model, ""

    def __getattr__(self, name):
        return getattr(self._model, name)

    def append(self, state, tokens):
        self.fed += letters(tokens)
        return self._model.append(state, tokens)


def cells(decision):
    """[outcome, upper end] of each cell of a decision, worked out from what was asked."""
    if decision.kind == "accept":
        p = decision.asked
        return [[True, str(p)]] + ([[False, "1"]] if p < 1 else [])
    total, ends, end = sum(decision.asked), [], Fraction(0)
    for symbol, weight in zip(SYMBOLS, decision.asked, strict=False):
        end += Fraction(weight) / total
        ends += [[symbol, str(end)]] if weight else []
    return ends


def python_rounds(setting):
    """The same steps, by the decoder on one text of four rounds."""
    return _python_rounds(setting["machine"], int(setting["gamma"]), setting["tape"])


@cache
def _python_rounds(machine, gamma, tape):
    decoder = Speculative(*map(Spy, MACHINES[machine]()), gamma)
    script = Scripted(map(Fraction, tape.split(",")))
    state, told, position = decoder.start(), [], 0
    for number in range(1, ROUNDS + 1):
        chance = Lengths(script, decoder, state)
        recorded = Recorded(chance)
        before = len(state.tokens)
        record, _ = decoder.step(state, recorded)
        for decision, (lengths, fed) in zip(recorded.tape, chance.noted, strict=True):
            outcome = decision.outcome if decision.kind == "accept" else SYMBOLS[decision.outcome]
            told.append(
                {
                    "round": number, "position": position, "purpose": decision.purpose, "asked": list(asked(decision)),
                    "cells": cells(decision), "outcome": outcome, "held": lengths, "fed": fed, "u": str(decision.u),
                }
            )  # fmt: skip
            position += 1
        told.append(
            {
                "round": number, "purpose": "commit", "text": letters(state.tokens), "kept": list(held(state)),
                "emitted": [list(pair) for pair in zip(letters(state.tokens[before:]), record.round.origins, strict=True)],
            }
        )  # fmt: skip
    return told


class Lengths:
    """A chance that notes at each uniform how long the caches are, and what was read since the last one."""

    def __init__(self, chance, decoder, state):
        self._chance, self._decoder, self._state, self.noted = chance, decoder, state, []

    def __getattr__(self, name):
        return getattr(self._chance, name)

    def uniform(self, purpose):
        spies = self._decoder.models.values()
        self.noted.append((list(held(self._state)), [spy.fed for spy in spies]))
        for spy in spies:
            spy.fed = ""
        return self._chance.uniform(purpose)


def differences(shown, told):
    """Where the page's steps and the decoder's are not the same."""
    if len(shown) != len(told):
        return [f"{len(shown)} steps and {len(told)}"]
    different = []
    for i, (one, other) in enumerate(zip(shown, told, strict=True)):
        one = {key: one.get(key) for key in other}
        if "cells" in other:
            one["cells"] = [cell[:2] for cell in one["cells"] or []]
            one["u"] = str(Fraction(one["u"] or 0))
        different += [f"{i} {key}: {one[key]} and {other[key]}" for key in other if one[key] != other[key]]
    return different


def random_settings(number, seed=0):
    """Settings of all machines and γ, half of their uniforms at 0 or a threshold that a decision here can have."""
    rng = random.Random(seed)
    thresholds = [*(Fraction(n, 10) for n in range(10)), *map(Fraction, ("1/6", "1/4", "1/3", "2/3"))]
    settings = []
    for _ in range(number):
        tape = [rng.choice(thresholds) if rng.random() < 1 / 2 else Fraction(rng.randrange(1000), 1000) for _ in range(NEEDED)]
        decimal = [rng.random() < 0.5 and (1000 * u).denominator == 1 for u in tape]
        texts = [f"{float(u):.3f}"[rng.randrange(2) :] if short else str(u) for u, short in zip(tape, decimal, strict=True)]
        machine, gamma = rng.choice(list(MACHINES)), str(rng.choice(GAMMAS))
        settings.append({"machine": machine, "gamma": gamma, "seed": "1", "tape": ",".join(texts)})
    return settings


def browser_walk(page, settings, facts):
    return json.loads(page.evaluate("walked", [settings, facts]))  # a text: Playwright takes 40 s for so many objects


# ---- the walk against the decoder ----------------------------------------------------------------------------------------


def test_320_random_tapes_equal_the_decoder_step_by_step(javascript):  # noqa: F811
    settings = random_settings(320)
    shown = browser_walk(javascript(WALK + MORE), settings, Stepper.facts())
    reached = set()
    for setting, steps in zip(settings, shown, strict=True):
        assert differences(steps, python_rounds(setting)) == [], setting
        reached |= {step["purpose"] for step in steps}
        for step in steps:
            assert step["text"][0] == "^"
            assert len(step["text"]) == len(step["origins"])
    assert reached == {"propose", "accept", "correct", "bonus", "commit"}
    decisions = [step for steps in shown for step in steps if "cells" in step]
    on_threshold = sum(Fraction(step["u"]) in [Fraction(end) for _, end, _ in step["cells"]] for step in decisions)
    assert on_threshold > 200  # where < and <= part


class Kept(Table):
    """A table whose rewind leaves the state as it is."""

    def rewind(self, state, length):
        pass


def kept(model):
    return Kept(model.rows)


def speculative(verify=strict.verify, target=lambda model: model, draft=lambda model: model):
    models = remembering()
    return Speculative(target(models[0]), draft(models[1]), 2, verify=verify)


@pytest.mark.parametrize(
    ("decoder", "shows"),
    [
        (speculative(), None),
        (speculative(mutants.bonus_from_previous_row), "asked"),
        (speculative(mutants.residual_from_previous_row), "asked"),
        (speculative(mutants.residual_is_p), "asked"),
        (speculative(draft=kept), "kept"),
        (speculative(target=kept), "kept"),
    ],
)
def test_a_page_told_by_a_wrong_decoder_is_caught(javascript, decoder, shows):  # noqa: F811
    facts = json.dumps(facts_of({"remembering": {2: decoder}}))
    settings = [{**setting, "machine": "remembering", "gamma": "2"} for setting in random_settings(40, seed=1)]
    shown = browser_walk(javascript(WALK + MORE), settings, facts)
    found = [line for setting, steps in zip(settings, shown, strict=True) for line in differences(steps, python_rounds(setting))]
    assert any(f" {shows}: " in line for line in found) if shows else found == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("a * d < c * b", "a * d <= c * b"),
        ("facts.nodes[roots[text.at(-1)]]", 'facts.nodes[roots["^"]]'),
        ("text.length + length", "committed + length"),
        ("[lengths, node] = [held,", "[lengths, node] = [lengths,"),
        ("for (; node.cells; position++)", "for (position = 0; node.cells; position++)"),
        ('purpose === "correct" ? "correction"', 'purpose === "bonus" ? "correction"'),
        ("proposals[verdicts.length], ", "proposals[0], "),
    ],
)
def test_a_wrong_walk_is_caught(javascript, right, wrong):  # noqa: F811
    assert WALK.count(right) == 1
    settings = random_settings(40, seed=2)
    shown = browser_walk(javascript(WALK.replace(right, wrong) + MORE), settings, Stepper.facts())
    assert any(differences(steps, python_rounds(setting)) for setting, steps in zip(settings, shown, strict=True))


def test_numbers_are_read_as_python_reads_them(javascript):  # noqa: F811
    texts = ["0", "0.", ".5", "0.42", "1/5", "7/3", "00.10", "123456789012345678901/123456789012345678903"]
    page = javascript(WALK + MORE)
    assert [Fraction(*map(int, pair)) for pair in page.evaluate("read", texts)] == [Fraction(text) for text in texts]
    assert page.evaluate("read", ["", ".", "1/0", "-1", "1e-3", "½", "0,5", " .5", "a"]) == [None] * 9


def test_the_seeds_uniforms_look_uniform(javascript):  # noqa: F811
    """Fixed seeds, so no false alarms. Chi-squared, 99 degrees of freedom: chance exceeds 150 once in 1,000."""
    drawn = javascript(WALK + MORE).evaluate("seeds", 20_000)
    counts = [drawn.count(f"0.{n:02}") for n in range(100)]
    assert sum(counts) == len(drawn) == 40_000
    assert sum((count - 400) ** 2 / 400 for count in counts) < 150


# ---- the facts -----------------------------------------------------------------------------------------------------------


def test_facts_are_small_and_their_rows_give_what_is_asked():
    text = Stepper.facts()
    assert len(gzip.compress(text.encode())) < 10_000
    facts = json.loads(text)
    for machine, models in {name: make() for name, make in MACHINES.items()}.items():
        for last in SYMBOLS:
            law = models[0].law_after(() if last == "^" else [SYMBOLS.index(last)])
            assert facts["target"][machine][last] == [str(weight) for weight in law]


def test_branches_have_probability_one_and_every_leaf_keeps_the_invariant():
    for models in (forgetful(), remembering()):
        for gamma in (1, 2):
            for last in SYMBOLS:
                law = stepper_lab.branches(Speculative(*models, gamma), last)
                assert sum(law.values()) == 1
                for steps, (tokens, origins, lengths) in law:
                    assert len(tokens) == len(origins)
                    full = origins[-1] == "bonus"
                    assert lengths == (-1, -2 if full else -1)
                    assert steps[0].held == (-1, 0)  # the first draft pass has been fed all that was pending


def test_the_static_form_is_the_first_round():
    lab = Stepper()
    decoder = Speculative(*forgetful(), 2)
    steps, _ = played(decoder, decoder.start(), Scripted(map(Fraction, [".42", ".8", ".7", ".3", ".6"])))
    rows = lab.static().rows
    assert [row[1] for row in rows] == [step.purpose for step in steps] + ["rewind"]
    assert rows[3] == ("3", "accept", "1/5", ".3", "False", "^BC", "^B")
    assert rows[-1][-2:] == ("^B", "^B")
    assert lab.static().caption.endswith("proposed B C, emitted B (accepted), A (correction)")


@pytest.mark.parametrize(
    ("preset", "complaint"),
    [
        ({"machine": "XYZ"}, "machine is forgetful or remembering"),
        ({"gamma": 9}, "gamma one of 1, 2, 3"),
        ({"tape": [".5"]}, "the script has only 1 uniforms"),
        ({"tape": [".5", "2"]}, "uniform 2 is not in"),
        ({"steps": 1}, "steps: a setting has machine, gamma, seed, tape, at"),
    ],
)
def test_a_setting_that_cannot_be_played_is_refused(preset, complaint):
    with pytest.raises(ValueError, match=complaint):
        Stepper(**preset)


# ---- the page ------------------------------------------------------------------------------------------------------------


def shown(page):
    """What the page says and shows, as text."""
    return page.locator(".stepper-results").inner_text()


def tape(page):
    """The lines of the tape."""
    return [tuple(line.split("\t")) for line in page.locator(".lab-table").last.locator("tbody tr").all_inner_texts()]


def press(page, name, times=1):
    """Press a button."""
    for _ in range(times):
        page.get_by_role("button", name=name, exact=True).click(force=True)  # at an end it is marked as disabled


def field(page):
    """The field of the next decision's uniform."""
    return page.get_by_label("Uniform of this decision", exact=True)


def test_the_lessons_round_is_told_step_by_step(open_labs):  # noqa: F811
    page, said = open_labs(Stepper()), []
    for _ in range(6):
        press(page, "Next step")
        said.append(page.locator(".lab-total").inner_text())
    assert said == [
        "The draft reads ^. Proposal 1: u = .42 lies in B’s cell, from 1/5 to 1/2, so it is B.",
        "The draft reads B. Proposal 2: u = .8 lies in C’s cell, from 1/2 to 1, so it is C.",
        "The target reads ^ B C in one pass. Proposal B: p = 3/10, q = 3/10. u = .7 < min(1, p/q) = 1: B is accepted.",
        "Proposal C: p = 1/10, q = 1/2. u = .3 ≥ min(1, p/q) = 1/5: C is rejected.",
        "Correction, with the weights 2/5, 0, 0 of p − q where positive: u = .6 lies in A’s cell, from 0 to 1, so it is A.",
        "Round 1 commits B A. The target’s cache gives back C; pending for it: A. "
        "The draft’s cache gives back nothing; pending for it: A.",
    ]
    assert tape(page) == [
        (row[0], row[1], " ".join(row[2].split()), row[3], row[4]) for row in Stepper().static().rows[:5]
    ]
    assert page.locator(".stepper-text").inner_text().split() == ["^", "start", "B", "accepted", "A", "correction"]
    picture = page.locator("figure svg").get_attribute("aria-label")
    assert picture == "Text ^ B A. target cache ^ B, given back C, pending A. draft cache ^ B, pending A."


def test_full_acceptance_leaves_two_tokens_pending_for_the_draft(open_labs):  # noqa: F811
    page = open_labs(Stepper())
    press(page, "All accepted")
    press(page, "Next round")
    assert "pending for it: C. The draft’s cache gives back nothing; pending for it: C C." in shown(page)
    press(page, "Next step")
    assert "The draft reads C C. Proposal 1:" in shown(page)


def test_what_is_discarded_is_struck_and_called_never_verified(open_labs):  # noqa: F811
    page = open_labs(Stepper())
    press(page, "First rejected")
    press(page, "Next step", 4)
    rows = page.locator(".lab-table").first.locator("tbody tr")
    assert rows.all_inner_texts()[1:3] == ["2\tA\tnot asked\tnever verified", "3\tA\tnot asked\tnever verified"]
    assert rows.locator("s").all_inner_texts() == ["C", "A", "A"]
    assert page.locator(".stepper-unverified").count() == 2


def test_a_uniform_set_by_hand_decides_what_comes_next(open_labs):  # noqa: F811
    page = open_labs(Stepper())
    press(page, "Next step", 3)
    for text, outcome in (("0", "True"), ("1/5", "False"), (".19999999999999999999999", "True"), ("0,2", "False")):
        field(page).fill(text)
        press(page, "Next step")
        assert tape(page)[-1] == ("3", "accept", "1/5", text.replace(",", "."), outcome)
        press(page, "Back")
    slider = page.get_by_label("Uniform of this decision, slider")
    slider.fill("0.2")
    assert slider.get_attribute("aria-valuetext") == "0.2: reject"
    slider.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "0.19: accept"
    assert field(page).input_value() == "0.19"
    field(page).fill("")
    assert "by the seed" in field(page).get_attribute("placeholder")


@pytest.mark.parametrize("text", ["1", "-1", "two", "1/0", "1.5"])
def test_what_is_no_uniform_is_said_in_the_place_of_the_results(open_labs, text):  # noqa: F811
    page = open_labs(Stepper())
    field(page).fill(text)
    assert f"uniform 0 is {text}: give a number from 0" in page.get_by_role("alert").inner_text()
    assert not page.locator(".lab-total").is_visible()
    press(page, "Next step")
    field(page).fill(".42")
    assert page.get_by_role("alert").inner_text() == ""
    assert tape(page) == []


def test_arrow_keys_step_and_the_steps_are_said(open_labs):  # noqa: F811
    page = open_labs(Stepper())
    page.get_by_role("button", name="Next step").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert len(tape(page)) == 1
    page.wait_for_function("document.querySelector('.lab-spoken').textContent.includes('so it is B')")
    field(page).focus()
    page.keyboard.press("ArrowRight")
    assert len(tape(page)) == 1, "in a field the arrows move the cursor"


def test_the_ends_hold(open_labs):  # noqa: F811
    page = open_labs(Stepper())
    press(page, "Back")
    press(page, "Next round", 6)
    assert "Round 4 commits" in shown(page)
    assert page.get_by_role("button", name="Next step").get_attribute("aria-disabled") == "true"
    assert page.locator("fieldset.stepper-desk legend").inner_text() == "Round 4 is over"
    press(page, "To the start")
    assert tape(page) == []


def test_every_control_changes_the_page_and_the_address_restores_it(open_labs):  # noqa: F811
    page = open_labs(Stepper(at=8))
    for change in (
        lambda: page.get_by_label("ABC machine").select_option("remembering"),
        lambda: page.get_by_label("Proposals a round").select_option("3"),
        lambda: page.get_by_label("Seed of the tape").fill("5"),
        lambda: field(page).fill("1/7"),
        lambda: press(page, "Next step"),
        lambda: press(page, "New tape"),
        lambda: press(page, "Next round"),
    ):
        before = page.locator(".book-lab").inner_html()
        change()
        assert page.locator(".book-lab").inner_html() != before
    link, now = settled(page, "stepper"), shown(page)
    assert shown(open_labs(Stepper(at=8), begin=link)) == now


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("machine=XYZ", "machine XYZ with γ = 2 is not on this page"),
        ("gamma=7", "with γ = 7 is not on this page"),
        ("at=x", "step is x: give a whole number"),
        ("seed=-1&tape=", "seed is -1: give a whole number"),
    ],
)
def test_a_broken_address_says_what_is_wrong(open_labs, address, complaint):  # noqa: F811
    page = open_labs(Stepper(), begin=f"#stepper:{address}")
    assert complaint in page.get_by_role("alert").inner_text()
    press(page, "Reset")
    assert page.get_by_role("alert").inner_text() == ""


def test_everything_has_a_name_and_fits_a_phone(open_labs):  # noqa: F811
    page = open_labs(Stepper(), width=390)
    press(page, "Random tape")
    for _ in range(4):
        press(page, "Next round")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    press(page, "Back")
    unnamed = "[...document.querySelectorAll('input, select, textarea')].filter(x => !x.labels.length && !x.ariaLabel).length"
    assert page.evaluate(unnamed) == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(x => x.id)")
    assert len(ids) == len(set(ids))
    for drawing in page.locator("svg[role=img]:visible").all():
        assert len(drawing.get_attribute("aria-label")) > 20
        assert drawing.bounding_box()["width"] <= 390
    outside = """[...document.querySelectorAll('svg[role=img]')].flatMap((svg) => [...svg.querySelectorAll('text')]
    .filter((text) => {
      const one = text.getBoundingClientRect(), all = svg.getBoundingClientRect();
      return one.left < all.left - 1 || one.right > all.right + 1;
    }).map((text) => text.textContent))"""
    assert page.evaluate(outside) == []


def test_without_javascript_the_first_round_is_a_table(open_labs):  # noqa: F811
    text = open_labs(Stepper(), script=False).locator(".result-table").inner_text()
    assert re.search(r"3\taccept\t1/5\t\.3\tFalse\t\^BC\t\^B", text)
