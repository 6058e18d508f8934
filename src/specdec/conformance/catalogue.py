"""The default situations: small exact models on which mistakes of verification, transforms, stops, caches and batches show.

What each is for stands with it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from specdec.conformance.situations import Request, Situation
from specdec.decoding import Stop
from specdec.law import Array, RepetitionPenalty, Temperature, TopK, TopP, Transforms, exact
from specdec.models import abc_machine
from specdec.models.abc_machine import SYMBOLS
from specdec.models.automaton import Automaton
from specdec.models.table import Table
from specdec.models.text import Vocabulary

A, B, C = 0, 1, 2

TARGET, DRAFT = abc_machine.remembering()
CHAIN = (
    Table(exact([[1, 6, 3], [7, 1, 2], [2, 2, 6], [5, 3, 2]], 10)),
    Table(exact([[10, 5, 5], [6, 6, 8], [12, 6, 2], [4, 4, 12]], 20)),
)
"""F2 of the public reports: P and Q after 0, 1, 2 and at the start."""


def forgetful(p: list[int], q: list[int], denominator: int = 10) -> tuple[Table, Table]:
    """Target and draft with one row each, whatever the prefix."""
    return Table(exact(p, denominator)), Table(exact(q, denominator))


def _changed(model: Table, rows: dict[int, list[int]]) -> Table:
    """The same machine with other rows, in tenths, after some symbols (3: at the start)."""
    table = model.rows.copy()
    for symbol, row in rows.items():
        table[symbol] = exact(row, 10)
    return Table(table)


_MOVES = np.array([[1, 2, 0, 0], [2, 3, 1, 0], [3, 0, 2, 0], [0, 1, 3, 0]])  # adds 1, 2 or 0 modulo 4


def _running_sum(*laws: list[int]) -> Automaton:
    """A machine with cumulative memory: the sum of all its tokens modulo 4 names its row, in tenths."""
    return Automaton(_MOVES, exact(list(laws), 10), reach=8)


def _two_back(*laws: list[list[int]]) -> Table:
    """An order-2 machine over two symbols, in quarters: axes are the token before last, the last one, the law."""
    return Table(exact(list(laws), 4))


FOUR = Stop(length=4)
_C_OR_TWO = Stop(length=2, tokens=frozenset({C}))


def _asked(*steps: Any, stop: Stop = FOUR) -> tuple[Request, ...]:
    return (Request(transforms=Transforms(steps), stop=stop),)


THREE = _asked(stop=Stop(length=3))


@dataclass(frozen=True)
class NoRepeat:
    """A processor that looks at the text: the last token may not come again at once."""

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores (V,) without weight at the last token."""
        kept = np.array([token not in prefix[-1:] for token in range(len(scores))])
        return np.where(kept, scores, 0 if scores.dtype == object else -np.inf)


_TWO = (Table(exact([[1, 3], [4, 0], [2, 2]], 4)), Table(exact([[3, 1], [2, 2], [1, 3]], 4)))
"""Two symbols, and never B after B: so few texts that they can be long."""


def _rolled(places: int) -> Table:
    """Six symbols in twentieths: after each the same six weights, moved on by one, and by some places more."""
    return Table(exact([np.roll([1, 2, 3, 4, 5, 5], last + places).tolist() for last in range(7)], 20))


GRAMMAR = Situation(
    "grammar",
    "a processor that forbids a token by the one before it",
    TARGET,
    DRAFT,
    requests=(Request(transforms=Transforms((NoRepeat(),))),),
)

_SUM = np.array([[1, 2, 0], [2, 0, 1], [0, 1, 2]])
"""Adds 1 for A, 2 for B and 0 for the start token, modulo 3."""

RECURRENT = Situation(
    "recurrent",
    "cumulative memory behind a prompt, and a draft that is right but where the sum is 1: a stale state shows in acceptance",
    Automaton(_SUM, exact([[1, 3], [3, 1], [2, 2]], 4), reach=8),
    Automaton(_SUM, exact([[1, 3], [1, 3], [2, 2]], 4), reach=8),
    requests=(Request((A,)),),
)

SEPARATING = Situation(
    "far apart",
    "where wrong rules are easiest to tell from the right one: each is off by 17/300 or more in three tokens",
    Table(exact([[2, 2, 6], [2, 5, 3], [6, 2, 2], [4, 2, 4]], 10)),
    Table(exact([[10, 0, 0], [8, 0, 2], [4, 6, 0], [1, 3, 6]], 10)),
    tokens=3,
)
"""What ``separating.search`` found: of many pairs of chains in tenths the one with the largest least distance over the rules."""

_OTHERS: tuple[Situation, ...] = (
    Situation("distinct rows", "every row differs from the one before it: a row mistake shows", TARGET, DRAFT),
    Situation("reported chain", "the fixture of the public reports", *CHAIN),
    Situation(
        "one row", "a residual with two tokens: most wrong corrections show at once", *forgetful([5, 3, 2], [2, 2, 6]), (1,)
    ),
    Situation(
        "half", "a first proposal that the target halves: block rules must scale their residual", *forgetful([4, 4, 2], [8, 2, 0])
    ),
    Situation("γ by round", "none, one, three and two proposals in turn", TARGET, DRAFT, (0, 1, 3, 2)),
    Situation("equal", "p = q: nothing is rejected and no residual exists", TARGET, TARGET),
    Situation(
        "zeros in p",
        "the target forbids what the draft proposes",
        _changed(TARGET, {A: [0, 7, 3], C: [5, 0, 5], 3: [6, 4, 0]}),
        DRAFT,
    ),
    Situation(
        "zeros in q", "the draft never proposes what the target allows", TARGET, _changed(DRAFT, {A: [9, 0, 1], 3: [0, 5, 5]})
    ),
    Situation(
        "disjoint",
        "no proposal is ever accepted at the start and after A",
        _changed(TARGET, {A: [0, 6, 4], 3: [6, 4, 0]}),
        _changed(DRAFT, {A: [10, 0, 0], 3: [0, 0, 10]}),
    ),
    Situation(
        "one-hot draft",
        "a draft without doubt: q is 1 at its proposal",
        TARGET,
        Table(exact([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])),
    ),
    Situation(
        "ties",
        "p and q touch at a symbol, and two tokens share the maximum",
        Table(exact([[4, 4, 2], [3, 3, 4], [2, 4, 4], [4, 4, 2]], 10)),
        Table(exact([[4, 2, 4], [3, 4, 3], [4, 4, 2], [4, 3, 3]], 10)),
    ),
    Situation(
        "two back",
        "rows that depend on the last two tokens: a cache short of one shows",
        _two_back([[1, 3], [3, 1], [2, 2]], [[3, 1], [1, 3], [2, 2]], [[2, 2], [2, 2], [2, 2]]),
        _two_back([[1, 3], [3, 1], [2, 2]], [[3, 1], [1, 3], [2, 2]], [[2, 2], [2, 2], [3, 1]]),
        requests=_asked(stop=Stop(length=6)),
        tokens=6,
    ),
    Situation(
        "running sum",
        "cumulative memory: it can't be cut, only restored",
        _running_sum([6, 3, 1], [1, 6, 3], [7, 1, 2], [2, 2, 6]),
        _running_sum([2, 3, 5], [4, 5, 1], [1, 6, 3], [6, 2, 2]),
    ),
    Situation(
        "stop token",
        "B ends the text, also inside a block",
        TARGET,
        DRAFT,
        (3,),
        _asked(stop=Stop(tokens=frozenset({B}), length=4)),
    ),
    Situation("cap", "the text ends at three tokens, in the middle of a round", TARGET, DRAFT, (2,), THREE),
    Situation(
        "cap and stop",
        "a stop token before the cap wins",
        TARGET,
        DRAFT,
        (3,),
        _asked(stop=Stop(length=3, tokens=frozenset({C}))),
    ),
    Situation("prompt", "the text begins behind a prompt", TARGET, DRAFT, (2,), (Request((A, C)),)),
    Situation("temperature", "T = 1/2, for target and draft alike", TARGET, DRAFT, (2,), _asked(Temperature(Fraction(1, 2)))),
    Situation("top-k", "the two likeliest tokens", TARGET, DRAFT, (2,), _asked(TopK(2))),
    Situation("top-p", "the nucleus of 7/10", TARGET, DRAFT, (2,), _asked(TopP(Fraction(7, 10)))),
    Situation("penalty", "each row sees the proposals before it", TARGET, DRAFT, (2,), _asked(RepetitionPenalty(2))),
    Situation("greedy", "T = 0: one text, with probability 1", TARGET, DRAFT, (2,), _asked(Temperature(0))),
    Situation(
        "smaller draft",
        "the draft does not know C",
        TARGET,
        _changed(DRAFT, {A: [5, 5, 0], B: [4, 6, 0], C: [7, 3, 0], 3: [4, 6, 0]}),
        draft_size=2,
    ),
    Situation(
        "larger draft",
        "the draft knows a token that the target lacks",
        _changed(TARGET, {A: [4, 6, 0], B: [7, 3, 0], C: [2, 8, 0], 3: [6, 4, 0]}),
        DRAFT,
        draft_size=3,
    ),
    Situation(
        "ragged batch",
        "two texts that run apart, after different prompts; C ends a text while the other goes on",
        TARGET,
        DRAFT,
        (2,),
        (Request(stop=_C_OR_TWO), Request((B,), stop=_C_OR_TWO)),
        tokens=2,
    ),
    Situation(
        "greedy and sampled",
        "a batch whose first text is greedy and whose second is not",
        TARGET,
        DRAFT,
        (1,),
        (Request(transforms=Transforms((Temperature(0),)), stop=Stop(length=3)), *THREE),
        tokens=3,
    ),
)

_OUTLYING: tuple[Situation, ...] = (
    Situation(
        "long run",
        "eight tokens, a round at a time: what goes wrong after a while",
        *_TWO,
        (1,),
        _asked(stop=Stop(length=8)),
        tokens=8,
    ),
    Situation(
        "long block", "five proposals in a round: a late position shows", *_TWO, (5,), _asked(stop=Stop(length=6)), tokens=6
    ),
    Situation("wide", "six symbols: a mistake with the last ids shows", _rolled(0), _rolled(2), (1,), THREE, 3),
    Situation(
        "many stops",
        "two stop tokens, and a prompt that holds both: only what was generated counts",
        TARGET,
        DRAFT,
        (2,),
        (Request((B, A, C, A, A), stop=Stop(length=4, tokens=frozenset({A, B}))),),
    ),
    Situation(
        "stop string",
        "AB ends the text, though a round ends between the two",
        TARGET,
        DRAFT,
        (2,),
        _asked(stop=Stop(length=4, strings=("AB",), decode=Vocabulary(SYMBOLS).decode)),
    ),
    Situation(
        "penalty behind a prompt",
        "the prompt's tokens are penalised too",
        TARGET,
        DRAFT,
        (2,),
        (Request((A, C), Transforms((RepetitionPenalty(2),)), Stop(length=3)),),
        tokens=3,
    ),
    Situation(
        "temperature, then top-p",
        "the nucleus is that of the tempered law: the order of transforms shows",
        TARGET,
        DRAFT,
        (2,),
        _asked(Temperature(Fraction(1, 2)), TopP(Fraction(19, 20))),
    ),
    Situation(
        "uneven batch",
        "three texts, each with its own cap and prompt; B ends the second, and the last is greedy",
        TARGET,
        DRAFT,
        (1,),
        (
            Request(stop=Stop(length=1)),
            Request((B,), stop=Stop(length=3, tokens=frozenset({B}))),
            Request((A,), Transforms((Temperature(0),)), Stop(length=2)),
        ),
        tokens=3,
    ),
)
"""One for each bound that the others share: longer, wider, or more of a kind."""

KILLERS: tuple[str, ...] = (
    "far apart",
    "recurrent",
    "top-k",
    "temperature",
    "top-p",
    "stop token",
    "penalty",
    "ragged batch",
    "two back",
)
KILLERS += ("greedy and sampled", "smaller draft")
"""So few show every mutant of ``specimens`` that the exact, state or accounting tier can see (a greedy cover)."""

CATALOGUE: tuple[Situation, ...] = tuple(
    sorted(
        (SEPARATING, RECURRENT, GRAMMAR, *_OTHERS, *_OUTLYING),
        key=lambda situation: (*KILLERS, situation.name).index(situation.name),
    )
)
"""The default catalogue: the killers first, so that a mistake shows soon."""


def bounds(situations: Sequence[Situation] = CATALOGUE) -> str:
    """The largest of everything that comes up in some situations, not all of it at once. Beyond these bounds nothing is shown."""
    asked = [(situation, request) for situation in situations for request in situation.requests]
    steps = {type(step).__name__ for _, request in asked for step in request.transforms.steps}
    kinds = sorted(re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower() for name in steps)
    largest = {
        "V": max(situation.target.vocab_size for situation in situations),
        "γ": max(max(situation.gammas) for situation in situations),
        "tokens of a text": max(min(situation.tokens, request.stop.length or situation.tokens) for situation, request in asked),
        "of a prompt": max(len(request.prompt) for _, request in asked),
        "texts of a batch": max(len(situation.requests) for situation in situations),
        "stop tokens": max(len(request.stop.tokens) for _, request in asked),
        "stop strings": max(len(request.stop.strings) for _, request in asked),
        "transforms": max(len(request.transforms.steps) for _, request in asked),
    }
    return ", ".join(f"{name} ≤ {value}" for name, value in largest.items()) + f" ({', '.join(kinds) or 'none'})"


BY_NAME = {situation.name: situation for situation in CATALOGUE}
