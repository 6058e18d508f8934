"""What may be wrong with a sampler: the shipped mutants that go wrong exactly as it does."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from specdec.conformance import caches, counts, scripted
from specdec.conformance.exact import distance
from specdec.conformance.guard import BrokenError, OutOfReachError, time_limit
from specdec.conformance.samplers import Sampler
from specdec.conformance.situations import Law, Situation
from specdec.conformance.specimens import MUTANTS, SITUATIONS, Specimen, law_in, recorded
from specdec.conformance.verdicts import Finding
from specdec.conformance.walk import walk

CONFIRMED = 2
"""In so many situations a mutant's law must be the one that was found, besides its own fixture."""
PATIENCE = 5
"""After so many seconds no further fixture is tried: code under test may be slow."""
SYMBOLS = "ABCDEFGH"
"""The record's names of the tokens."""


@np.errstate(all="ignore")  # a mutant that divides by zero is compared by what comes out
def likely_causes(sampler: Sampler, accusations: Sequence[Finding], situations: Mapping[str, Situation]) -> list[Specimen]:
    """The mutants that are wrong just as a sampler is, by its accusations in ``situations`` (by name), the first ones first.

    A wrong law is compared with the mutants' laws; where the law is right, what the state and the accounting tier say, or the
    impossible tokens on scripts. What raised or did not end tells its cause itself: the answer is then empty, and so it is for
    a mistake that is no mutant's.
    """
    laws = [(situations[f.where], f.law) for f in accusations if f.law is not None and f.where in situations]
    claims = [f for f in accusations if f.tier in ("state", "accounting") and f.where in situations]
    if laws:
        return _by_law(sampler, laws)
    if claims:
        return _by_claims(sampler, claims, situations[claims[0].where])
    return _by_boundary(sampler, [f for f in accusations if f.tier == "scripted"])


def _suspects(sampler: Sampler, kind: str) -> list[Specimen]:
    """The mutants of a kind that can be what a sampler is: a rule has no caches, and only ``texts`` sees a batch."""
    return [
        mutant
        for mutant in MUTANTS
        if _kind(mutant) == kind
        and (mutant.sampler.verify is not None or sampler.verify is None)
        and (mutant.sampler.texts is None or sampler.texts is not None)
    ]


def _kind(mutant: Specimen) -> str:
    """What is wrong with it, by the record: its law, a boundary, a fault, or else its counts."""
    entry = recorded()[mutant.name]
    return next((kind for kind in ("law", "fault", "impossible token") if kind in entry), "counts")


def _by_law(sampler: Sampler, laws: Sequence[tuple[Situation, Law]]) -> list[Specimen]:
    """First by the small recorded laws, of which there are few; those that agree are put into the situations themselves."""
    ours, began = dict[str, Law](), time.perf_counter()
    suspects = _suspects(sampler, "law")
    if all(len(situation.requests) > 1 for situation, _ in laws):  # each text alone is right
        suspects = [mutant for mutant in suspects if mutant.sampler.texts is not None]
    for fixture in sorted({mutant.fixture for mutant in suspects}, key=lambda name: len(SITUATIONS[name].law)):
        if time.perf_counter() - began < PATIENCE:
            ours[fixture] = _law(sampler, SITUATIONS[fixture])

    def same(one: Law, other: Law) -> bool:
        return bool(one) and bool(other) and distance(one, other) <= sampler.tolerance

    suspects = [mutant for mutant in suspects if same(_recorded_law(mutant), ours.get(mutant.fixture, {}))]
    return [m for m in suspects if all(same(_law(m.sampler, place), law) for place, law in laws[:CONFIRMED])]


def _law(sampler: Sampler, situation: Situation) -> Law:
    """The law of a sampler in a situation; {} where there is none to compare."""
    if len(situation.requests) > 1 and sampler.texts is None:
        return {}
    with suppress(BrokenError, OutOfReachError, Exception), time_limit():
        return law_in(sampler, situation)
    return {}


def _recorded_law(mutant: Specimen) -> Law:
    """Its law on its fixture, {(text, …): probability}."""
    return {
        tuple(tuple(map(SYMBOLS.index, text.split())) for text in texts.split(" | ")): Fraction(weight)
        for texts, weight in recorded()[mutant.name]["law"].items()
    }


def _by_claims(sampler: Sampler, claims: Sequence[Finding], situation: Situation) -> list[Specimen]:
    """Mutants of which the state and the accounting tier say the same, word by word, in the situation of the first claim."""
    due = {finding.line for finding in claims if finding.where == situation.name}
    return [mutant for mutant in _suspects(sampler, "counts") if _claims(mutant.sampler, situation) == due]


def _claims(sampler: Sampler, situation: Situation) -> set[str]:
    with suppress(BrokenError, OutOfReachError, Exception):
        assert sampler.make is not None
        walked = walk(sampler.make(situation), situation, sampler.acceptance)
        return {f.line for f in (caches.check(walked, situation), counts.check(sampler, walked, situation)) if f.accused}
    return set()


def _by_boundary(sampler: Sampler, accusations: Sequence[Finding]) -> list[Specimen]:
    """Mutants that emit the same impossible tokens in the same rows, of those where the target forbids any."""
    due = _impossible(accusations)
    rows = [rows for rows in scripted.ROWS if not rows.target.rows.all()]
    suspects = _suspects(sampler, "impossible token") if due else []
    return [m for m in suspects if m.sampler.verify and _impossible(scripted.check_rule(m.sampler.verify, rows)) == due]


def _impossible(findings: Any) -> set[tuple[str, Any, Any]]:
    return {(f.where, f.witness.path, f.witness.token) for f in findings if f.accused and f.witness}
