"""Wrong rules: realistic mistakes in the verification of one round, each with the signature of ``strict.verify``.

Each differs from the right code in one place. Symptom, cause and public reports stand with the names in ``specimens``, the wrong
decoders, caches, stops, counts and batches in ``loop_mutants``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.law import Array, is_exact, normalise, positive_part
from specdec.verification import Round, Verify, block, ended, strict
from specdec.verification.strict import acceptance, correction_weights

Accept = Callable[[Array, Array, int, int], Any]
"""(target rows p, draft rows q, position i, proposal x) -> the probability to accept x."""
Correct = Callable[[Array, Array, int, int], Array]
"""The same -> the weights of the correction, after x was rejected at i."""
Bonus = Callable[[Array, Array], Array]
"""(p, q) -> the weights of the bonus."""


def _ratio(p: Array, q: Array, i: int, x: int) -> Any:
    return acceptance(p[i], q[i], x)


def _residual(p: Array, q: Array, i: int, x: int) -> Array:
    return correction_weights(p[i], q[i])


def _last_row(p: Array, q: Array) -> Array:
    return p[-1]


def _asked(chance: Chance, probability: Any) -> bool:
    return chance.accept(probability, "accept")


def _drawn(chance: Chance, weights: Array, purpose: str) -> int:
    return chance.draw(weights, purpose)


def _rule(
    accept: Accept = _ratio,
    correct: Correct = _residual,
    bonus: Bonus = _last_row,
    decide: Callable[[Chance, Any], bool] = _asked,
    draw: Callable[[Chance, Array, str], int] = _drawn,
) -> Verify:
    """The strict rule in its five parts: acceptance, correction, bonus, and how a decision and a draw are made of chance."""

    def verify(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
        for i, token in enumerate(proposals):
            if not decide(chance, accept(target, draft, i, token)):
                return ended(proposals, i, draw(chance, correct(target, draft, i, token), "correct"), "correction")
        return ended(proposals, len(proposals), draw(chance, bonus(target, draft), "bonus"), "bonus")

    return verify


# ---- the correction ---------------------------------------------------------------------------------------------------

residual_is_p = _rule(correct=lambda p, q, i, x: p[i])
"""The correction is drawn from p instead of the residual: what "just resample" does."""

residual_from_previous_row = _rule(correct=lambda p, q, i, x: _residual(p, q, max(0, i - 1), x))
"""Off by one: the residual is taken one row too early. The first token's law stays right."""

residual_from_next_row = _rule(correct=lambda p, q, i, x: _residual(p, q, i + 1, x) if i + 1 < len(q) else p[i + 1])
"""Off by one: the residual is taken one row too late, where there may be no q left."""

correction_from_q = _rule(correct=lambda p, q, i, x: q[i])
"""The correction is drawn from the draft."""

residual_is_absolute = _rule(correct=lambda p, q, i, x: abs(p[i] - q[i]))
"""``|p - q|``: the lack is taken for an excess."""

residual_is_turned_round = _rule(correct=lambda p, q, i, x: positive_part(q[i], p[i]))
"""(q - p)+: what the draft has too much of."""


def _without(law: Array, token: int) -> Array:
    rest = law.copy()
    rest[token] = 0
    return rest


one_hot_residual = _rule(correct=lambda p, q, i, x: _without(p[i], x))
"""The correction of a one-hot draft, p without the proposal, after the acceptance of a soft one."""


def _one_hot(values: Array) -> Array:
    best = np.zeros(len(values), dtype=values.dtype)
    best[int(np.argmax(values))] = 1
    return best


correction_is_argmax_of_p = _rule(correct=lambda p, q, i, x: _one_hot(p[i]))
correction_is_argmax_of_residual = _rule(correct=lambda p, q, i, x: _one_hot(p[i] - q[i]))
correction_is_uniform = _rule(correct=lambda p, q, i, x: (p[i] > q[i]) * (p[i] * 0 + 1))
correction_is_p_where_larger = _rule(correct=lambda p, q, i, x: np.where(p[i] > q[i], p[i], 0))
"""The last four pass every test on a residual of one token, such as the lesson's (1, 0, 0)."""


def _clipped(p: Array, q: Array, i: int, x: int) -> Array:
    """The residual on the target's two likeliest tokens alone, or all of it where they have none."""
    best = np.argsort(-p[i], kind="stable")[:2]
    kept = np.zeros(len(p[i]), dtype=bool)
    kept[best] = True
    weights = np.where(kept, correction_weights(p[i], q[i]), 0)
    return weights if np.count_nonzero(weights) else correction_weights(p[i], q[i])


residual_clipped = _rule(correct=_clipped)


def _softmax(weights: Array) -> Array:
    """e to the power of each weight; on exact weights to two places, so that it is a Fraction."""
    if not is_exact(weights):
        return np.exp(weights)
    return np.array([Fraction(round(100 * math.exp(w)), 100) for w in weights], dtype=object)


residual_through_softmax = _rule(correct=lambda p, q, i, x: _softmax(correction_weights(p[i], q[i])))


def _first_above(chance: Chance, weights: Array, purpose: str) -> int | None:
    """The first index whose cumulative weight exceeds a uniform, as if the weights added up to 1."""
    u = chance.uniform(purpose)
    return next((k for k, edge in enumerate(np.add.accumulate(weights).tolist()) if u < edge), None)


def _first_above_or_last(chance: Chance, weights: Array, purpose: str) -> int:
    found = _first_above(chance, weights, purpose)
    return len(weights) - 1 if found is None else found


residual_not_normalised_last = _rule(draw=_first_above_or_last)
"""What the weights lack goes to the last token: a search that is clamped to the range."""

residual_not_normalised_first = _rule(draw=lambda chance, weights, purpose: _first_above(chance, weights, purpose) or 0)
"""What the weights lack goes to token 0: an argmax over "exceeds u" that finds nothing."""


def residual_before_need(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Normalises all residuals at once, before anything is rejected: 0/0 at a row where p = q."""
    residuals = normalise(positive_part(target[:-1], draft))
    return _rule(correct=lambda p, q, i, x: residuals[i])(target, draft, proposals, chance)


def laws_divided_in_place(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Writes the ratios p/q over the target's rows, and forms the residual from these."""
    ratios = target[:-1]
    np.divide(ratios, draft, out=ratios, where=draft > 0)
    parts = _rule(lambda p, q, i, x: min(1, p[i][x]), lambda p, q, i, x: correction_weights(p[i], q[i]))
    return parts(target, draft, proposals, chance)


# ---- the bonus, and what may follow -------------------------------------------------------------------------------------

bonus_from_previous_row = _rule(bonus=lambda p, q: p[max(0, len(q) - 1)])
"""Off by one: the bonus is drawn from row γ - 1. The first γ tokens' law stays right."""

bonus_from_first_row = _rule(bonus=lambda p, q: p[0])
"""Row γ + 1 modulo γ + 1: an index too far that wraps round. The first γ tokens' law stays right."""

bonus_from_residual = _rule(bonus=lambda p, q: correction_weights(p[-2], q[-1]) if len(q) else p[-1])
"""One draw for both ends of a round: the bonus comes from the residual of row γ - 1 too."""


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


# ---- the acceptance -----------------------------------------------------------------------------------------------------


def _lenient(factor: Fraction | int) -> Verify:
    return _rule(accept=lambda p, q, i, x: min(1, factor * p[i][x] / q[i][x]))


lenience_2 = _lenient(2)
lenience_1_1 = _lenient(Fraction(11, 10))

accepts_all = _rule(accept=lambda p, q, i, x: 1)
"""The number of proposals that match themselves is taken for the number accepted."""

first_unverified = _rule(accept=lambda p, q, i, x: 1 if i == 0 else _ratio(p, q, i, x))
"""The first proposal is committed before the target has seen it."""

threshold = _rule(accept=lambda p, q, i, x: int(p[i][x] >= q[i][x]))
"""Accepts where p >= q and never otherwise: no chance in it."""

inverted_ratio = _rule(accept=lambda p, q, i, x: 1 if q[i][x] >= p[i][x] else q[i][x] / p[i][x])
"""min(1, q/p)."""

ratio_from_next_row = _rule(accept=lambda p, q, i, x: acceptance(p[i + 1], q[i], x))
"""Off by one: the target's rows are read one too late, as if row i judged the token that it was computed from."""

top_two = _rule(accept=lambda p, q, i, x: int((p[i] > p[i][x]).sum() < 2))
"""Accepts what is among the target's two likeliest tokens: "typical" acceptance."""

drops_draft_laws = _rule(accept=lambda p, q, i, x: p[i][x], correct=lambda p, q, i, x: _without(p[i], x))
"""Takes q for one-hot at the proposal, in acceptance and residual alike. The law is right, fewer are accepted."""

reciprocal_ratio = _rule(accept=lambda p, q, i, x: 1 / max(1, q[i][x] / p[i][x]))
"""1 / max(1, q/p), which is min(1, p/q) but for p = 0."""


def all_or_nothing(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """One decision for the whole block, with the product of its ratios; else the first proposal is replaced."""
    gamma = len(proposals)
    if gamma and not chance.accept(min(1, prod(_each(target, draft, proposals))), "accept"):
        return ended(proposals, 0, chance.draw(correction_weights(target[0], draft[0]), "correct"), "correction")
    return ended(proposals, gamma, chance.draw(target[gamma], "bonus"), "bonus")


# ---- uniforms -----------------------------------------------------------------------------------------------------------

inclusive_acceptance = _rule(decide=lambda chance, probability: bool(chance.uniform("accept") <= probability))
"""u <= p/q accepts a token with p = 0 where u is 0."""


def _at_or_above(chance: Chance, weights: Array, purpose: str) -> int:
    u = chance.uniform(purpose)
    edges = np.add.accumulate(normalise(weights)).tolist()
    return next(k for k, edge in enumerate(edges) if u <= edge)


inclusive_draw = _rule(draw=_at_or_above)
"""The first token whose cumulative weight is at least u: token 0 where u is 0, even if its weight is 0."""


def one_uniform_for_two(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Reuses the uniform that rejected a proposal to draw the correction: given the rejection it is no longer uniform."""
    gamma = len(proposals)
    for i, token in enumerate(proposals):
        u = chance.uniform("accept")
        if not chance.accept(acceptance(target[i], draft[i], token), "accept", u=u):
            token = chance.draw(correction_weights(target[i], draft[i]), "correct", u=u)
            return ended(proposals, i, token, "correction")
    return ended(proposals, gamma, chance.draw(target[gamma], "bonus"), "bonus")


def one_uniform_for_all(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Asks for one uniform a round and compares every ratio with it."""
    u = chance.uniform("accept")
    return _rule(decide=lambda chance, probability: bool(u < probability))(target, draft, proposals, chance)


# ---- counts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claimed(Round):
    """A round that reports another number of accepted proposals than it emits."""

    claim: int = 0

    @property
    def accepted(self) -> int:
        """What is reported."""
        return self.claim


def counts_past_rejection(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Tests all proposals at once and reports the sum of the mask: 2 for [1, 0, 1], where 1 was kept."""
    mask = [chance.accept(_ratio(target, draft, i, token), "accept") for i, token in enumerate(proposals)]
    judged = iter(mask)
    round_ = _rule(decide=lambda chance, probability: next(judged))(target, draft, proposals, chance)
    return Claimed(round_.tokens, round_.origins, sum(mask))


def counts_bonus(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Reports every emitted token as accepted, the correction or bonus too."""
    round_ = strict.verify(target, draft, proposals, chance)
    return Claimed(round_.tokens, round_.origins, len(round_.tokens))


# ---- no law at all ------------------------------------------------------------------------------------------------------


def padded(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> tuple[int, ...]:
    """Returns γ + 1 tokens whatever was rejected: the rest is filled with id V, and nothing says so."""
    tokens = strict.verify(target, draft, proposals, chance).tokens
    return tokens + (target.shape[1],) * (len(proposals) + 1 - len(tokens))


def no_correction(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> tuple[int, ...]:
    """Returns the accepted prefix alone after a rejection: where the first proposal is rejected, nothing."""
    round_ = strict.verify(target, draft, proposals, chance)
    return round_.tokens if "bonus" in round_.origins else round_.tokens[:-1]


def redraws_until_accepted(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Replaces a rejected proposal by the next one from q, until one is accepted: never, where the supports are disjoint."""
    kept: list[int] = []
    for i, token in enumerate(proposals):
        while not chance.accept(acceptance(target[i], draft[i], token), "accept"):
            token = chance.draw(draft[i], "propose")
        kept.append(token)
        if token != proposals[i]:
            return ended(kept, i, token, "correction")
    return ended(kept, len(kept), chance.draw(target[-1], "bonus"), "bonus")


# ---- innocents: look-alikes that are right --------------------------------------------------------------------------------

weights_of_any_total = _rule(correct=lambda p, q, i, x: 7 * correction_weights(p[i], q[i]))
"""Weights that add up to something else, for a draw that normalises them itself."""


def draws_bonus_first(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Draws the bonus before anything is verified, and forgets it after a rejection: another text for the same seed."""
    bonus = chance.draw(target[-1], "bonus")
    return _rule(draw=lambda chance, w, purpose: bonus if purpose == "bonus" else chance.draw(w, purpose))(
        target, draft, proposals, chance
    )


def no_bonus(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Ends a round without rejection at its last proposal."""
    round_ = strict.verify(target, draft, proposals, chance)
    if "bonus" not in round_.origins or not proposals:
        return round_
    return Round(round_.tokens[:-1], round_.origins[:-1])


def recycled_uniform(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Draws the correction with the uniform that rejected, stretched: behind the acceptance a it is uniform on [a, 1)."""
    for i, token in enumerate(proposals):
        u, a = chance.uniform("accept"), _ratio(target, draft, i, token)
        if not u < a:
            edges = a + (1 - a) * np.add.accumulate(normalise(correction_weights(target[i], draft[i])))
            likely = np.flatnonzero(correction_weights(target[i], draft[i])).tolist()
            found = next((k for k in likely if u < edges[k]), likely[-1])
            return ended(proposals, i, found, "correction")
    return ended(proposals, len(proposals), chance.draw(target[-1], "bonus"), "bonus")


def argmax_or_strict(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Round:
    """Compares with the target's likeliest token where its row is one-hot, as a greedy path does, and is strict elsewhere."""

    def agrees(p: Array, q: Array, i: int, x: int) -> Any:
        return int(np.argmax(p[i]) == x) if p[i].max() == 1 else _ratio(p, q, i, x)

    return _rule(accept=agrees)(target, draft, proposals, chance)


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
