"""The kill matrix: which tier sees which mutant, and what three classic tests make of it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from specdec.conformance import blackbox, check, classic, scripted
from specdec.conformance.catalogue import BY_NAME, KILLERS
from specdec.conformance.guard import OutOfReachError
from specdec.conformance.situations import Law, Situation
from specdec.conformance.specimens import INNOCENTS, MUTANTS, Specimen, recorded
from specdec.conformance.verdicts import Finding

CLASSIC = {
    "first token": classic.first_token_distance,
    "support and order": classic.support_and_order,
    "chi-square": classic.chi_square,
}
"""What public suites rely on, each at ``classic.TEXTS`` texts."""

SITUATIONS = tuple(BY_NAME[name] for name in KILLERS)
_FEW = ("one-hot draft", "disjoint", "no weight first", "halves", "the remembering ABC machine")
SCRIPTS = tuple(rows for few in _FEW for rows in scripted.ROWS if rows.name.startswith(few))
"""So few rows show every mutant that the scripted tier can see (a greedy cover), the cheap ones first."""
BLIND = 2
"""So many situations show that no exact law sees a mistake which is one at an edge of a uniform alone."""
LIMIT = 20_000
"""So many texts the black-box tier may ask for in a matrix."""


@dataclass(frozen=True)
class Line:
    """One specimen: the first finding against it of each tier, and the classic tests that fail it.

    ``situation`` is where it was caught, or the first one; the classic tests and the black-box tier sampled it there.
    """

    name: str
    situation: str
    caught: dict[str, Finding]
    failed: list[str]


@np.errstate(all="ignore")  # a mutant that divides by zero is judged by what comes out
def line(name: str, situations: Sequence[Situation] = SITUATIONS, seed: int = 0) -> Line:
    """Put the named specimen through the situations up to the first in which the exact, state or accounting tier accuses it.

    The one that its fixture was cut from comes first. The scripted tier has SCRIPTS. The black-box tier and the classic tests
    are given samples from the exact law that was found, which is all that they could see of the sampler.
    """
    specimen = next(specimen for specimen in (*MUTANTS, *INNOCENTS) if specimen.name == name)
    caught, where, laws = _in_situations(specimen, situations)
    verify = specimen.sampler.verify
    on_scripts = (finding for finding in scripted.check_rule(verify, SCRIPTS) if finding.accused) if verify else iter(())
    caught |= {finding.tier: finding for finding in islice(on_scripts, 1)}
    if laws is None:  # it broke before it had a law
        return Line(name, where, caught, [])
    right, wrong = map(_flat, laws)
    sampled = blackbox.check(lambda number, seed: draws(wrong, number, seed), right, limit=LIMIT, seed=seed)
    caught |= {finding.tier: finding for finding in [sampled] if finding.accused}
    texts = draws(wrong, classic.TEXTS, seed)
    return Line(name, where, caught, [name for name, passes in CLASSIC.items() if not passes(texts, right)])


def _in_situations(specimen: Specimen, situations: Sequence[Situation]) -> tuple[dict[str, Finding], str, tuple[Law, Law] | None]:
    """The accusations of the first situation that has any, its name, and there the target's law and the one found.

    Without accusations name and laws are those of the first situation that could be judged.
    """
    if specimen.sampler.texts is not None:  # one text at a time is slow to enumerate for it, and shows no batch
        situations = [situation for situation in situations if len(situation.requests) > 1]
    if "impossible token" in recorded().get(specimen.name, {}):  # an edge has no weight in any law
        situations = situations[:BLIND]
    where, laws = "", None
    for situation in sorted(situations, key=lambda s: specimen.fixture.split(",")[0] != s.name):
        with suppress(OutOfReachError):
            findings = check.in_situation(specimen.sampler, situation)
            caught = {finding.tier: finding for finding in findings if finding.accused}
            law = next((finding.law for finding in findings if finding.law is not None), None)
            if caught or not where:
                where, laws = situation.name, None if law is None else (situation.law, law)
            if caught:
                return caught, where, laws
    return {}, where, laws


def draws(law: Law, number: int, seed: int) -> list[Any]:
    """Independent outcomes of a law, by numpy."""
    outcomes = list(law)
    chosen = np.random.default_rng(seed).choice(len(outcomes), number, p=[float(weight) for weight in law.values()])
    return [outcomes[index] for index in chosen]


def _flat(law: Law) -> Law:
    """The texts of a batch one behind the other, as a test sees them that knows of no requests."""
    return {sum(texts, ()): weight for texts, weight in law.items()}  # type: ignore[call-overload]
