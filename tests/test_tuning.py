"""Costs, the best γ by them, and γ that adapts: exact where it is a law, on a clock of ours where it is a time."""

import time
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from specdec import tuning
from specdec.accounting import speedup
from specdec.chance import Random
from specdec.conformance import loop_mutants
from specdec.decoding import Autoregressive, Speculative, State, Stop, generate, law_of_text
from specdec.law import RepetitionPenalty, TopK, Transforms, exact
from specdec.models import abc_machine
from specdec.models.automaton import Automaton
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table, text_law
from specdec.tuning import Adaptive, Costs, measure, pilot_alpha
from specdec.verification import block, strict

A, B, C = 0, 1, 2
F = Fraction
MACHINES = {"remembering": abc_machine.remembering(), "forgetful": abc_machine.forgetful()}
RULES = {"strict": strict.verify, "block": block.verify}
COSTS = Costs({1: F(10), 2: F(12), 3: F(14), 4: F(20)}, draft_step=F(1))


def distance(one, other):
    return sum(abs(one.get(text, 0) - other.get(text, 0)) for text in {*one, *other}) / 2


def other_machine():
    return Table(exact([[1, 6, 3], [7, 1, 2], [2, 2, 6], [3, 6, 1]], 10))


# ---- costs ---------------------------------------------------------------------------------------------------------


def test_costs_in_target_steps():
    assert COSTS.c == F(1, 10)
    assert [COSTS.v(rows) for rows in (1, 2, 3, 4)] == [1, F(6, 5), F(7, 5), 2]


@pytest.mark.parametrize(
    ("alpha", "gamma", "predicted"),
    [
        (F(1, 2), 1, F(15, 13)),  # 3/2 tokens in 13 s; 7/4 in 16 and 15/8 in 23 are fewer a second
        (F(9, 10), 2, F(271, 160)),  # 2.71 in 16 s; 1.9 in 13 and 3.439 in 23 are fewer
        (F(1, 10), 0, 1),  # 1.1 in 13 s: slower than one in 10
        (1, 2, F(15, 8)),  # 3 in 16 s; 4 in 23 are fewer
    ],
)
def test_the_best_gamma_by_hand(alpha, gamma, predicted):
    assert COSTS.best_gamma(alpha) == (gamma, pytest.approx(float(predicted), rel=1e-12))
    assert COSTS.predicted(alpha, gamma) == pytest.approx(float(predicted), rel=1e-12)


def test_predictions_are_the_formulas_and_none_beats_the_best():
    for alpha in (F(k, 20) for k in range(21)):
        gamma, best = COSTS.best_gamma(alpha)
        each = [COSTS.predicted(alpha, g) for g in range(4)]
        assert each == [float(speedup(alpha, g, COSTS.c, COSTS.v(g + 1))) for g in range(4)]
        assert each[gamma] == pytest.approx(best, rel=1e-12) and max(each) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("rows", [(1, 2, 4), (2, 3), (1, 3)])
def test_the_best_gamma_needs_every_number_of_rows(rows):
    costs = Costs(dict.fromkeys(rows, 1.0), 0.1)
    with pytest.raises(ValueError, match=rf"passes over \[{', '.join(map(str, rows))}\] rows are measured"):
        costs.best_gamma(0.5)
    with pytest.raises(KeyError):
        costs.predicted(0.5, 4)


# ---- measuring -----------------------------------------------------------------------------------------------------


class Slow:
    """A model whose passes take (per pass, per token) seconds on a clock of ours, and once 1000 more."""

    def __init__(self, model, clock, seconds, hiccup):
        self._model, self._clock, self._seconds = model, clock, seconds
        self._hiccup, self.calls, self.lengths = hiccup, 0, set()

    def __getattr__(self, name):
        return getattr(self._model, name)

    def append(self, state, tokens):
        self.lengths.add(len(state))
        per_pass, per_token = self._seconds
        self._clock[0] += per_pass + per_token * len(tokens) + 1000 * (self.calls == self._hiccup)
        self.calls += 1
        return self._model.append(state, tokens)


@pytest.mark.parametrize("hiccup", [0, 1, 5, 7])
@pytest.mark.parametrize("prompt", [[], [B, C, A, A]])
def test_measured_costs_are_the_models_and_one_slow_pass_does_not_count(monkeypatch, prompt, hiccup):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    target, draft = abc_machine.remembering()
    slow, quick = Slow(target, clock, (2, 1), hiccup), Slow(draft, clock, (0.5, 0), hiccup)
    costs = measure(Speculative(slow, quick, 2), prompt, [2, 4], repeats=5)
    assert costs == Costs({1: 3.0, 2: 4.0, 4: 6.0}, draft_step=0.5)
    # Every pass began where the first one did, at the pending token: nothing that it fed was left to the next.
    assert slow.lengths <= {0, len(prompt)} and max(quick.lengths) <= len(prompt) + 2
    turns = tuning.WARM * 6
    assert (slow.calls, quick.calls) == (3 * turns + bool(prompt), 3 * turns + bool(prompt))


def test_measured_seconds_are_positive_and_the_decoder_goes_on_as_before():
    decoder = Speculative(*abc_machine.remembering(), 3, Transforms((TopK(2), RepetitionPenalty(2))), Stop(length=20))
    before = generate(decoder, [A, B], Random(5))
    costs = measure(decoder, [A, B], range(1, 5), repeats=3)
    assert sorted(costs.passes) == [1, 2, 3, 4] and min(costs.passes.values()) > 0 and costs.draft_step > 0
    assert costs.best_gamma(0.9)[0] in range(4)
    assert generate(decoder, [A, B], Random(5)) == before


def test_a_model_of_short_reach_is_measured_too():
    laws = exact([[1, 2, 1], [2, 1, 1]], 4)
    model = Automaton([[0, 1, 0, 1], [1, 0, 1, 0]], laws, reach=4)
    costs = measure(Speculative(model, model, 3), [A], [1, 2, 3, 4], repeats=2)
    assert min(costs.passes.values()) > 0


# ---- the pilot -----------------------------------------------------------------------------------------------------


def test_the_pilot_measures_the_acceptance_of_the_strict_rule():
    """α = 3/5 on the forgetful machine. 4000 tokens verify some 3700 proposals: a standard error of 0.008.

    The tolerance is five of them: a false alarm in less than 1 of 10^6 seeds, and an α wrong by 0.1 is always caught.
    """
    decoder = Speculative(*abc_machine.forgetful(), 1, verify=block.verify)  # the pilot takes its own rule and γ
    assert abs(pilot_alpha(decoder, [], Random(0), length=4000) - 0.6) < 0.04


@pytest.mark.parametrize(("draft", "alpha"), [(exact([1, 0, 0]), 1), (exact([0, 1, 0]), 0)])
def test_the_pilot_of_a_certain_and_of_a_hopeless_draft(draft, alpha):
    assert pilot_alpha(Speculative(Table(exact([1, 0, 0])), Table(draft), 2), [A], Random(0), length=30) == alpha


def test_a_pilot_without_proposals_is_an_error():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, loop_mutants.SilentInDoubt(draft, sure=F(9, 10)), 2)
    with pytest.raises(ValueError, match="the draft proposed nothing in the pilot"):
        pilot_alpha(decoder, [A], Random(0))


# ---- the schedule --------------------------------------------------------------------------------------------------


def scheduled(rule, *history):
    return rule(State([3], 1, {}, history=history))


@pytest.mark.parametrize(
    ("history", "gamma"),
    [
        ((), 4),
        (((4, 4),), 6),
        (((4, 3),), 3),
        (((4, 0),), 3),
        (((1, 0),), 1),
        (((1, 1),), 3),
        (((11, 11),), 12),
        (((12, 12),), 12),
        (((12, 11),), 11),
        (((4, 0), (7, 7)), 9),  # the last round counts, no other
        (((0, 0),), 4),  # nothing was proposed, so nothing was learnt
        (((7, 7), (0, 0)), 9),
    ],
)
def test_the_schedule_by_hand(history, gamma):
    assert scheduled(Adaptive(), *history) == gamma


def test_the_schedule_of_whole_texts():
    same = Table(abc_machine.P)
    agreeing = Speculative(same, same, Adaptive(first=1, least=1, most=6, up=2), stop=Stop(length=40))
    assert [r.gamma for r in generate(agreeing, [], Random(0)).ledger.records] == [1, 3, 5, 6, 6, 6, 6]
    apart = Speculative(Table(exact([1, 1, 0], 2)), Table(exact([0, 0, 1])), Adaptive(), stop=Stop(length=8))
    assert [r.gamma for r in generate(apart, [], Random(0)).ledger.records] == [4, 3, 2, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("wrong", [{"first": 0}, {"first": 13}, {"least": 5}, {"least": 0}, {"up": 0}, {"most": 3}])
def test_schedules_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="need 1 <= least <= first <= most, and up of at least 1"):
        Adaptive(**wrong)


# ---- the law -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
@pytest.mark.parametrize("machine", MACHINES)
def test_an_adaptive_gamma_leaves_the_law_as_it_is(machine, verify):
    target, draft = MACHINES[machine]
    decoder = Speculative(target, draft, Adaptive(first=1, least=1, most=3, up=1), verify=verify)
    assert law_of_text(decoder, length=4) == text_law(target, 4)


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
def test_an_adaptive_gamma_that_rises_to_three_and_falls_to_one(verify):
    target, draft = Table(exact([[1, 4], [4, 1], [2, 3]], 5)), Table(exact([[3, 2], [2, 3], [1, 4]], 5))
    decoder = Speculative(target, draft, Adaptive(first=2, least=1, most=3, up=1), verify=verify)
    assert law_of_text(decoder, length=4) == text_law(target, 4)
    seen = set()
    for seed in range(40):
        texts = generate(replace(decoder, stop=Stop(length=20)), [], Random(seed))
        seen |= {(one.gamma, other.gamma) for one, other in pairwise(texts.ledger.records)}
    assert seen >= {(2, 3), (2, 1), (3, 2), (1, 2), (1, 1), (3, 3)}


def test_a_cap_and_prefix_dependent_transforms_with_an_adaptive_gamma():
    transforms = Transforms((RepetitionPenalty(2),))
    target, draft = MACHINES["remembering"]
    decoder = Speculative(target, draft, Adaptive(first=2, least=1, most=3, up=1), transforms, Stop(length=4))
    assert law_of_text(decoder) == law_of_text(Autoregressive(target, transforms, Stop(length=4)))


def test_prompt_lookup_with_an_adaptive_gamma():
    target = MACHINES["remembering"][0]
    decoder = Speculative(target, PromptLookup(3, exact=True), Adaptive(first=2, least=1, most=3, up=1), stop=Stop(length=4))
    assert law_of_text(decoder, [A, B, A]) == text_law(target, 4, prefix=(A, B, A))


# ---- rounds that end early -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_ending_the_draft_behind_a_doubtful_proposal_is_right(gamma, verify):
    target, draft = MACHINES["remembering"]
    decoder = loop_mutants.EndsBehindDoubt(target, draft, gamma, stop=Stop(length=4), verify=verify)
    assert law_of_text(decoder) == text_law(target, 4)
    assert gamma < 3 or proposed(decoder) == {1, 2, 3}


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_ending_the_draft_before_a_doubtful_law_is_right(gamma, verify):
    target, draft = MACHINES["remembering"]
    decoder = Speculative(target, loop_mutants.SilentInDoubt(draft, sure=F(6, 10)), gamma, stop=Stop(length=4), verify=verify)
    assert law_of_text(decoder) == text_law(target, 4)
    assert gamma < 3 or proposed(decoder) == {0, 1, 2, 3}


TWINS = {  # TV of three tokens and of the first, by γ
    ("strict", 1): (F(2, 25), F(2, 25)),
    ("strict", 2): (F(113, 1250), F(2, 25)),
    ("block", 2): (F(53, 625), F(3, 50)),
}


@pytest.mark.parametrize(("rule", "gamma"), TWINS)
def test_twin_dropping_the_doubtful_proposal(rule, gamma):
    target, draft = MACHINES["remembering"]
    decoder = loop_mutants.DropsDoubt(target, draft, gamma, stop=Stop(length=3), verify=RULES[rule])
    law = law_of_text(decoder)
    first = {(token,): sum(weight for text, weight in law.items() if text[0] == token) for token in (A, B, C)}
    assert (distance(law, text_law(target, 3)), distance(first, text_law(target, 1))) == TWINS[rule, gamma]


def test_dropping_at_gamma_one_by_hand():
    """q = (2, 3, 5)/10: A is dropped, and p is drawn instead; B (ratio 1) and C (1/5) are verified; the residual is A.

    P(A) = 2/10 · 6/10 + 5/10 · 4/5 = 13/25, P(B) = 2/10 · 3/10 + 3/10 = 9/25, P(C) = 2/10 · 1/10 + 5/10 · 1/5 = 3/25.
    """
    target, draft = MACHINES["forgetful"]
    law = law_of_text(loop_mutants.DropsDoubt(target, draft, 1), length=1)
    assert law == {(A,): F(13, 25), (B,): F(9, 25), (C,): F(3, 25)}


def test_dropping_is_wrong_even_where_the_draft_is_the_target():
    """p = q = (6, 3, 1)/10: C is dropped and p drawn afresh, so P(C) = 1/10 · 1/10."""
    target = MACHINES["forgetful"][0]
    law = law_of_text(loop_mutants.DropsDoubt(target, target, 1), length=1)
    assert law == {(A,): F(66, 100), (B,): F(33, 100), (C,): F(1, 100)}


def proposed(decoder):
    """The numbers of proposals of the rounds after each single symbol, over many seeds."""
    numbers = set()
    for seed in range(60):
        state = decoder.start([seed % 3])
        numbers.add(decoder.step(state, Random(seed))[0].gamma)
    return numbers


def test_tuned_takes_the_gamma_of_the_measured_costs_and_the_pilot(monkeypatch):
    target, draft = (Table(model.rows.astype(float)) for model in abc_machine.forgetful())
    decoder = Speculative(target, draft, 1, verify=block.verify)
    asked = []
    monkeypatch.setattr(tuning, "measure", lambda _decoder, _prompt, rows: asked.append(list(rows)) or COSTS)
    monkeypatch.setattr(tuning, "pilot_alpha", lambda *_: 0.9)
    assert tuning.tuned(decoder, (A,), Random(0), largest=3) == replace(decoder, gamma=2)  # as by hand above
    assert asked == [[1, 2, 3, 4]]
