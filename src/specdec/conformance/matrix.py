"""The kill matrix: which tier sees which mutant, and what three classic tests make of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specdec.conformance import blackbox, check, classic
from specdec.conformance.catalogue import BY_NAME, KILLERS
from specdec.conformance.guard import OutOfReachError
from specdec.conformance.situations import Law, Situation
from specdec.conformance.specimens import INNOCENTS, MUTANTS
from specdec.conformance.verdicts import Finding

CLASSIC = {
    "first token": classic.first_token_distance,
    "support and order": classic.support_and_order,
    "chi-square": classic.chi_square,
}
"""What public suites rely on, each at ``classic.TEXTS`` texts."""

SITUATIONS = tuple(BY_NAME[name] for name in KILLERS)
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

    The scripted tier has rows of its own. The black-box tier and the classic tests are given samples from the exact law that
    was found, which is all that they could see of the sampler.
    """
    specimen = next(specimen for specimen in (*MUTANTS, *INNOCENTS) if specimen.name == name)
    caught: dict[str, Finding] = {}
    seen: list[tuple[Situation, Law]] = []
    if specimen.sampler.texts is not None:  # one text at a time is slow to enumerate for it, and shows no batch
        situations = [situation for situation in situations if len(situation.requests) > 1]
    for situation in situations:
        try:
            findings = check.in_situation(specimen.sampler, situation)
        except OutOfReachError:
            continue
        seen += [(situation, finding.law) for finding in findings if finding.law is not None]
        caught = {finding.tier: finding for finding in findings if finding.accused}
        if caught:
            break
    scripted = next((finding for finding in check.on_scripts(specimen.sampler) if finding.accused), None)
    if scripted:
        caught["scripted"] = scripted
    if not seen:  # it broke before it had a law
        return Line(name, situation.name, caught, [])
    situation, law = seen[-1] if caught else seen[0]
    right, wrong = _flat(situation.law), _flat(law)
    sampled = blackbox.check(lambda number, seed: draws(wrong, number, seed), right, limit=LIMIT, seed=seed)
    if sampled.accused:
        caught["black-box"] = sampled
    texts = draws(wrong, classic.TEXTS, seed)
    return Line(name, situation.name, caught, [name for name, passes in CLASSIC.items() if not passes(texts, right)])


def draws(law: Law, number: int, seed: int) -> list[Any]:
    """Independent outcomes of a law, by numpy."""
    outcomes = list(law)
    chosen = np.random.default_rng(seed).choice(len(outcomes), number, p=[float(weight) for weight in law.values()])
    return [outcomes[index] for index in chosen]


def _flat(law: Law) -> Law:
    """The texts of a batch one behind the other, as a test sees them that knows of no requests."""
    return {sum(texts, ()): weight for texts, weight in law.items()}  # type: ignore[call-overload]
