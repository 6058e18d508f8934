"""chance.py: every reading of one decision, at the boundaries too, and law_of against laws worked by hand."""

import math
from collections import defaultdict
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.chance import (
    PURPOSES,
    Decision,
    Random,
    Recorded,
    Scripted,
    inverse_transform,
    law_of,
    law_of_process,
)
from specdec.law import exact
from strategies import exact_laws, float_laws, frozen, smooth_uniforms

BELOW_ONE = math.nextafter(1.0, 0.0)
TINY = F(1, 10**40)
DRAWS = 40_000


def objects(*values):
    return np.array(values, dtype=object)


# ---- accept and draw at their boundaries -------------------------------------------------------------------


@pytest.mark.parametrize("one", [1, 1.0, F(1)])
def test_zero_never_accepts_and_one_always_does(one):
    for u in (0, 0.0, F(0), BELOW_ONE, 1 - TINY):
        assert Scripted([u]).accept(0 * one, "accept") is False
        assert Scripted([u]).accept(one, "accept") is True
    assert Scripted([0]).accept(TINY, "accept") and Scripted([0.0]).accept(5e-324, "accept")


@pytest.mark.parametrize("threshold", [F(1, 5), 0.2])
def test_accept_exactly_below_its_probability(threshold):
    step = TINY if isinstance(threshold, F) else 2.0**-55
    outcomes = [
        Scripted([u]).accept(threshold, "accept") for u in (threshold - step, threshold, threshold + step)
    ]
    assert outcomes == [True, False, False]


@pytest.mark.parametrize("probability", [-1e-9, 1 + 1e-9, math.nan, math.inf, F(-1, 5), F(6, 5)])
def test_accept_refuses_what_is_no_probability(probability):
    for chance in (Random(0), Scripted([0]), Recorded(Scripted([0]))):
        with pytest.raises(ValueError, match="acceptance probability"):
            chance.accept(probability, "accept")
    with pytest.raises(ValueError, match="acceptance probability"):
        law_of(lambda chance: chance.accept(probability, "accept"))


def test_draw_at_every_boundary():
    weights = exact([0, 2, 0, 1, 1, 0])  # cells [0, 1/2) of 1, [1/2, 3/4) of 3, [3/4, 1) of 4
    for u, token in [
        (0, 1),
        (F(1, 2) - TINY, 1),
        (F(1, 2), 3),
        (F(3, 4) - TINY, 3),
        (F(3, 4), 4),
        (1 - TINY, 4),
        (BELOW_ONE, 4),
    ]:
        assert inverse_transform(weights, u) == token, u
    floats = weights.astype(float)
    below = {cut: math.nextafter(cut, 0.0) for cut in (0.5, 0.75, 1.0)}
    for u, token in [(0.0, 1), (below[0.5], 1), (0.5, 3), (below[0.75], 3), (0.75, 4), (below[1.0], 4)]:
        assert (
            inverse_transform(floats, u)
            == inverse_transform(floats, F(u))
            == inverse_transform(weights, u)
            == token
        ), u


@given(exact_laws() | float_laws(), st.floats(0, 1, exclude_max=True) | st.sampled_from([0.0, BELOW_ONE]))
def test_draw_is_the_inverse_of_the_cumulative_law(weights, u):
    """In rationals of the floats themselves, so that the only slack is the rounding of the running sums."""
    token = inverse_transform(weights, u)
    assert weights[token] > 0
    cumulative, slack = [F(0)], F(0) if weights.dtype == object else F(1, 10**14)
    for weight in weights:
        cumulative.append(cumulative[-1] + F(weight))
    point = F(u) * cumulative[-1]
    assert cumulative[token] - slack <= point < cumulative[token + 1] + slack


def test_rounding_is_clamped_to_the_last_positive_weight():
    """u * total rounds up to the total among subnormals: the search ends past the last cell."""
    weights = np.array([0.0, 5e-324, 0.0])
    assert 0.9 * weights.sum() == weights.sum()
    assert inverse_transform(weights, 0.9) == 1
    assert inverse_transform(np.array([0.1] * 10 + [0.0]), BELOW_ONE) == 9
    assert inverse_transform(np.array([0.1] * 10 + [0.0]), 1 - TINY) == 9


@pytest.mark.parametrize(
    "weights",
    [
        np.array([0.0, 0.0]),
        np.array([0.5, -0.5, 1.0]),
        np.array([np.nan, 1.0]),
        np.array([np.inf, 1.0]),
        np.array([]),
        np.array([[0.5, 0.5]]),
        exact([0, 0]),
        exact([2, -1]),
    ],
)
def test_draw_refuses_what_are_no_weights(weights):
    for chance in (Random(0), Scripted([0.5]), Recorded(Scripted([F(1, 2)]))):
        with pytest.raises(ValueError, match="weights"):
            chance.draw(weights, "bonus")
    with pytest.raises(ValueError, match="weights"):
        law_of(lambda chance: chance.draw(weights, "bonus"))


def test_weights_need_no_normalising_and_stay_as_they_are():
    for weights in (frozen(np.array([1.0, 3.0])), frozen(objects(1, 3))):
        assert [Scripted([u]).draw(weights, "bonus") for u in (0.2, 0.25, 0.3)] == [0, 1, 1]
        assert law_of(lambda chance, weights=weights: chance.draw(weights, "bonus")) == {
            0: F(1, 4),
            1: F(3, 4),
        }


# ---- readings ----------------------------------------------------------------------------------------------


def test_unknown_purposes_raise():
    for chance in (Random(0), Scripted([0, 0, 0]), Recorded(Random(0))):
        for ask in (
            lambda c: c.uniform("luck"),
            lambda c: c.accept(1, "luck"),
            lambda c: c.draw(exact([1]), "luck"),
            lambda c: c.accept(1, "luck", u=0),
            lambda c: c.draw(exact([1]), "luck", u=0),
        ):
            with pytest.raises(ValueError, match="purpose 'luck'"):
                ask(chance)
            with pytest.raises(ValueError, match="purpose 'luck'"):
                law_of(ask)
    for purpose in PURPOSES:
        assert 0 <= Random(0).uniform(purpose) < 1


def test_scripted_replays_and_runs_out():
    chance = Scripted([0, F(1, 5), 0.5])
    assert chance.left == 3
    assert chance.uniform("propose") == 0 and chance.uniform("accept") == F(1, 5)
    assert chance.accept(0.75, "accept") and chance.left == 0 and chance.used == 3
    with pytest.raises(ValueError, match="only 3 uniforms; one more is asked for: bonus"):
        chance.draw(exact([1]), "bonus")
    assert chance.draw(exact([1, 1]), "bonus", u=F(1, 2)) == 1  # a given uniform costs the script nothing


@pytest.mark.parametrize("u", [-1e-9, 1, 1.0, F(1), math.nan, math.inf])
def test_scripted_refuses_what_is_no_uniform(u):
    with pytest.raises(ValueError, match=r"is not in \[0, 1\)"):
        Scripted([0.5, u])


def test_a_certain_decision_costs_a_uniform_too():
    """So that a script stays aligned whatever the laws."""
    chance = Scripted([0.1, 0.2, 0.3])
    chance.draw(exact([0, 1]), "propose")
    chance.accept(1, "accept")
    chance.accept(0, "accept")
    assert chance.left == 0


def busy(chance):
    """All ways of asking, one uniform used three times among them."""
    first = chance.draw(exact([2, 3, 5], 10), "propose")
    kept = chance.accept(F(1, 1 + first), "accept")
    u = chance.uniform("correct")
    return (
        first,
        kept,
        chance.accept(F(1, 3), "accept", u=u),
        chance.draw(exact([1, 2, 1], 4), "correct", u=u),
        bool(u < F(1, 2)),
    )


def test_recorded_tape():
    recorded = Recorded(Scripted([F(1, 2), F(1, 4), F(3, 4)]))
    assert busy(recorded) == (2, True, False, 2, False)
    assert recorded.tape == [
        Decision(0, "draw", "propose", (F(1, 5), F(3, 10), F(1, 2)), F(1, 2), 2),
        Decision(1, "accept", "accept", F(1, 3), F(1, 4), True),
        Decision(2, "uniform", "correct", None, F(3, 4), F(3, 4)),
        Decision(3, "accept", "accept", F(1, 3), F(3, 4), False),
        Decision(4, "draw", "correct", (F(1, 4), F(1, 2), F(1, 4)), F(3, 4), 2),
    ]


@given(st.integers(0, 2**32), smooth_uniforms(3))
def test_recording_changes_nothing(seed, uniforms):
    bare, recorded = Random(seed), Random(seed)
    for _ in range(5):
        assert busy(bare) == busy(Recorded(recorded))
    assert bare.uniform("sample") == recorded.uniform("sample")
    assert (
        busy(Scripted(uniforms))
        == busy(Recorded(Scripted(uniforms)))
        == busy(Recorded(Recorded(Scripted(uniforms))))
    )
    assert busy(Scripted(map(float, uniforms))) == busy(Scripted(uniforms))


def test_recording_leaves_the_law():
    assert law_of(lambda chance: busy(Recorded(chance))) == law_of(busy)


def test_same_seed_same_stream():
    one, same, other = (
        [chance.uniform("sample") for _ in range(3)] for chance in (Random(7), Random(7), Random(8))
    )
    assert one == same and one != other and len(set(one)) == 3


def test_random_draws_follow_the_weights():
    """Hoeffding's bound on 5 + 3 shares of 40,000 seeded draws: false alarm rate < 1e-9 at a slack of .0172.

    A probability that is off by .035 is missed with probability < 1e-9. Zero weights must not occur at all.
    """
    chance, weights = Random(2024), np.array([0.0, 0.5, 0.25, 0.0, 2.25])
    counts = np.bincount([chance.draw(weights, "sample") for _ in range(DRAWS)], minlength=5)
    slack = math.sqrt(math.log(2 * 8 / 1e-9) / (2 * DRAWS))
    assert slack < 0.0172
    assert counts[0] == counts[3] == 0
    assert (abs(counts / DRAWS - weights / 3) < slack).all()
    for probability in (0.05, 0.5, 0.95):
        share = sum(chance.accept(probability, "accept") for _ in range(DRAWS)) / DRAWS
        assert abs(share - probability) < slack


# ---- law_of ------------------------------------------------------------------------------------------------


def test_a_reused_uniform_gets_its_exact_law():
    """F1 with the acceptance uniform reused for the correction (vllm-ascend pull 16370): (9,7,4)/20, not p.

    By hand: q proposes C with 6/10; u < 1/3 accepts. Else u lies in [1/3, 1), so u < 3/4 has probability 5/8.
    """
    p, q = exact([5, 3, 2], 10), exact([2, 2, 6], 10)

    def first_token(reuse):
        def program(chance):
            token, u = chance.draw(q, "propose"), chance.uniform("accept")
            if chance.accept(min(F(1), p[token] / q[token]), "accept", u=u):
                return token
            return chance.draw(exact([3, 1, 0]), "correct", u=u if reuse else None)

        return law_of(program)

    assert first_token(reuse=True) == {0: F(9, 20), 1: F(7, 20), 2: F(4, 20)}
    assert first_token(reuse=False) == {0: F(1, 2), 1: F(3, 10), 2: F(1, 5)}


def test_nested_comparisons_of_one_uniform():
    def program(chance):
        u, v = chance.uniform("accept"), chance.uniform("accept")
        return u < F(1, 2), u < F(1, 3), bool(F(1, 4) > u), u >= F(3, 4), v <= F(1, 5), u > F(1, 2)

    cells = {  # of u; v is independent and below 1/5 one time in five
        (True, True, True, False, False): F(1, 4),
        (True, True, False, False, False): F(1, 3) - F(1, 4),
        (True, False, False, False, False): F(1, 2) - F(1, 3),
        (False, False, False, False, True): F(1, 4),
        (False, False, False, True, True): F(1, 4),
    }
    expected = {
        (a, b, c, d, v, e): weight * (F(1, 5) if v else F(4, 5))
        for (a, b, c, d, e), weight in cells.items()
        for v in (True, False)
    }
    assert law_of(program) == expected


def test_contradictions_have_no_branch():
    def program(chance):
        u = chance.uniform("accept")
        return (u < F(1, 3)) and (u >= F(1, 3)), u < 1, u < 0, u >= 0

    assert law_of(program) == {(False, True, False, True): 1}


@pytest.mark.parametrize("misuse", [lambda u: u + 1, lambda u: 2 * u, float, int, hash, lambda u: {u: 1}])
def test_an_interval_is_no_number(misuse):
    with pytest.raises(TypeError):
        law_of(lambda chance: misuse(chance.uniform("sample")))
    with pytest.raises(TypeError):
        law_of(lambda chance: chance.uniform("sample"))  # as an outcome it has no value to count it by


@given(exact_laws(), st.integers(1, 4))
def test_law_of_a_draw_is_its_weights(law, scale):
    weights = frozen(law * scale)
    expected = {x: law[x] for x in range(len(law)) if law[x]}
    assert law_of(lambda chance: chance.draw(weights, "sample")) == expected
    assert law_of(lambda chance: chance.draw(weights, "sample", u=chance.uniform("sample"))) == expected


@given(float_laws())
def test_law_of_reads_floats(law):
    expected = {x: pytest.approx(law[x], abs=1e-12) for x in range(len(law)) if law[x]}
    assert law_of(lambda chance: chance.draw(law, "sample")) == expected
    by_interval = law_of(lambda chance: chance.draw(law, "sample", u=chance.uniform("sample")))
    assert all(by_interval.get(x, 0) == share for x, share in expected.items())
    assert sum(by_interval.values()) == pytest.approx(1)


def test_law_of_counts_integers_as_fractions():
    def program(chance):
        return (
            chance.draw(objects(1, 2, 0), "sample"),
            chance.accept(F(1, 2), "accept"),
            chance.accept(1, "accept"),
        )

    law = law_of(program)
    assert law == {(x, kept, True): F(x + 1, 6) for x in (0, 1) for kept in (True, False)}
    assert all(type(weight) is F for weight in law.values())
    assert law_of(lambda chance: "certain") == {"certain": 1}


@given(st.lists(exact_laws(3), min_size=4, max_size=4), st.integers(0, 3))
def test_law_of_adds_up_to_one(laws, start):
    """A chain of draws and acceptances whose shape depends on what came before."""

    def program(chance):
        token, text = start, []
        while len(text) < 3 and chance.accept(F(3, 4), "accept"):
            token = chance.draw(laws[token], "sample")
            text.append(token)
        return tuple(text)

    expected = defaultdict(F)

    def visit(text, token, weight):
        go_on = F(3, 4) if len(text) < 3 else F(0)
        expected[text] += weight * (1 - go_on)
        for x in range(3) if go_on else ():
            if laws[token][x]:
                visit((*text, x), x, weight * go_on * laws[token][x])

    visit((), start, F(1))
    law = law_of(program)
    assert law == expected and sum(law.values()) == 1


def test_law_of_costs_one_run_a_branch():
    runs = []

    def program(chance):
        runs.append(1)
        return (
            chance.draw(exact([1, 0, 2]), "sample"),
            chance.accept(0, "accept"),
            chance.draw(exact([0, 1]), "sample"),
        )

    law_of(program)
    assert len(runs) == 2


@given(st.lists(exact_laws(3), min_size=3, max_size=3), st.integers(0, 4), st.integers(0, 2))
def test_law_of_process_is_law_of_the_loop(rows, length, absorbing):
    """A Markov chain that stops at a token or a length; its states merge by length and last token."""

    def step(state, chance):
        return (*state, chance.draw(rows[state[-1]], "sample"))

    def done(state):
        return len(state) > length or state[-1] == absorbing

    def loop(chance):
        state = (1,)
        while not done(state):
            state = step(state, chance)
        return len(state), state[-1]

    merged = law_of_process(
        step,
        (1,),
        done=done,
        key=lambda state: (len(state), state[-1]),
        outcome=lambda state: (len(state), state[-1]),
    )
    texts = law_of_process(
        step, (1,), done=done, key=lambda state: state, outcome=lambda state: (len(state), state[-1])
    )
    assert merged == texts == law_of(loop)
    assert sum(merged.values()) == 1


def test_law_of_process_steps_once_from_equal_states():
    calls = []

    def step(state, chance):
        calls.append(state)
        return state[0] + 1, chance.draw(exact([1, 1]), "sample")

    law = law_of_process(step, (0, 0), done=lambda s: s[0] == 3, key=lambda s: s, outcome=lambda s: s[1])
    assert law == {0: F(1, 2), 1: F(1, 2)}
    assert len(calls) == 2 * (1 + 2 + 2)  # two branches from each of the five distinct states


# ---- programs and uniforms that are not what they should be -----------------------------------------------------------------


@pytest.mark.parametrize("u", [-1.0, -F(1, 9), 1.0, 2.0, math.nan])
def test_a_given_uniform_lies_in_zero_one(u):
    for weights in (np.array([0.0, 1.0]), exact([0, 1])):
        with pytest.raises(ValueError, match=r"uniform .* is not in"):
            inverse_transform(weights, u)
        with pytest.raises(ValueError, match=r"uniform .* is not in"):
            Random(0).draw(weights, "sample", u=u)
    with pytest.raises(ValueError, match=r"uniform .* is not in"):
        Random(0).accept(F(1, 2), "accept", u=u)


def test_law_of_notices_a_program_that_changes_between_its_runs():
    calls = []

    def shrinking(chance):
        calls.append(1)
        return sum(chance.draw(exact([1, 1], 2), "sample") for _ in range(3 if len(calls) < 3 else 1))

    def widening(chance):
        calls.append(1)
        return chance.draw(exact([1] * (2 + len(calls) // 2), 2 + len(calls) // 2), "sample")

    for program in (shrinking, widening):
        calls.clear()
        with pytest.raises(ValueError, match="other choices than in its last run"):
            law_of(program)


def test_an_interval_is_compared_and_nothing_else():
    def equal(chance):
        return chance.uniform("sample") == F(1, 2)

    def truth(chance):
        return bool(chance.uniform("sample"))

    for program in (equal, truth):
        with pytest.raises(TypeError, match="compare"):
            law_of(program)


def test_after_a_run_an_interval_tells_which_uniforms_lead_along_it():
    def program(chance):
        recorded = Recorded(chance)
        recorded.draw(exact([0, 3, 1], 4), "propose")
        recorded.accept(F(1, 5), "accept")
        return tuple((d.outcome, d.u.low, d.u.high) for d in recorded.tape)

    draws, accepts = [(1, 0, F(3, 4)), (2, F(3, 4), 1)], [(True, 0, F(1, 5)), (False, F(1, 5), 1)]
    assert law_of(program) == {(d, a): (d[2] - d[1]) * (a[2] - a[1]) for d in draws for a in accepts}
