"""Tier 4: after every round that can happen, the rows that the caches give are those of a fresh computation."""

from typing import Any

from specdec.conformance.situations import Situation
from specdec.conformance.verdicts import Finding, Verdict
from specdec.conformance.walk import Walk
from specdec.decoding import State
from specdec.law import Array


def check(walk: Walk, situation: Situation, tolerance: float = 0.0) -> Finding:
    """For each state and each cache: feed the pending tokens, compare the next row with one computed from the whole text.

    A stale row of the target is LOSSY: the text is then drawn from the wrong law. A stale row of the draft is INEFFICIENT: any
    draft is legal, but this one is worse than it could be.
    """
    verdict, says, states = Verdict.AGREES, "", 0
    for state in sorted((walk.states[name] for name in walk.passages), key=lambda state: (state.length, state.generated)):
        states += 1
        for name in walk.decoder.models:
            fault = _staleness(walk, state, name, tolerance)
            found = Verdict.LOSSY if name == "target" else Verdict.INEFFICIENT
            if fault and list(Verdict).index(found) > list(Verdict).index(verdict):
                verdict, says = found, fault
    says = says or f"the next row of {len(walk.decoder.models)} caches in {states} states is that of the whole text"
    return Finding("state", situation.name, verdict, says)


def _staleness(walk: Walk, state: State, name: str, tolerance: float) -> str | None:
    """What is wrong with one cache in one state, or None."""
    model = walk.decoder.models[name]
    cache, text = model.copy(state.caches[name]), state.tokens
    if len(cache) >= len(text):
        return f"after {state.generated} the {name}'s cache holds {len(cache)} tokens of a text of {len(text)}: too many"
    try:
        cached: Any = model.append(cache, text[len(cache) :])[-1]
    except Exception as error:
        return f"after {state.generated} the {name} can't go on from its cache: {error}"
    fresh = model.append(model.start(), text)[-1]
    if same(cached, fresh, tolerance):
        return None
    shown = [f"({', '.join(str(value) for value in row)})" for row in (cached, fresh)]
    return f"after {state.generated} the {name}'s cache gives the row {shown[0]}, a fresh computation {shown[1]}"


def same(cached: Array, fresh: Array, tolerance: float) -> bool:
    """Whether no entry of two rows differs by more than the tolerance; -inf equals -inf."""
    return all(one == other or abs(one - other) <= tolerance for one, other in zip(cached, fresh, strict=True))
