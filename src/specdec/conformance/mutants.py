"""Wrong twins: realistic mistakes in verification and decoding, kept so that the checks are shown to catch them.

Each differs from the right code in one place. The verification mutants have the signature of ``strict.verify``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.decoding import RoundRecord, Speculative, State
from specdec.law import Array, to_law
from specdec.models import LanguageModel
from specdec.verification import Round, Verify, block, ended, strict
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


# ---- block verification ---------------------------------------------------------------------------------------------
#
# At γ = 1 block verification is the strict rule, and these twins are right too, all but block_mass_from_previous_row.
# Over two symbols block_plain_residual is right at every γ.


def _longest(h: Sequence[Any], chance: Chance) -> int:
    """The right search: from the whole block down to the first prefix that passes."""
    kept = len(h) - 1
    while kept > 0 and not chance.accept(h[kept], "accept"):
        kept -= 1
    return kept


def _up_to_first_failure(h: Sequence[Any], chance: Chance) -> int:
    kept = 0
    while kept + 1 < len(h) and chance.accept(h[kept + 1], "accept"):
        kept += 1
    return kept


def _longest_with_one_uniform(h: Sequence[Any], chance: Chance) -> int:
    u = chance.uniform("accept") if len(h) > 1 else None
    kept = len(h) - 1
    while kept > 0 and not chance.accept(h[kept], "accept", u=u):
        kept -= 1
    return kept


def _block(
    ratios: Callable[[Array, Array, Sequence[int]], list[Any]] = block.ratios,
    acceptances: Callable[[Array, Array, list[Any]], list[Any]] = block.acceptances,
    keep: Callable[[list[Any], Chance], int] = _longest,
    correct: Callable[[Array, Array, Any], Array] = lambda p, q, r: correction_weights(r * p, q),
) -> Verify:
    """The block rule with its ratios r, its acceptances h, its search and its correction weights as parameters."""

    def verify(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
        r = ratios(target, draft, proposals)
        kept = keep(acceptances(target, draft, r), chance)
        if kept == len(proposals):
            return ended(proposals, kept, chance.draw(target[kept], "bonus"), "bonus")
        weights = correct(target[kept], draft[kept], r[kept])
        return ended(proposals, kept, chance.draw(weights, "correct"), "correction")

    return verify


def _each(target: Array, draft: Array, proposals: Sequence[int]) -> list[Any]:
    """p(x_i)/q(x_i), position by position, behind the 1 of no proposals."""
    return [1, *(p[x] / q[x] for p, q, x in zip(target[:-1], draft, proposals, strict=True))]


block_plain_residual = _block(correct=lambda p, q, r: correction_weights(p, q))
"""The block's acceptances with strict's residual: (p - q)+ instead of (r_i p - q)+."""

block_restarts = _block(ratios=lambda p, q, x: [min(1, ratio) for ratio in _each(p, q, x)])
"""Every ratio starts at 1 again: r_i = min(1, p/q) carries nothing over from the proposals before."""

block_caps_late = _block(ratios=lambda p, q, x: [min(1, ratio) for ratio in accumulate(_each(p, q, x), mul)])
"""A running product of p/q, capped only where it is read: an excess early in the block pays for a lack behind it."""

block_caps_early = _block(ratios=lambda p, q, x: list(accumulate((min(1, ratio) for ratio in _each(p, q, x)), mul)))
"""A running product of min(1, p/q): the probability with which strict keeps i proposals, in the place of the block's."""

block_mass_from_previous_row = _block(acceptances=lambda p, q, r: [1, *block.acceptances(p, q, [*r[1:], 1])[:-1]])
"""Off by one: S_i is formed at row i - 1, where proposal i itself was judged, and for the whole block alike."""

block_same_test_everywhere = _block(acceptances=lambda p, q, r: r)
"""Each prefix passes with r_i, as the whole block does: that a longer one may have passed already is forgotten."""

block_stops_at_first_failure = _block(keep=_up_to_first_failure)
"""Asks from the front and stops at the first prefix that fails, as strict does: a longer one never gets its chance."""

block_one_uniform = _block(keep=_longest_with_one_uniform)
"""One uniform for all prefixes: given that the longer ones failed it is no longer uniform."""


def block_tokenwise(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Strict's acceptances with the block's residual: (r_i p - q)+ where (p - q)+ is due."""
    alone = [min(1, ratio) for ratio in _each(target, draft, proposals)]
    return _block(acceptances=lambda p, q, r: alone, keep=_up_to_first_failure)(target, draft, proposals, chance)


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


# ---- several texts ----------------------------------------------------------------------------------------------------


class _Replayed:
    """Reads a tape of uniforms from its beginning, and lengthens it where it ends."""

    def __init__(self, chance: Chance, tape: list[Any]) -> None:
        self._chance, self._tape, self._read = chance, tape, 0

    def uniform(self, purpose: str) -> Any:
        if self._read == len(self._tape):
            self._tape.append(self._chance.uniform(purpose))
        self._read += 1
        return self._tape[self._read - 1]

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        return self._chance.accept(probability, purpose, u=self.uniform(purpose) if u is None else u)

    def draw(self, weights: Any, purpose: str, u: Any = None) -> int:
        return self._chance.draw(weights, purpose, u=self.uniform(purpose) if u is None else u)


def one_seed_for_all(chance: Chance, number: int) -> list[Chance]:
    """Seeds every text of a batch alike: each has the right law, but they are drawn with the same uniforms."""
    tape: list[Any] = []
    return [_Replayed(chance, tape) for _ in range(number)]


class NeighboursRows:
    """A target whose batched pass hands each text the rows of the one before it."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def append_batch(self, states: Sequence[Any], tokens: Sequence[Sequence[int]]) -> list[Array]:
        """The right rows in the wrong order."""
        rows = [self._model.append(state, fed) for state, fed in zip(states, tokens, strict=True)]
        return rows[-1:] + rows[:-1]


# ---- rounds whose length depends on their own proposals ----------------------------------------------------------------
#
# Ending a draft is right as long as every token that was drawn is kept: what is drawn next, or not at all, may depend on it.

DOUBT = Fraction(3, 10)
"""A proposal with a smaller q is in doubt."""


class EndsBehindDoubt(Speculative):
    """No mistake, though it looks like one: ends the draft behind a proposal in doubt, which it keeps."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Draws one proposal after the other."""
        proposals: list[int] = []
        q = np.empty((0, self.target.vocab_size), dtype=object if self.draft.exact else np.float64)
        while len(proposals) < gamma and not in_doubt(proposals, q):
            ahead = replace(state, tokens=[*state.tokens, *proposals])  # of the same caches
            more, law = super().propose(ahead, 1, chance)
            if not more:
                break
            proposals, q = proposals + more, np.concatenate([q, law])
        return proposals, q


class DropsDoubt(EndsBehindDoubt):
    """Drops the proposal in doubt, as not worth a row of the target's: those that are left are no longer drawn from q."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """The right proposals but the last, if that is in doubt."""
        proposals, q = super().propose(state, gamma, chance)
        kept = len(proposals) - in_doubt(proposals, q)
        return proposals[:kept], q[:kept]


def in_doubt(proposals: Sequence[int], q: Array) -> bool:
    """Whether the last proposal is."""
    return bool(proposals) and bool(q[-1][proposals[-1]] < DOUBT)


class SilentInDoubt:
    """No mistake either: a draft that proposes nothing where its next law has no token of at least ``sure``.

    It looks at the law before anything is drawn from it.
    """

    def __init__(self, model: LanguageModel, sure: Any) -> None:
        self._model, self._sure = model, sure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def append(self, state: Any, tokens: Sequence[int]) -> Array:
        """Rows without weight where the draft is not sure."""
        scores = self._model.append(state, tokens)
        unsure = to_law(scores).max(axis=-1) < self._sure
        return np.where(unsure[:, None], 0 if self._model.exact else -np.inf, scores)
