"""What a failing ``assert_lossless`` says: what is wrong, on which laws, the cause, and lines that find it again."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specdec.conformance import check, message, scripted
from specdec.conformance.catalogue import BY_NAME
from specdec.conformance.causes import likely_causes
from specdec.conformance.samplers import Sampler, black_box, rule
from specdec.conformance.specimens import MUTANTS
from specdec.conformance.verdicts import Finding, Report, Verdict
from specdec.verification import ended, strict

F = Fraction
SPECIMENS = {specimen.name: specimen for specimen in MUTANTS}
ZEROS = [rows for rows in scripted.ROWS if not rows.target.rows.all()]
FEW = [BY_NAME[name] for name in ("one row", "far apart", "cap")]


def failure(sampler, situations, scripts=()):
    """The message for what the situations and some rows of the scripted tier show: ``assert_lossless`` takes all rows."""
    found = [finding for situation in situations for finding in check.in_situation(sampler, situation)]
    found += scripted.check_rule(sampler.verify, scripts) if scripts else []
    return message.failure(sampler, Report(sampler.name, sampler.declares, found), situations)


def raised(sampler, situations):
    with pytest.raises(AssertionError) as error:
        check.assert_lossless(sampler, situations)
    return str(error.value)


def causes(text):
    return re.findall(r"^- (.*?): ", text, re.MULTILINE)


def run(text, capsys, **names):
    """Execute the lines that a message ends with, as a reader would who pastes them; what they print."""
    lines = [line.removeprefix("    ") for line in text.split("as in the test:\n\n")[1].splitlines()]
    assert 2 <= len(lines) <= 5
    capsys.readouterr()
    exec("\n".join(lines), names)
    return capsys.readouterr().out


# ---- what it says -----------------------------------------------------------------------------------------------------


def test_the_first_line_says_what_is_wrong_and_where_by_hand():
    """On F1 token 2 is rejected with 2/5 in all, so p's tokens get .2 + .4 p each: (.4, .32, .28) for (.5, .3, .2)."""
    text = raised(SPECIMENS["residual replaced by p"].sampler, FEW[:1])
    first, *rest = text.splitlines()
    assert first == (
        "residual replaced by p is LOSSY, its text has another law than the target's: "
        "in 'one row', at the start, token 0 comes with probability 2/5, not 1/2"
    )
    assert f"1. LOSSY in 'one row': {BY_NAME['one row'].shows}" in rest
    assert "   prompt [], γ = 1, transforms none, stops at 4 tokens, 4 tokens compared" in rest
    assert "   at the start: target p = (1/2, 3/10, 1/5), draft q = (1/5, 1/5, 3/5)" in rest
    assert causes(text) == ["residual replaced by p"]


def test_rows_and_distance_are_those_of_the_witness():
    situation = BY_NAME["distinct rows"]
    text = failure(SPECIMENS["bonus from the previous row"].sampler, [situation])
    (finding,) = [f for f in check.in_situation(SPECIMENS["bonus from the previous row"].sampler, situation) if f.accused]
    assert f"total variation from the target's law: {finding.distance} = {float(finding.distance):.4g}" in text
    for length in range(len(finding.witness.path) + 1):
        path = finding.witness.path[:length]
        rows = [", ".join(map(str, model.law_after(path))) for model in (situation.target, situation.draft)]
        after = f"after {' '.join(map(str, path))}" if path else "at the start"
        assert f"{after}: target p = ({rows[0]}), draft q = ({rows[1]})" in text


def test_the_laws_are_shown_as_the_request_transforms_them():
    text = failure(SPECIMENS["temperature ignored by the verifier"].sampler, [BY_NAME["temperature"]])
    assert "transforms Temperature(" in text and "target p = (18/23, 9/46, 1/46)" in text  # squares of (6, 3, 1)


def test_plain_and_small_situations_come_first_and_three_at_most():
    text = failure(SPECIMENS["bonus from the previous row"].sampler, [BY_NAME[name] for name in (
        "prompt", "temperature", "larger draft", "distinct rows", "cap", "stop token", "half")])
    assert re.findall(r"^\d\. LOSSY in '(.*?)'", text, re.MULTILINE) == ["cap", "distinct rows", "larger draft"]
    assert "exact: accused in 6 of 7 situations; right in 'half'" in text


def test_the_gravest_comes_first():
    sampler = rule("two faults", lambda p, q, x, chance: [9] if len(p) == 2 else strict.verify(p, q, x, chance).tokens[:1])
    found = Report("two faults", "strict", [
        Finding("accounting", "cap", Verdict.INEFFICIENT, "slow"), Finding("exact", "one row", Verdict.BROKEN, "no id")])
    text = message.failure(sampler, found, FEW)
    assert text.splitlines()[0].startswith(f"two faults is BROKEN, {message.MEANING[Verdict.BROKEN]}: in 'one row'")
    assert "2. INEFFICIENT in 'cap'" in text


def test_a_sampler_of_which_nothing_was_shown_fails_with_the_report():
    assert "nothing shown, no tier could be reached" in raised(Sampler("empty"), [])


# ---- the cause --------------------------------------------------------------------------------------------------------

CAUSES = {  # mutant: where it is put, and what else has its law there and on the mutant's own fixture
    "residual altered at the rejected token alone": (("one row", "far apart"), set()),
    "acceptance uniform reused for the correction": (("one row", "far apart"), set()),
    "bonus from the first row": (("far apart",), set()),
    "block with strict's residual": (("far apart",), set()),
    "temperature on the bonus alone": (("temperature",), set()),
    "argmax draft with its soft law": (("far apart",), set()),
    "target's cache trimmed too little": (("two back",), set()),
    "cap checked before stop tokens": (("cap and stop",), set()),
    "draft probabilities dropped": (("one row",), set()),
    "draft's cache misses the last proposal": (("two back",), set()),
    "accepted counted past the first rejection": (("cap",), set()),
    "one seed for all rows": (("ragged batch",), set()),
    "neighbour's rows": (("ragged batch",), set()),
    "inclusive acceptance": (("cap",), set()),
    "inclusive inverse transform": (("cap",), set()),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_a_mutant_is_named(name):
    places, others = CAUSES[name]
    sampler, situations = SPECIMENS[name].sampler, {place: BY_NAME[place] for place in places}
    found = [finding for place in situations.values() for finding in check.in_situation(sampler, place) if finding.accused]
    found = found or [finding for finding in scripted.check_rule(sampler.verify, ZEROS) if finding.accused]
    assert {specimen.name for specimen in likely_causes(sampler, found, situations)} == {name, *others}


def test_a_float_twin_has_the_same_cause():
    """The same mistake on floats, with its tolerance."""
    def resampled(target, draft, proposals, chance):
        for i, token in enumerate(proposals):
            if not chance.accept(min(1.0, target[i][token] / draft[i][token]), "accept"):
                return ended(proposals, i, chance.draw(target[i], "correct"), "correction")
        return ended(proposals, len(proposals), chance.draw(target[-1], "bonus"), "bonus")

    sampler = rule("floats", lambda p, q, x, chance: resampled(p.astype(float), q.astype(float), x, chance), tolerance=1e-9)
    text = failure(sampler, FEW[:1])
    assert causes(text) == ["residual replaced by p"] and "= 0." not in text.split("variation")[1].splitlines()[0]


def test_a_new_mistake_has_no_cause_and_a_fault_is_its_own():
    def cubed(target, draft, proposals, chance):
        return [chance.draw(target[0] ** 3, "correct")]

    assert "Likely cause: not known" in failure(rule("cubed", cubed), FEW[:1])
    broken = failure(SPECIMENS["no correction"].sampler, FEW[:1])
    assert "Likely cause: what it raised or returned" in broken and "proposals [2]" in broken


# ---- the lines to paste -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place"),
    [("bonus from the previous row", "far apart"), ("draft's cache trimmed too far", "recurrent"), ("no correction", "one row"),
     ("neighbour's rows", "ragged batch"), ("inclusive acceptance", "cap"), ("bonus counted as accepted", "cap")],
)  # fmt: skip
def test_the_lines_at_the_end_find_it_again(name, place, capsys):
    sampler = SPECIMENS[name].sampler
    text = failure(sampler, [BY_NAME[place]], ZEROS if name == "inclusive acceptance" else ())
    verdict, where, says = re.match(r".*? is (\w+), .*?: in '(.*?)', (.*)", text).groups()
    assert f"{verdict} in '{where}'" in (out := run(text, capsys, sampler=sampler)) and says in out


def test_lines_for_a_situation_of_ones_own(capsys):
    situations = [replace(BY_NAME["one row"], name="mine")]
    sampler = SPECIMENS["lenience 2"].sampler
    assert "LOSSY in 'mine'" in run(failure(sampler, situations), capsys, sampler=sampler, situations=situations)


def test_a_black_box_says_what_came_and_samples_again(capsys):
    law = {(0,): F(9, 10), (1,): F(1, 10)}
    coin = black_box("coin", lambda number, seed: [(int(x),) for x in np.random.default_rng(seed).integers(0, 2, number)], law)
    text = raised(coin, [])
    assert text.startswith("coin is LOSSY") and "joint law of 1 tokens" in text and "not known" in text
    assert "coin: LOSSY" in run(text, capsys, sampler=coin)


def test_every_default_row_of_the_scripted_tier_has_its_name():
    assert list(scripted.BY_NAME.values()) == list(scripted.ROWS)
