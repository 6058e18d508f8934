"""Wrong twins: realistic mistakes in verification and decoding, kept so that the checks are shown to catch them.

Each differs from the right code in one place. The verification mutants have the signature of ``strict.verify``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.decoding import RoundRecord, Speculative, State
from specdec.law import Array, to_law
from specdec.models import LanguageModel
from specdec.verification import Round, Verify, ended, strict
from specdec.verification.strict import acceptance, correction_weights

Correct = Callable[[Array, Array, int], Array]


def _rule(correct: Correct = lambda p, q, i: correction_weights(p[i], q[i]), bonus_row: int = 0) -> Verify:
    """The strict rule with its correction weights and the row of its bonus, counted from row γ, as parameters."""

    def verify(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
        gamma = len(proposals)
        for i, token in enumerate(proposals):
            if not chance.accept(acceptance(target[i], draft[i], token), "accept"):
                return ended(proposals, i, chance.draw(correct(target, draft, i), "correct"), "correction")
        return ended(proposals, gamma, chance.draw(target[max(0, gamma + bonus_row)], "bonus"), "bonus")

    return verify


residual_is_p = _rule(correct=lambda p, q, i: p[i])
"""The correction is drawn from p instead of the residual: what "just resample" does."""

residual_from_previous_row = _rule(correct=lambda p, q, i: correction_weights(p[max(0, i - 1)], q[max(0, i - 1)]))
"""Off by one: the residual is taken one row too early. The first token's law stays right."""

bonus_from_previous_row = _rule(bonus_row=-1)
"""Off by one: the bonus is drawn from row γ - 1. The first γ tokens' law stays right."""


def bonus_after_rejection(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Adds a bonus from row γ even when a proposal was rejected: a row for a prefix that no longer stands."""
    round_ = strict.verify(target, draft, proposals, chance)
    if "bonus" in round_.origins:
        return round_
    return Round((*round_.tokens, chance.draw(target[len(proposals)], "bonus")), (*round_.origins, "bonus"))


def keeps_discarded_branch(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Replaces the rejected proposal and keeps those behind it, though they were drawn for the other prefix."""
    round_ = strict.verify(target, draft, proposals, chance)
    rest = tuple(proposals[len(round_.tokens) :])
    return Round(round_.tokens + rest, round_.origins + ("accepted",) * len(rest))


def one_uniform_for_two(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Reuses the uniform that rejected a proposal to draw the correction: given the rejection it is no longer uniform."""
    gamma = len(proposals)
    for i, token in enumerate(proposals):
        u = chance.uniform("accept")
        if not chance.accept(acceptance(target[i], draft[i], token), "accept", u=u):
            token = chance.draw(correction_weights(target[i], draft[i]), "correct", u=u)
            return ended(proposals, i, token, "correction")
    return ended(proposals, gamma, chance.draw(target[gamma], "bonus"), "bonus")


class RawRatio(Speculative):
    """Draws from the transformed draft law, forms the ratio with the raw one."""

    def propose(
        self, state: State, gamma: int, chance: Chance
    ) -> tuple[list[int], Array]:
        """The right proposals, the wrong q."""
        proposals, _ = super().propose(state, gamma, chance)
        return proposals, _untransformed(self, state, proposals)


class ArgmaxDraft(Speculative):
    """Proposes the draft's most likely token, then verifies it as if it had been drawn from the soft law."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Greedy proposals, the soft q."""
        return super().propose(state, gamma, _Argmax())  # type: ignore[arg-type]


class _Argmax:
    def draw(self, weights: Array, purpose: str) -> int:
        return int(np.argmax(weights))


def _untransformed(decoder: Speculative, state: State, proposals: Sequence[int]) -> Array:
    """The draft's own laws (γ, V) at the proposals, recomputed without any transform."""
    rows = decoder.draft.append(decoder.draft.start(), [*state.tokens, *proposals])[len(state.tokens) - 1 : -1]
    return to_law(rows)


class ShortCache:
    """A draft whose cache misses an entry: of several pending tokens it feeds only the last.

    That happens after full acceptance, when the last proposal is pending beside the bonus. The text's law stays exact, since
    any q is a legal draft; cached rows differ from recomputed ones, and acceptance falls.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def append(self, state: Any, tokens: Sequence[int]) -> Array:
        """Feeds an empty state all the tokens, any other only the last."""
        fed = tokens if len(state) == 0 else tokens[-1:]
        return self._model.append(state, fed)


class CountsPastStop(Speculative):
    """Reports every emitted token as committed, also those past a stop."""

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """The right text, the wrong count."""
        record, state = super().step(state, chance)
        return replace(record, committed=record.emitted), state
