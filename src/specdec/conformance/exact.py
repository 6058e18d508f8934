"""Tier 1: the exact joint law of all texts of a situation, compared with the target's."""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from specdec.chance import Chance, law_of
from specdec.conformance.guard import Branches, BrokenError, OutOfReachError, blamed
from specdec.conformance.handed import Handed
from specdec.conformance.samplers import Sampler, read_tokens
from specdec.conformance.situations import Law, Situation, Text
from specdec.conformance.verdicts import Finding, Verdict, Witness

END = None
"""The token behind a finished text."""


def distance(one: Law, other: Law) -> Any:
    """Total variation of two laws {outcome: probability}: half the sum of the absolute differences."""
    return sum(abs(one.get(outcome, 0) - other.get(outcome, 0)) for outcome in {*one, *other}) * Fraction(1, 2)


ROUNDING = 1e-6
"""Float laws that are off by no more may be right: their rounding has to be stated."""


def compare(found: Law, situation: Situation, tolerance: float = 0.0) -> Finding:
    """Joint law, support and total mass against those of ``situation.law``: LOSSLESS within the tolerance, else LOSSY.

    ``OutOfReachError`` where floats are off by what may be rounding, and no tolerance is stated.
    """
    gap = distance(found, situation.law)
    if not tolerance and 0 < gap < ROUNDING and not all(isinstance(weight, Fraction | int) for weight in found.values()):
        remedy = "give the adapter the total variation that its rounding may cause, as in tolerance=1e-9"
        raise OutOfReachError(f"it computes with floats, and is off by {float(gap):.1e}: {remedy}")
    verdict, says, witness = _judged(found, situation, gap, tolerance)
    return Finding("exact", situation.name, verdict, says, witness, gap, law=found)


def _judged(found: Law, situation: Situation, gap: Any, tolerance: float) -> tuple[Verdict, str, Witness | None]:
    mass = sum(found.values())
    if abs(mass - 1) > tolerance:
        return Verdict.BROKEN, f"its probabilities add up to {mass}, not to 1", None
    if gap <= tolerance:
        rounding = f" to {float(gap):.1e}" if gap else ""
        return Verdict.LOSSLESS, f"the joint law of {len(situation.law)} texts is the target's{rounding}", None
    row = next((i for i in range(len(situation.requests)) if distance(*_of_row(found, situation, i)) > tolerance), None)
    if row is None:
        says = "each text has its law, but they are not independent: one request's draws decide about another's"
        return Verdict.LOSSY, says, None
    witness = find_witness(*_of_row(found, situation, row), tolerance)
    where = f"request {row}: " if len(situation.requests) > 1 else ""
    return Verdict.LOSSY, where + in_words(witness), witness


def _of_row(found: Law, situation: Situation, row: int) -> tuple[Law, Law]:
    """The law of one request's text: found, and expected."""
    law: Law = defaultdict(int)
    for texts, weight in found.items():
        law[texts[row]] += weight  # type: ignore[index]
    return law, situation.laws[row]


def find_witness(found: Law, expected: Law, tolerance: float = 0.0) -> Witness:
    """The shortest path on which two laws of texts differ, and there the token of the greatest difference."""
    ours, theirs = _prefixes(found), _prefixes(expected)
    least = Fraction(tolerance) / max(len(ours), len(theirs))  # the prefixes of one length can't all stay below their share
    for length in range(1, max(map(len, {*ours, *theirs})) + 1):
        at = [prefix for prefix in {*ours, *theirs} if len(prefix) == length]
        gaps = {prefix: abs(ours.get(prefix, 0) - theirs.get(prefix, 0)) for prefix in at}
        worst = max(sorted(at, key=str), key=lambda prefix: gaps[prefix])
        if gaps[worst] > least:
            path, token = worst[:-1], worst[-1]
            shares = [law.get(worst, 0) / law[path] if law.get(path) else None for law in (theirs, ours)]
            return Witness(path, token, shares[0] or 0, shares[1] or 0, theirs.get(path, 0))
    raise ValueError("the two laws are the same: there is nothing to witness")


def _prefixes(law: Law) -> dict[tuple[Any, ...], Any]:
    """The probability of every beginning of a text; a finished text goes on with END."""
    out: dict[tuple[Any, ...], Any] = defaultdict(int)
    for text, weight in law.items():
        whole = (*text, END)  # type: ignore[misc]
        for length in range(len(whole) + 1):
            out[whole[:length]] += weight
    return dict(out)


def in_words(witness: Witness) -> str:
    """A witness in one sentence."""
    path = f"after {' '.join(map(str, witness.path))}" if witness.path else "at the start"
    what = "the text ends" if witness.token is END else f"token {witness.token} comes"
    if witness.weight == 0:
        return f"the target never goes where this path leads: {path}, {what}"
    impossible = ", which the target never does" if witness.expected == 0 else ""
    return f"{path}, {what} with probability {_number(witness.found)}, not {_number(witness.expected)}{impossible}"


def _number(value: Any) -> str:
    """A short Fraction as it is; anything longer to six digits."""
    shown = str(value)
    return shown if isinstance(value, Fraction | int) and len(shown) <= 11 else f"{float(value):.6g}"


def texts_law(sampler: Sampler, situation: Situation) -> Law:
    """The joint law of what ``sampler.texts`` returns for all requests, along every branch of its random decisions."""
    generate, branches = sampler.texts, Branches()
    assert generate is not None

    def program(chance: Chance) -> tuple[Text, ...]:
        branches.next()
        return _read(generate(situation, Handed(chance)), situation)

    with blamed():
        return law_of(program)


def _read(answer: Iterable[Iterable[int]], situation: Situation) -> tuple[Text, ...]:
    """An answer as tuples of ints; ``BrokenError`` unless it is one text of token ids for each request."""
    requests = situation.requests
    if not isinstance(answer, Iterable) or len(texts := list(answer)) != len(requests):
        raise BrokenError(f"it returned {answer!r}: a list of {len(requests)} texts is needed, one for each request")
    read = [read_tokens(text, situation.target.vocab_size, "it returned a text with") for text in texts]
    return tuple(request.shown(text, situation.tokens) for request, text in zip(requests, read, strict=True))
