"""Every mutant is accused by some tier, no innocent by any, and what is wrong with each mutant is as recorded, exactly."""

import functools
import re
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specdec.chance import Scripted
from specdec.conformance import check, mutants, separating
from specdec.conformance.catalogue import CATALOGUE, KILLERS
from specdec.conformance.loop_mutants import CapFirst, LateStop
from specdec.conformance.samplers import RULES
from specdec.conformance.specimens import (
    FIXTURES,
    INNOCENTS,
    MUTANTS,
    SEPARATING,
    SITUATIONS,
    UNCAPPED,
    entry,
    four_tokens,
    law_in,
    recorded,
    wrong,
)
from specdec.conformance.verdicts import Verdict
from specdec.decoding import Stop

F = Fraction
PLACES = tuple(situation for situation in CATALOGUE if situation.name in KILLERS)
TEMPTING_NAMES = ("equal", "ties", "zeros in p", "one-hot draft", "greedy", "cap and stop", "grammar")
TEMPTING = (*PLACES, *(situation for situation in CATALOGUE if situation.name in TEMPTING_NAMES))
"""Where an innocent is most likely to be accused."""
TEMPTED = tuple(specimen for specimen in INNOCENTS if specimen.name not in ("strict", "block"))
"""These two go through the whole catalogue in test_conformance_check."""
BY_NAME = {specimen.name: specimen for specimen in (*MUTANTS, *INNOCENTS)}

SCRIPTED_ONLY = {"inclusive acceptance", "inclusive inverse transform"}
"""A boundary has no weight in an exact law: these show where a uniform is exactly 0."""

MISREPORTED = {
    "counts past a stop",
    "accepted counted past the first rejection",
    "bonus counted as accepted",
    "acceptance over all that was drafted",
}
INEFFICIENT = {
    "draft probabilities dropped",
    "tokenwise under the name of block",
    "rejected tokens left in the draft's cache",
    "draft's cache trimmed too little",
    "draft's cache trimmed too far",
    "draft's cache misses the last proposal",
    "bonus corrupts the draft's cache",
}
BROKEN = {
    "residuals normalised ahead of need",
    "reciprocal ratio",
    "output padded with id V",
    "no correction",
    "redraws from the draft until accepted",
}
JUDGED = {Verdict.MISREPORTED: MISREPORTED, Verdict.INEFFICIENT: INEFFICIENT, Verdict.BROKEN: BROKEN}
"""The verdict of every other mutant is LOSSY."""


def each(specimens):
    return pytest.mark.parametrize("specimen", specimens, ids=[specimen.name for specimen in specimens])


def fits(specimen, situation):
    """Batches are for samplers of texts, which are too slow to enumerate elsewhere."""
    return (specimen.sampler.texts is not None) == (len(situation.requests) > 1)


@functools.cache
def findings(specimen, situation):
    return check.in_situation(specimen.sampler, situation)


def accusations(specimen):
    """The findings against a specimen in the first situation that has any."""
    for situation in PLACES:
        if fits(specimen, situation):
            found = [finding for finding in findings(specimen, situation) if finding.accused]
            if found:
                return found
    return []


# ---- the verdicts -------------------------------------------------------------------------------------------------------


@each(MUTANTS)
def test_a_mutant_is_accused_by_the_exact_the_state_or_the_accounting_tier(specimen):
    found = accusations(specimen)
    assert bool(found) == (specimen.name not in SCRIPTED_ONLY)
    due = next((verdict for verdict, names in JUDGED.items() if specimen.name in names), Verdict.LOSSY)
    assert {finding.verdict for finding in found} <= {due}


@pytest.mark.parametrize("name", sorted(SCRIPTED_ONLY))
def test_what_has_no_weight_is_accused_on_scripts(name):
    assert any(finding.accused for finding in check.on_scripts(BY_NAME[name].sampler))


@each(TEMPTED)
def test_no_tier_accuses_an_innocent(specimen):
    for situation in TEMPTING:
        if fits(specimen, situation):
            found = check.in_situation(specimen.sampler, situation)
            assert found
            assert [f"{finding.tier} in {finding.where}: {finding.says}" for finding in found if finding.accused] == []
    assert not [finding for finding in check.on_scripts(specimen.sampler) if finding.accused]


# ---- the record ---------------------------------------------------------------------------------------------------------


def test_the_record_has_every_mutant_and_nothing_else():
    assert list(recorded()) == [specimen.name for specimen in MUTANTS]
    assert len(BY_NAME) == len(MUTANTS) + len(INNOCENTS)


@each(MUTANTS)
def test_what_is_wrong_is_as_recorded(specimen):
    assert entry(specimen) == recorded()[specimen.name]


def test_a_recorded_law_adds_up_and_is_as_far_from_the_target_as_recorded():
    for name, line in recorded().items():
        if "law" in line:
            law = {text: F(weight) for text, weight in line["law"].items()}
            right = {
                " | ".join(" ".join("ABCDEFGH"[token] for token in text) for text in texts): weight
                for texts, weight in SITUATIONS[line["fixture"]].law.items()
            }
            gap = sum(abs(law.get(text, 0) - right.get(text, 0)) for text in {*law, *right}) / 2
            assert sum(law.values()) == 1, name
            assert gap == F(line["distance"]) > 0, name


def test_nothing_is_found_wrong_with_an_innocent():
    for specimen in INNOCENTS:
        if specimen.sampler.declares is not None:
            with pytest.raises(ValueError, match="nothing is wrong"):
                wrong(specimen)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("residual from the previous row", 4), ("argmax draft with its soft law", 4), ("low-confidence proposal dropped", 3)],
)
def test_one_round_after_each_symbol_gives_the_law_of_the_whole_walk(name, tokens):
    sampler, law = BY_NAME[name].sampler, defaultdict(int)
    for (text,), weight in four_tokens(sampler).items():
        law[text[:tokens],] += weight
    assert law == law_in(sampler, replace(SITUATIONS[UNCAPPED], tokens=tokens))


def test_specimens_say_what_a_user_sees_and_what_the_code_does():
    for specimen in (*MUTANTS, *INNOCENTS):
        assert 10 < len(specimen.symptom) < 90, specimen.name
        assert 10 < len(specimen.cause) < 120, specimen.name
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in specimen.reports)
        assert specimen.fixture in SITUATIONS
        assert specimen.sampler.declares in (None, *RULES)
    named = {situation.name for situation in SITUATIONS.values()}
    assert len(named) == len(SITUATIONS)


def test_every_fixture_is_a_mutants_or_a_place():
    used = {UNCAPPED, *(specimen.fixture for specimen in MUTANTS), *(situation.name for situation in TEMPTING)}
    assert {situation.name for situation in FIXTURES} <= used


# ---- where mutants are easiest to tell --------------------------------------------------------------------------------


def test_every_rule_with_a_wrong_law_is_well_off_in_one_situation():
    gaps = {}
    for specimen in MUTANTS:
        if specimen.sampler.verify is not None and "law" in recorded()[specimen.name]:
            gaps[specimen.name] = findings(specimen, SEPARATING)[0].distance
    assert len(gaps) == 41
    assert min(gaps.values()) == gaps["block with strict's residual"] == F(17, 300)
    on_the_machine = [F(recorded()[name][UNCAPPED]) for name in gaps]
    assert min(on_the_machine) == 0  # the ABC machine hides two of them, with a token more


def test_the_search_measures_what_is_shipped_and_climbs():
    """Its measure, a round at γ = 2 and then the target alone, on the shipped laws; and that it climbs."""
    p, q = ([row.astype(float) for row in model.rows] for model in (SEPARATING.target, SEPARATING.draft))
    assert separating.least(separating.rules(), p, q, floor=0) == pytest.approx(17 / 300)
    start, after = separating.search(0, 1)[0], separating.search(0, 60)[0]
    assert -1 <= start < after


# ---- the public reports -------------------------------------------------------------------------------------------------

PUBLISHED = {  # joint law of four tokens on the remembering ABC machine, γ = 2
    "residual replaced by p": ".2262",
    "residual from the previous row": ".2795",
    "residual from the next row": ".4752",
    "bonus from the previous row": ".168",
    "bonus from the residual": ".2389",
    "bonus after a rejection": ".2323",
    "low-confidence proposal dropped": ".1251",
    "lenience 2": ".2501",
    "argmax draft with its soft law": ".7612",
    "residual altered at the rejected token alone": ".1853",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_distances_are_those_recorded(name):
    digits = PUBLISHED[name]
    assert abs(F(recorded()[name][UNCAPPED]) - F(digits)) <= F(1, 2 * 10 ** len(digits.removeprefix(".")))


REPORTED = {
    "argmax draft with its soft law": {"A": F(1, 2), "B": F(1, 6), "C": F(1, 3)},
    "match count taken for acceptance": {"A": F(2, 10), "B": F(2, 10), "C": F(6, 10)},
    "drawn from the draft's top two, raw law told": {"A": F(5, 9), "B": F(2, 9), "C": F(2, 9)},
    "acceptance uniform reused for the correction": {"A": F(9, 20), "B": F(7, 20), "C": F(4, 20)},
    "residual altered at the rejected token alone": {"A": F(9, 20), "B": F(7, 20), "C": F(4, 20)},
}


@pytest.mark.parametrize("name", REPORTED)
def test_the_wrong_laws_of_the_reports(name):
    assert recorded()[name]["law"] == {text: str(weight) for text, weight in REPORTED[name].items()}


def test_two_mistakes_with_one_law_are_told_apart_by_another_fixture():
    """F1 gives (9, 7, 4)/20 for both: only a second pair of laws tells a reused uniform from an altered residual."""
    reused, altered = (BY_NAME[name].sampler for name in list(REPORTED)[-2:])
    alike, apart = SITUATIONS["first token"], SITUATIONS["half, first token at γ = 1"]
    assert law_in(reused, alike) == law_in(altered, alike) != alike.law
    assert law_in(reused, apart) != law_in(altered, apart)


def test_acceptances_of_the_reports():
    assert recorded()["draft probabilities dropped"]["accepted"] == {"found": "7/25", "due": "3/5"}
    assert recorded()["tokenwise under the name of block"]["emitted"] == {"found": "19/9", "due": "20/9"}


STOP = 12
NEW = (10, 11, STOP, 20, 21, 22)


@pytest.mark.parametrize(
    ("kind", "kept"), [(Stop, (3, "stop token")), (CapFirst, (5, "length")), (LateStop, (6, None))], ids=lambda x: str(x)
)
def test_a_stop_token_before_the_cap_of_five(kind, kept):
    assert kind(length=5, tokens=frozenset({STOP})).first([], NEW) == kept


def test_a_mask_with_a_hole_counts_one():
    """The mask is [1, 0, 1], one proposal is kept, and the twin reports two. The script: three acceptances, one correction."""
    situation = SITUATIONS["first token"]
    p, q = situation.target.rows, situation.draft.rows
    script = Scripted([0, F(99, 100), 0, 0])
    round_ = mutants.counts_past_rejection(np.array([p] * 4), np.array([q] * 3), [2, 2, 2], script)
    assert round_.tokens == (2, 0) and round_.origins == ("accepted", "correction")
    assert round_.accepted == 2
