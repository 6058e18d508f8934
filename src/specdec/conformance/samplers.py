"""Adapters: how a sampler under test is shown to the kit. Each is one callable, its name, and what it declares to be.

``rule`` takes the verification of one round, ``loop`` a whole decoder that goes a round at a time, ``texts`` anything that
turns requests into texts with a given chance, ``black_box`` anything that can only be sampled.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.conformance.guard import BrokenError, blamed
from specdec.conformance.situations import Law, Situation, Text
from specdec.decoding import Decoder, Ledger, RoundRecord, Speculative, State
from specdec.law import Array
from specdec.verification import Round, Verify, block, sample_match, strict

RULES: dict[str, Verify] = {"strict": strict.verify, "block": block.verify, "sample-and-match": sample_match.verify}
"""What a sampler may declare itself to be: the rule whose acceptance it must then have."""

LARGEST_TOLERANCE = 1e-3
"""More is no rounding: it would acquit wrong rules."""

Acceptance = Callable[[list[RoundRecord]], tuple[int, int]]
"""How a sampler reports its acceptance over some rounds: (accepted, verified)."""


def ledger_acceptance(records: list[RoundRecord]) -> tuple[int, int]:
    """As the ledger counts it: a proposal behind the first rejection was never verified."""
    return Ledger(records).acceptance()


@dataclass(frozen=True)
class Sampler:
    """A sampler under test. Of its callables it has one or two; a tier that needs another is skipped, with the reason.

    ``declares`` is a key of RULES, or None where no acceptance is claimed. ``tolerance`` is the total variation that its
    rounding may cause, 0 for exact code.
    """

    name: str
    declares: str | None = None
    tolerance: float = 0.0
    verify: Verify | None = None
    make: Callable[[Situation], Decoder] | None = None
    texts: Callable[[Situation, Chance], Sequence[Sequence[int]]] | None = None
    sample: Callable[[int, int], Sequence[Sequence[int]]] | None = None
    law: Law | None = None
    acceptance: Acceptance = ledger_acceptance

    def __post_init__(self) -> None:
        if self.declares is not None and self.declares not in RULES:
            raise ValueError(f"{self.name} declares {self.declares!r}: it must be one of {', '.join(RULES)}, or None")
        if not 0 <= self.tolerance <= LARGEST_TOLERANCE:
            needed = f"it is the total variation that rounding causes, from 0 to {LARGEST_TOLERANCE}"
            raise ValueError(f"{self.name} has tolerance {self.tolerance}: {needed}")


def rule(name: str, verify: Verify, declares: str | None = None, tolerance: float = 0.0) -> Sampler:
    """The verification of one round: ``verify(target (γ+1, V), draft (γ, V), proposals (γ,), chance)``. The kit does the rest.

    It returns a ``Round``, or the emitted tokens alone. Rows are exact; a rule on floats converts them and states its
    tolerance. Chance may come from ``chance`` or, under ``intercept``, from the random calls of untouched code. A rule that
    ``declares`` to be "strict" has its acceptance compared with that rule's.
    """
    return Sampler(
        name, declares, tolerance, verify=CheckedRule(verify), make=lambda s: speculative(s, verify=CheckedRule(verify))
    )


def loop(
    name: str,
    make: Callable[[Situation], Decoder],
    declares: str | None = None,
    tolerance: float = 0.0,
    acceptance: Acceptance = ledger_acceptance,
) -> Sampler:
    """A whole decoder: ``make(situation)`` returns one of ``specdec.decoding``'s protocol. Its caches are seen too.

    ``acceptance`` turns the records of a text into the figure (accepted, verified) that the sampler reports.
    """
    return Sampler(name, declares, tolerance, make=make, acceptance=acceptance)


def texts(name: str, generate: Callable[[Situation, Chance], Sequence[Sequence[int]]], tolerance: float = 0.0) -> Sampler:
    """Anything that answers all requests of a situation at once: ``generate(situation, chance)`` returns a text for each."""
    return Sampler(name, None, tolerance, texts=generate)


def black_box(name: str, sample: Callable[[int, int], Sequence[Sequence[int]]], law: Law) -> Sampler:
    """Something that can only be sampled: ``sample(number, seed)`` returns independent texts, which should follow ``law``.

    ``law`` is {text: probability}, exact or float, of the target alone.
    """
    return Sampler(name, None, sample=sample, law=law)


def speculative(situation: Situation, *, kind: type[Speculative] = Speculative, verify: Verify = strict.verify) -> Any:
    """Our own decoder in a situation of one request: the models, γ by round, transforms and stop rules."""
    gammas, request = situation.gammas, situation.request

    def by_round(state: State) -> int:
        return gammas[min(len(state.history), len(gammas) - 1)]

    gamma = gammas[0] if len(gammas) == 1 else by_round
    return kind(situation.target, situation.draft, gamma, request.transforms, request.stop, verify)


class CheckedRule:
    """A rule whose faults are named with their input. Tokens alone become a round: kept proposals, then at most one more.

    ``false_claim`` is the first token that it called accepted although it was not proposed.
    """

    def __init__(self, verify: Verify) -> None:
        self.verify, self.false_claim = verify, ""

    def __call__(self, target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
        """The round; ``BrokenError`` with its input where there is none."""

        def given() -> str:
            return _shown(target, draft, proposals)

        with blamed(given):
            emitted: Any = self.verify(target, draft, proposals, chance)
        told = isinstance(emitted, Round)
        tokens = read_tokens(emitted.tokens if told else emitted, target.shape[1], "it emitted", given)
        if not tokens:
            raise BrokenError(f"it emitted no token; {given()}")
        if not told:
            return _as_round(tokens, tuple(proposals))
        kept = emitted.accepted
        if not self.false_claim and tokens[:kept] != tuple(proposals)[:kept]:
            self.false_claim = f"{kept} of the proposals {list(map(int, proposals))} are called accepted in {list(tokens)}"
        return emitted


def _as_round(tokens: Text, proposals: Text) -> Round:
    kept = min(len(tokens) - 1, len(proposals)) if tokens != proposals else len(tokens)
    last = "bonus" if kept == len(proposals) else "correction"
    return Round(tokens, ("accepted",) * kept + (last,) * (len(tokens) - kept))


def read_tokens(tokens: Any, size: int, what: str, given: Callable[[], str] = str) -> Text:
    """``tokens`` as a tuple of ids below ``size``; ``BrokenError`` says what is wrong with them, and what was given."""
    read = tuple(tokens) if isinstance(tokens, Iterable) else tokens
    fault = token_fault(read, size)
    if fault:
        known = given()
        raise BrokenError(f"{what} {fault}{known and '; '}{known}")
    return tuple(map(index, read))


def token_fault(tokens: Any, size: int) -> str | None:
    """What keeps ``tokens`` from being ids below ``size``, in words, or None."""
    if not isinstance(tokens, Iterable):
        return f"{tokens!r}, which is no sequence of token ids"
    wrong = [token for token in tokens if not _is_id(token, size)]
    return f"{wrong[0]!r}, which is no token id from 0 to {size - 1}" if wrong else None


def _is_id(token: Any, size: int) -> bool:
    try:
        return not isinstance(token, bool) and 0 <= index(token) < size
    except TypeError:
        return False


def _shown(target: Array, draft: Array, proposals: Sequence[int]) -> str:
    """The input of a round, to be copied into a test."""
    rows = [[[str(value) for value in row] for row in rows] for rows in (np.asarray(target), np.asarray(draft))]
    return f"target {rows[0]}, draft {rows[1]}, proposals {list(map(int, proposals))}"
