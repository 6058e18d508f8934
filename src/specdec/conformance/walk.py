"""Every round that a decoder can go through in a situation, each once, with its exact probability.

The tiers on laws, caches and counts all read this one walk.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from specdec.chance import Chance, law_of
from specdec.conformance.guard import Branches, BrokenError, blamed
from specdec.conformance.handed import Handed
from specdec.conformance.samplers import Acceptance, ledger_acceptance
from specdec.conformance.situations import Law, Situation, Text
from specdec.decoding import Decoder, State, copy_state, state_key

IDLE = 4
"""So many rounds more than tokens are asked for, and it never ends."""


class Counts(NamedTuple):
    """What a round claims: tokens proposed (γ), accepted, emitted by the rule, committed to the text, and its acceptance."""

    proposed: int
    accepted: int
    emitted: int
    committed: int
    acceptance: tuple[int, int]


class Passage(NamedTuple):
    """One round as it was seen: its claim, how many tokens the text gained, and the name of the state behind it."""

    counts: Counts
    gained: int
    after: Hashable


@dataclass(frozen=True)
class Walk:
    """States by name, the passages out of each with their probabilities, how often each is visited, and the law of the text."""

    decoder: Decoder
    states: dict[Hashable, State]
    passages: dict[Hashable, dict[Passage, Any]]
    visits: dict[Hashable, Any]
    law: Law


def walk(decoder: Decoder, situation: Situation, acceptance: Acceptance = ledger_acceptance) -> Walk:
    """Compose ``step`` from the prompt until every text has stopped or is long enough, merging states of equal name.

    ``BrokenError`` for a text that does not grow, or a round without an end.
    """
    request = situation.request
    with blamed(lambda: f"given the prompt {request.prompt}", "start"):
        start = decoder.start(request.prompt)
    begin = state_key(decoder, start)
    states: dict[Hashable, State] = {begin: start}
    passages: dict[Hashable, dict[Passage, Any]] = {}
    visits: dict[Hashable, Any] = defaultdict(int)
    law: dict[Text, Any] = defaultdict(int)
    frontier: dict[Hashable, Any] = {begin: 1}
    rounds = 0
    while frontier:
        following: dict[Hashable, Any] = defaultdict(int)
        for name, weight in frontier.items():
            if states[name].stop is not None or states[name].length >= situation.tokens:
                law[request.shown(states[name].generated, situation.tokens)] += weight
                continue
            if name not in passages:
                passages[name] = _out_of(decoder, states, name, acceptance)
            visits[name] += weight
            for passage, probability in passages[name].items():
                following[passage.after] += weight * probability
        frontier, rounds = following, rounds + 1
        _check_going(frontier, states, situation, rounds)
    return Walk(decoder, states, passages, dict(visits), dict(law))


def _out_of(
    decoder: Decoder, states: dict[Hashable, State], name: Hashable, acceptance: Acceptance
) -> dict[Passage, Any]:
    """The law of the next round; the states that it leads to are kept by name."""
    branches = Branches()

    def once(chance: Chance) -> Passage:
        branches.next()
        before = states[name].length
        record, after = decoder.step(copy_state(decoder, states[name]), Handed(chance))
        key = state_key(decoder, after)
        states.setdefault(key, after)
        with blamed(lambda: f"given {record}", "the function that reports acceptance"):
            reported = acceptance([record])
        counts = Counts(record.gamma, record.accepted, record.emitted, record.committed, reported)
        return Passage(counts, after.length - before, key)

    with blamed(lambda: f"after {states[name].tokens}", "step"):
        return law_of(once)


def _check_going(frontier: dict[Hashable, Any], states: dict[Hashable, State], situation: Situation, rounds: int) -> None:
    if rounds > situation.tokens + IDLE and frontier:
        text = states[next(iter(frontier))].generated
        raise BrokenError(f"it never ends: {rounds} rounds made {text}, and {situation.tokens} tokens were asked for")
