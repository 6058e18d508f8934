"""The stepper: rounds of the ABC machine one decision at a time, with both caches, at uniforms that the reader sets.

The page holds no rule. ``facts`` runs the library's own decoder along every branch of a round and writes down what ``Recorded``
notes; ``stepper_walk.mjs`` finds the cell that a uniform falls into and goes where it leads.
"""

import json
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, NamedTuple

from specdec.book.lab import Lab
from specdec.book.tables import ResultTable, table
from specdec.chance import Chance, Decision, Recorded, Scripted, law_of
from specdec.decoding import Speculative, State
from specdec.models.abc_machine import forgetful, remembering

SYMBOLS = "ABC^"
"""Token 3 is the start token."""

MACHINES = {"forgetful": forgetful, "remembering": remembering}
GAMMAS = (1, 2, 3)
"""Four proposals would make the page's branches nine times as many."""


class Step(NamedTuple):
    """One decision as the page shows it. ``held``: how many tokens the target's and the draft's cache hold when it is asked."""

    purpose: str
    asked: tuple[str, ...]
    held: tuple[int, int]
    u: Any
    outcome: str | bool


class _Watched:
    """A chance that notes, at each uniform, the lengths of a state's caches."""

    def __init__(self, chance: Chance, state: State) -> None:
        self._chance, self._state = chance, state
        self.held: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chance, name)

    def uniform(self, purpose: str) -> Any:
        self.held.append(held(self._state))
        return self._chance.uniform(purpose)


def held(state: State) -> tuple[int, int]:
    """How many tokens the target's and the draft's cache hold."""
    return len(state.caches["target"]), len(state.caches["draft"])


def letters(tokens: Sequence[int]) -> str:
    """Tokens as letters."""
    return "".join(SYMBOLS[token] for token in tokens)


def asked(decision: Decision) -> tuple[str, ...]:
    """A draw's weights, or an acceptance's probability alone."""
    return tuple(map(str, decision.asked)) if decision.kind == "draw" else (str(decision.asked),)


def played(decoder: Speculative, state: State, chance: Chance) -> tuple[list[Step], tuple[str, ...]]:
    """Advance a state by one round; return its decisions and the origins of what it emits."""
    watched = _Watched(chance, state)
    recorded = Recorded(watched)  # type: ignore[arg-type]  # the rest of Chance is passed on
    record, _ = decoder.step(state, recorded)
    steps = [
        Step(d.purpose, asked(d), lengths, d.u, d.outcome if d.kind == "accept" else SYMBOLS[d.outcome])
        for d, lengths in zip(recorded.tape, watched.held, strict=True)
    ]
    return steps, record.round.origins


def branches(decoder: Speculative, last: str) -> dict[Any, Any]:
    """{branch: probability} of a round after a text that ends in ``last``: (steps, (tokens, origins, held)).

    A step's u is the upper end of the uniforms that lead along the branch. Lengths count from the committed text: before the
    round in its steps, after it at the end.
    """

    def round_(chance: Chance) -> Any:
        state = decoder.start(() if last == "^" else (SYMBOLS.index(last),))
        for name, model in decoder.models.items():  # as if the round before had left only the last token pending
            model.append(state.caches[name], state.tokens[:-1])
        before = len(state.tokens)
        steps, origins = played(decoder, state, chance)
        ends = [step._replace(held=_from(before, step.held), u=str(step.u.high)) for step in steps]
        return tuple(ends), (letters(state.tokens[before:]), origins, _from(len(state.tokens), held(state)))

    return law_of(round_)


def _from(committed: int, lengths: tuple[int, int]) -> tuple[int, int]:
    return lengths[0] - committed, lengths[1] - committed


class _Tree:
    """Branches as nodes that refer to each other by number. Equal ones are kept once."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def add(self, paths: Sequence[Any], depth: int = 0) -> int:
        """The number of the node where these paths, alike up to here, go on."""
        steps, (tokens, origins, lengths) = paths[0]
        if depth == len(steps):
            return self._kept({"tokens": tokens, "origins": origins, "held": lengths})
        ways: dict[Any, list[Any]] = {}
        for path in paths:
            ways.setdefault((Fraction(path[0][depth].u), path[0][depth].outcome), []).append(path)
        cells = [[outcome, str(end), self.add(ways[end, outcome], depth + 1)] for end, outcome in sorted(ways)]
        step = steps[depth]
        return self._kept({"purpose": step.purpose, "asked": step.asked, "held": step.held, "cells": cells})

    def _kept(self, node: dict[str, Any]) -> int:
        key = json.dumps(node)
        if key not in self._numbers:
            self._numbers[key] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[key]


def facts_of(decoders: dict[str, dict[int, Speculative]]) -> dict[str, Any]:
    """What the page knows of some decoders, by machine and γ: nodes of all rounds, where each begins, and the target's rows."""
    tree = _Tree()
    roots = {
        machine: {
            str(gamma): {last: tree.add(list(branches(decoder, last))) for last in SYMBOLS} for gamma, decoder in by_gamma.items()
        }
        for machine, by_gamma in decoders.items()
    }
    rows = {machine: target_rows(next(iter(by_gamma.values()))) for machine, by_gamma in decoders.items()}
    return {"nodes": tree.nodes, "roots": roots, "target": rows}


def target_rows(decoder: Speculative) -> dict[str, list[str]]:
    """The target's row after each symbol."""
    rows = decoder.target.append(decoder.target.start(), range(len(SYMBOLS)))
    return {last: list(map(str, row)) for last, row in zip(SYMBOLS, rows, strict=True)}


@cache
def _facts() -> str:
    decoders = {name: {gamma: Speculative(*machine(), gamma) for gamma in GAMMAS} for name, machine in MACHINES.items()}
    return json.dumps(facts_of(decoders), separators=(",", ":"))


class Stepper(Lab):
    """The stepper. ``machine``: forgetful or remembering; ``gamma``: 1 to 3; ``tape``: uniforms in order, as text or fractions;
    ``seed``: fills the tape where it is empty; ``at``: how many steps are taken when the page opens.

    >>> Stepper(tape=[".42", ".8", ".7", "1/5", ".6"])
    """

    name: ClassVar[str] = "stepper"
    modules: ClassVar[tuple[str, ...]] = ("fractions.mjs", "stepper_walk.mjs", "stepper_lab.mjs")
    defaults: ClassVar[dict[str, str]] = {
        "machine": "forgetful",
        "gamma": "2",
        "seed": "1",
        "tape": ".42,.8,.7,.3,.6",
        "at": "0",
    }

    def __init__(self, **preset: Any) -> None:
        setting = self.filled(preset)
        self._first = first_round(setting)  # a setting that can't be played is refused here, and not when it is shown
        super().__init__(**preset)

    @classmethod
    def facts(cls) -> str:
        """Every branch of every round, as JSON text."""
        return _facts()

    def static(self) -> ResultTable:
        """What stands on a page without JavaScript: the first round, a line a decision, with both caches."""
        return self._first


def first_round(setting: dict[str, str]) -> ResultTable:
    """The first round of a setting, as ``Recorded`` notes it. ``ValueError`` if the tape is too short for it, or wrong."""
    if setting["machine"] not in MACHINES or setting["gamma"] not in map(str, GAMMAS):
        known = f"machine is {' or '.join(MACHINES)}, gamma one of {', '.join(map(str, GAMMAS))}"
        raise ValueError(f"machine {setting['machine']!r} with gamma {setting['gamma']!r}: {known}")
    decoder = Speculative(*MACHINES[setting["machine"]](), int(setting["gamma"]))
    state = decoder.start()
    tape = setting["tape"].split(",")
    steps, origins = played(decoder, state, Scripted(map(Fraction, tape)))
    proposals = "".join(str(step.outcome) for step in steps if step.purpose == "propose")
    fed = "^" + proposals
    rows: list[Any] = [
        [i, step.purpose, "  ".join(step.asked), tape[i], step.outcome, *(fed[:length] or "nothing" for length in step.held)]
        for i, step in enumerate(steps)
    ]
    rows.append(["end", "rewind", "", "", "", *(letters(state.caches[name]) for name in ("target", "draft"))])
    told = ", ".join(f"{token} ({origin})" for token, origin in zip(letters(state.generated), origins, strict=True))
    header = ["position", "purpose", "asked", "uniform", "outcome", "target's cache", "draft's cache"]
    return table(header, rows, f"A first round, decision by decision: proposed {' '.join(proposals)}, emitted {told}")
