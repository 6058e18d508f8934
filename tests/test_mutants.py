"""Every wrong twin is caught: by an exact distance in the joint law of four tokens, or, where the law is right, by the state.

The distances are those of ``shared/data/sampler_bugs.md``, recomputed as Fractions at γ = 2 on the remembering ABC machine.
"""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specdec.chance import Scripted, law_of
from specdec.conformance import loop_mutants, mutants
from specdec.conformance.exact import distance
from specdec.decoding import Autoregressive, Speculative, Stop, copy_state, generate, law_of_text, state_key
from specdec.law import TopK, Transforms, exact
from specdec.models import abc_machine
from specdec.models.table import Table, text_law
from specdec.verification import strict

A, B, C = 0, 1, 2
F = Fraction


def marginal(law, length):
    out = defaultdict(int)
    for text, weight in law.items():
        out[text[:length]] += weight
    return dict(out)


def distances(decoder, machine_law):
    """(TV of the joint law of four tokens, of the first two, of the first)."""
    law = law_of_text(decoder, length=4)
    assert sum(law.values()) == 1
    return tuple(distance(marginal(law, n), marginal(machine_law, n)) for n in (4, 2, 1))


# ---- caught by the joint law ----------------------------------------------------------------------------------------

RULES = {  # distance of: four tokens, the first two, the first
    mutants.residual_is_p: (F(2827023, 12500000), F(4, 25), F(4, 25)),
    mutants.residual_from_previous_row: (F(524, 1875), F(1, 10), 0),
    mutants.bonus_from_previous_row: (F(21, 125), 0, 0),
    mutants.bonus_after_rejection: (F(726, 3125), F(9, 125), 0),
    mutants.keeps_discarded_branch: (F(619, 2500), F(1, 5), 0),
    mutants.one_uniform_for_two: (F(491, 7500), F(1, 25), 0),
    mutants.residual_from_next_row: (F(237597, 500000), F(469, 1000), F(2, 5)),
    mutants.bonus_from_residual: (F(448, 1875), 0, 0),
    mutants.lenience_2: (F(22507, 90000), F(1, 5), F(1, 10)),
    mutants.one_hot_residual: (F(800519, 4320000), F(43, 300), F(2, 15)),
}
IDS = [
    "residual_is_p",
    "residual_previous",
    "bonus_previous",
    "bonus_after_rejection",
    "keeps_branch",
    "one_uniform",
]
IDS += ["residual_next", "bonus_last_residual", "lenient", "one_hot_residual"]
DIGITS = {  # the published table, to its digits: four tokens, the first
    mutants.residual_is_p: (".2262", ".16"),
    mutants.residual_from_previous_row: (".2795", "0"),
    mutants.bonus_from_previous_row: (".168", "0"),
    mutants.bonus_after_rejection: (".2323", "0"),
    mutants.residual_from_next_row: (".4752", ".40"),
    mutants.bonus_from_residual: (".2389", "0"),
    mutants.lenience_2: (".2501", ".10"),
    mutants.one_hot_residual: (".1853", ".1333"),
}


@pytest.fixture(scope="module")
def target_law():
    return text_law(abc_machine.remembering()[0], 4)


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_wrong_rule_shows_in_the_joint_law_of_four_tokens(rule, target_law):
    found = distances(Speculative(*abc_machine.remembering(), 2, verify=rule), target_law)
    assert found == RULES[rule]
    for value, digits in zip(found[::2], DIGITS.get(rule, ()), strict=False):
        assert abs(value - F(digits)) <= F(1, 2 * 10 ** len(digits.removeprefix(".")))


def test_argmax_draft_with_its_soft_law(target_law):
    decoder = loop_mutants.ArgmaxDraft(*abc_machine.remembering(), 2)
    assert distances(decoder, target_law) == (F(1903, 2500), F(14, 25), F(3, 10))
    # F1 of the reports: p=(5,3,2)/10 and q=(2,2,6)/10 give (1/2, 1/6, 1/3)
    one = loop_mutants.ArgmaxDraft(Table(abc_machine.P2), Table(abc_machine.Q2), 1)
    assert law_of_text(one, length=1) == {(A,): F(1, 2), (B,): F(1, 6), (C,): F(1, 3)}


def test_ratio_with_the_raw_law_of_a_filtered_draft():
    top2 = Transforms((TopK(2),))
    target, draft = abc_machine.remembering()
    expected = law_of_text(Autoregressive(target, top2), length=4)
    wrong = loop_mutants.RawRatio(target, draft, 2, top2)
    assert distances(wrong, expected) == (F(1255441, 11337408), F(1, 12), F(1, 12))
    # By hand, first token: p=(2/3,1/3,0), draws from (0,3/8,5/8), ratios with (2,3,5)/10: B is always accepted, C never;
    # the residual of p and the raw q is (14, 1, 0)/15.
    first = marginal(law_of_text(wrong, length=1), 1)
    assert first == {(A,): F(5, 8) * F(14, 15), (B,): F(3, 8) + F(5, 8) * F(1, 15)}
    right = Speculative(target, draft, 2, top2)
    assert law_of_text(right, length=4) == expected


def test_raw_ratio_is_right_where_there_is_nothing_to_transform():
    target, draft = abc_machine.remembering()
    assert law_of_text(loop_mutants.RawRatio(target, draft, 2), length=2) == text_law(target, 2)


def test_ratio_with_the_raw_law_on_the_reported_fixture():
    """p=(5,3,2)/10, raw q=(3,1,6)/10, draft top-2, target unfiltered: (5,2,2)/9 instead of p.

    Top-2 of q is (1/3, 0, 2/3): A always accepted, C with (2/10)/(6/10) = 1/3, and the raw residual is (1/2, 1/2, 0).
    """
    p, raw, filtered = exact([5, 3, 2], 10), exact([3, 1, 6], 10), exact([1, 0, 2], 3)

    def one_token(chance):
        proposal = chance.draw(filtered, "propose")
        return strict.verify(np.array([p, p]), np.array([raw]), [proposal], chance).tokens[0]

    assert law_of(one_token) == {A: F(5, 9), B: F(2, 9), C: F(2, 9)}


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("rule", list(RULES)[:6], ids=IDS[:6])
def test_each_wrong_rule_is_caught_at_other_gammas_and_under_a_cap(rule, gamma, target_law):
    """One proposal leaves nothing behind it to keep, and no earlier row of a residual; every other mistake shows."""
    harmless = gamma == 1 and rule in (mutants.residual_from_previous_row, mutants.keeps_discarded_branch)
    law = law_of_text(Speculative(*abc_machine.remembering(), gamma, stop=Stop(length=4), verify=rule))
    assert (law == target_law) == harmless


@pytest.mark.parametrize("rule", list(RULES)[:6], ids=IDS[:6])
def test_without_proposals_every_twin_is_right(rule, target_law):
    assert distances(Speculative(*abc_machine.remembering(), 0, verify=rule), target_law) == (0, 0, 0)


# ---- what the lesson's single trace does not show -------------------------------------------------------------------


def first_token(p, q, verify, gamma=1):
    return marginal(law_of_text(Speculative(Table(p), Table(q), gamma, verify=verify), length=1), 1)


def as_law(row):
    return {(token,): weight for token, weight in enumerate(row) if weight}


@pytest.mark.parametrize("rule", list(RULES)[1:6], ids=IDS[1:6])
def test_five_of_six_twins_pass_the_lessons_first_token(rule):
    assert first_token(abc_machine.P, abc_machine.Q, rule, gamma=2) == as_law(abc_machine.P)


def test_only_residual_is_p_fails_it():
    law = first_token(abc_machine.P, abc_machine.Q, mutants.residual_is_p, gamma=2)
    assert distance(law, as_law(abc_machine.P)) == F(4, 25)


CORRECTIONS = (
    mutants.correction_is_argmax_of_p,
    mutants.correction_is_argmax_of_residual,
    mutants.correction_is_uniform,
    mutants.correction_is_p_where_larger,
)


@pytest.mark.parametrize("rule", CORRECTIONS, ids=["argmax of p", "argmax of the residual", "uniform", "p where p > q"])
def test_four_wrong_corrections_pass_a_degenerate_residual_and_fail_the_second_laws(rule):
    assert first_token(abc_machine.P, abc_machine.Q, rule) == as_law(abc_machine.P)
    assert first_token(abc_machine.P2, abc_machine.Q2, rule) != as_law(abc_machine.P2)
    assert first_token(abc_machine.P2, abc_machine.Q2, strict.verify) == as_law(abc_machine.P2)
    # The joint law of the remembering machine needs no second pair of laws.
    target, draft = abc_machine.remembering()
    assert law_of_text(Speculative(target, draft, 1, verify=rule), length=2) != text_law(target, 2)


def test_a_reused_uniform_on_the_second_laws():
    law = first_token(abc_machine.P2, abc_machine.Q2, mutants.one_uniform_for_two)
    assert law == {(A,): F(9, 20), (B,): F(7, 20), (C,): F(4, 20)}


# ---- right law, wrong elsewhere: a draft cache one entry short --------------------------------------------------------

# Both remember two tokens, and the draft is the target, so every proposal is accepted, unless its rows are stale.
# Axes: the token before last, the last token, the law; index 2 is the start token.
WITH_TWO = exact([[[1, 3], [3, 1], [2, 2]], [[3, 1], [1, 3], [2, 2]], [[2, 2], [2, 2], [2, 2]]], 4)


def counts(decoder, number):
    """{tokens emitted in each of the first ``number`` rounds: probability}."""

    def run(chance):
        state, out = decoder.start(), []
        for _ in range(number):
            record, state = decoder.step(state, chance)
            out.append(record.emitted)
        return tuple(out)

    return law_of(run)


def test_short_cache_leaves_the_law_alone():
    target = Table(WITH_TWO)
    decoder = Speculative(target, loop_mutants.ShortCache(Table(WITH_TWO)), 2, stop=Stop(length=6))
    assert law_of_text(decoder) == text_law(target, 6)
    target, draft = abc_machine.remembering()
    assert law_of_text(Speculative(target, loop_mutants.ShortCache(draft), 2, stop=Stop(length=4))) == text_law(target, 4)


def test_short_cache_lowers_the_acceptance():
    target = Table(WITH_TWO)
    right = Speculative(target, Table(WITH_TWO), 2)
    short = Speculative(target, loop_mutants.ShortCache(Table(WITH_TWO)), 2)
    assert counts(right, 2) == {(3, 3): 1}
    second = defaultdict(int)
    for (first, count), weight in counts(short, 2).items():
        assert first == 3
        second[count] += weight
    # After three tokens x y z the short cache holds x, then z: its row is that after x z. If x = y nothing is wrong, else
    # (half the time) the two rows are (1, 3)/4 and (3, 1)/4, in either order, and alpha is 1/2. The next row is right again.
    assert dict(second) == {1: F(1, 4), 3: F(3, 4)}
    assert sum(count * weight for count, weight in second.items()) == F(5, 2) < 3


def test_short_cache_shows_when_cached_rows_are_recomputed():
    for draft, stale in [(Table(WITH_TWO), False), (loop_mutants.ShortCache(Table(WITH_TWO)), True)]:
        decoder = Speculative(Table(WITH_TWO), draft, 2)
        state = decoder.start()
        # 0 1 accepted, bonus 1: the text is 0 1 1, and the last proposal is pending beside the bonus.
        decoder.step(state, Scripted([F(1, 4), F(9, 10), 0, 0, F(9, 10)]))
        assert state.generated == [0, 1, 1] and state.pending("draft") == [1, 1]
        cached = draft.append(draft.copy(state.caches["draft"]), state.pending("draft"))[-1]
        recomputed = Table(WITH_TWO).law_after(state.generated)
        assert recomputed.tolist() == [F(1, 4), F(3, 4)]
        assert cached.tolist() == ([F(3, 4), F(1, 4)] if stale else [F(1, 4), F(3, 4)])
        draft.append(state.caches["draft"], state.pending("draft"))
        assert state.caches["draft"] == ([2, 0, 1] if stale else [2, 0, 1, 1])


def test_a_draft_that_remembers_one_token_hides_it():
    """On the ABC machine the last token decides the row: neither law nor counts differ, though the cache is short."""
    target, draft = abc_machine.remembering()
    short = Speculative(target, loop_mutants.ShortCache(draft), 1)
    assert counts(short, 2) == counts(Speculative(target, draft, 1), 2)


def test_composition_merges_by_what_a_cache_holds():
    """Two states with one text and different caches have different keys; merging by text alone would take one for the other."""
    decoder = Speculative(Table(WITH_TWO), loop_mutants.ShortCache(Table(WITH_TWO)), 2)
    state = decoder.start()
    decoder.step(state, Scripted([F(1, 4), F(9, 10), 0, 0, F(9, 10)]))
    decoder.step(copy := copy_state(decoder, state), Scripted([0, 0, 0, 0, 0]))
    assert len(copy.caches["draft"]) < len(copy.caches["target"])
    fresh = decoder.start()
    for token in copy.generated:  # the same text, committed a token at a time: its draft cache is whole
        fresh.caches["target"], fresh.caches["draft"] = list(fresh.tokens), list(fresh.tokens)
        fresh.tokens.append(token)
    assert (fresh.tokens, fresh.stop) == (copy.tokens, copy.stop)
    assert state_key(decoder, fresh) != state_key(decoder, copy)


# ---- right law, wrong elsewhere: counts past a stop -------------------------------------------------------------------


def test_counts_past_a_stop():
    target, draft = abc_machine.remembering()
    stop = Stop(length=4, tokens=frozenset({B}))
    right = Speculative(target, draft, 2, stop=stop)
    wrong = loop_mutants.CountsPastStop(target, draft, 2, stop=stop)
    assert law_of_text(wrong) == law_of_text(right)
    # B and C proposed and accepted, bonus B: the text ends at the first token.
    script = [F(3, 10), F(9, 10), 0, 0, F(7, 10)]
    for decoder, committed in [(right, 1), (wrong, 3)]:
        record, state = decoder.step(decoder.start(), Scripted(script))
        assert record.round.tokens == (B, C, C) and state.stop == "stop token"
        assert state.generated == [B]
        assert record.committed == committed
        assert (record.committed == len(state.generated)) == (decoder is right)


def test_counts_past_a_stop_have_another_law():
    target, draft = abc_machine.remembering()
    right = Speculative(target, draft, 2, stop=Stop(length=3, tokens=frozenset({B})))
    wrong = loop_mutants.CountsPastStop(target, draft, 2, stop=right.stop)

    def totals(decoder):
        def run(chance):
            state, committed, emitted = decoder.start(), 0, 0
            while state.stop is None:
                record, state = decoder.step(state, chance)
                committed, emitted = committed + record.committed, emitted + record.emitted
            return committed, emitted, len(state.generated)

        return law_of(run)

    assert all(committed == kept for committed, _, kept in totals(right))
    past = sum(weight for (_, emitted, kept), weight in totals(right).items() if emitted != kept)
    assert sum(weight for (committed, _, kept), weight in totals(wrong).items() if committed != kept) == past == F(31, 50)


def test_a_wrong_count_shows_in_the_ledger_of_generate():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(tokens=frozenset({B})))
    script = [F(3, 10), F(9, 10), 0, 0, F(7, 10)]
    assert generate(decoder, (), Scripted(script)).ledger.total("committed") == 1
    wrong = loop_mutants.CountsPastStop(**{name: getattr(decoder, name) for name in ("target", "draft", "gamma", "stop")})
    assert generate(wrong, (), Scripted(script)).ledger.total("committed") == 3
    assert replace(generate(wrong, (), Scripted(script)).ledger.records[0], committed=1).committed_tokens == (B,)
