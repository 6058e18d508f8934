"""law.py: validation, overlap, residual, and every transform against an independent one, on both kinds."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.law import (
    SUM_TOLERANCE,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Transforms,
    by_row,
    check_law,
    check_pair,
    exact,
    has_weight,
    is_exact,
    normalise,
    overlap,
    positive_part,
    residual,
    softmax,
    to_law,
    total_variation,
)
from strategies import exact_laws, exact_pairs, float_laws, float_pairs, frozen

P, Q = exact([6, 3, 1], 10), exact([2, 3, 5], 10)


def objects(*values):
    return np.array(values, dtype=object)


def all_fractions(values):
    """Fractions of Python ints: neither a float nor a numpy integer that could overflow."""
    return all(type(x) in (F, int) and type(F(x).numerator) is int for x in np.ravel(values))


def log(weights):
    with np.errstate(divide="ignore"):
        return np.log(weights.astype(float))


# ---- overlap, total variation, residual --------------------------------------------------------------------


def test_lesson_pair():
    assert overlap(P, Q) == F(3, 5) and total_variation(P, Q) == F(2, 5)
    assert list(residual(P, Q)) == [1, 0, 0]
    assert list(residual(exact([5, 3, 2], 10), exact([2, 2, 6], 10))) == [F(3, 4), F(1, 4), 0]


@settings(max_examples=100)
@given(exact_pairs())
def test_overlap_is_one_minus_total_variation(pair):
    p, q = pair
    alpha = overlap(p, q)
    assert alpha == 1 - total_variation(p, q) == sum(min(a, b) for a, b in zip(p, q, strict=True))
    assert (alpha == 1) == (list(p) == list(q))
    assert (alpha == 0) == (not any(a and b for a, b in zip(p, q, strict=True)))
    assert overlap(q, p) == alpha and total_variation(q, p) == total_variation(p, q)


@settings(max_examples=100)
@given(exact_pairs())
def test_residual_refills_the_target(pair):
    p, q = pair
    if list(p) == list(q):
        with pytest.raises(ValueError, match="never rejects"):
            residual(p, q)
        return
    r = check_law(residual(p, q))
    assert all(r[x] == 0 for x in range(len(p)) if p[x] <= q[x])
    assert all(r[x] > 0 for x in range(len(p)) if p[x] > q[x])
    assert list(np.minimum(p, q) + (1 - overlap(p, q)) * r) == list(p)
    assert all_fractions(r)


@given(float_pairs())
def test_floats_obey_the_same_identities(pair):
    p, q = pair
    alpha = overlap(p, q)
    assert alpha == pytest.approx(1 - total_variation(p, q), abs=2e-9)
    if positive_part(p, q).any():
        r = check_law(residual(p, q))
        assert not r[p <= q].any()
        np.testing.assert_allclose(np.minimum(p, q) + positive_part(p, q).sum() * r, p, atol=1e-15)


def test_stacks_give_one_number_a_row():
    p, q = np.array([P, P]), np.array([Q, exact([1, 0, 0])])
    assert list(overlap(p, q)) == [F(3, 5), F(3, 5)] and list(total_variation(p, q)) == [F(2, 5), F(2, 5)]
    assert [list(row) for row in residual(p, q)] == [[1, 0, 0], [0, F(3, 4), F(1, 4)]]
    np.testing.assert_allclose(overlap(p.astype(float), q.astype(float)), [0.6, 0.6])
    for kind in (object, float):
        with pytest.raises(ValueError, match="never rejects"):
            residual(p.astype(kind), np.array([Q, P]).astype(kind))


def test_integers_in_an_exact_law_never_become_floats():
    a, b = objects(1, 0), objects(0, 1)
    assert all_fractions([overlap(a, b), total_variation(a, b), *residual(a, b), *normalise(objects(1, 2))])
    assert total_variation(a, b) == 1 and list(normalise(objects(1, 2))) == [F(1, 3), F(2, 3)]


# ---- validation --------------------------------------------------------------------------------------------


@given(exact_laws() | float_laws())
def test_check_law_returns_every_law_itself(law):
    assert check_law(law) is law
    stack = np.array([law, law])
    assert check_law(stack) is stack


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (np.array([0.5, 0.75, -0.25]), r"target is not a law: sum 1\.0, smallest entry -0\.25"),
        (exact([6, 5, -1], 10), "target is not a law: sum 1, smallest entry -1/10"),
        (np.array([0.5, 0.25]), r"target is not a law: sum 0\.75"),
        (exact([1, 1], 3), "target is not a law: sum 2/3"),
        (np.array([np.nan, 1.0]), "target is not a law: sum nan"),
        (np.array([np.inf, 0.0]), "target is not a law: sum inf"),
        (np.array([0.0, 0.0]), r"target is not a law: sum 0\.0"),
        (np.array([[0.5, 0.5], [0.5, 0.25], [1.0, 1.0]]), r"target row 1 is not a law: sum 0\.75"),
        (
            np.array([exact([1, 2], 3), exact([4, -1], 3)]),
            "target row 1 is not a law: sum 1, smallest entry -1/3",
        ),
        (np.array([1, 0]), "dtype int64"),
        (np.array([0.5, 0.5], dtype=np.float32), "dtype float32"),
        (np.array([True]), "dtype bool"),
        (np.array([1 + 0j]), "dtype complex128"),
        (objects(F(1, 2), 0.5), "mixes floats"),
        (objects(F(1, 2), np.float64(0.5)), "mixes floats"),
        (objects(np.int64(1), 0), "numpy numbers"),
        (objects(float("nan"), 1), "mixes floats"),
        (np.array([]), r"shape \(V,\) or \(n, V\) with V >= 1, not an array of shape \(0,\)"),
        (np.zeros((2, 0)), r"not an array of shape \(2, 0\)"),
        (np.array(1.0), r"not an array of shape \(\)"),
        (np.ones((1, 1, 1)), r"not an array of shape \(1, 1, 1\)"),
        ([0.5, 0.5], "not a list"),
        (None, "not a NoneType"),
    ],
)
def test_check_law_names_the_fault(law, message):
    with pytest.raises(ValueError, match=message):
        check_law(law, "target")


@pytest.mark.parametrize("side", [-1, 1])
def test_floats_have_a_tolerance_and_fractions_none(side):
    assert SUM_TOLERANCE == 1e-9
    check_law(np.array([0.5, 0.5 + side * 0.99e-9]))
    for law in (np.array([0.5, 0.5 + side * 1.01e-9]), exact([10**30, 10**30 + side], 2 * 10**30)):
        with pytest.raises(ValueError, match="law is not a law: sum"):
            check_law(law)


def test_check_pair_refuses_what_cannot_be_compared():
    check_pair(P, Q)
    for p, q, message in [
        (P, Q.astype(float), "different kinds"),
        (P.astype(float), Q, "different kinds"),
        (P, exact([1, 1], 2), "zeros for what it lacks"),
        (np.array([P]), Q, "zeros for what it lacks"),
        (P, exact([1, 1, 1], 2), "draft q is not a law: sum 3/2"),
        (exact([1, 1, 1], 2), Q, "target p is not a law: sum 3/2"),
    ]:
        for function in (check_pair, overlap, total_variation, residual):
            with pytest.raises(ValueError, match=message):
                function(p, q)


def test_exact_makes_fractions_of_python_integers():
    for numbers in ([6, 4], np.array([6, 4]), [np.int64(6), np.int64(4)], ["6", "8/2"], [F(6), F(4)]):
        law = exact(numbers, 10)
        assert is_exact(law) and list(law) == [F(3, 5), F(2, 5)] and all_fractions(law)
    assert exact([[1, 2], [3, 4]], 2).shape == (2, 2)
    assert exact([np.int64(3)])[0] ** 60 == 3**60  # a Fraction of numpy integers would overflow silently
    assert all_fractions(exact([1], np.int64(3)))


@pytest.mark.parametrize("numbers", [[0.6, 0.4], [1, 0.5], np.array([0.6]), [[1], [0.5]], [np.float32(1)]])
def test_exact_refuses_floats(numbers):
    with pytest.raises(ValueError, match="not floats"):
        exact(numbers)
    with pytest.raises(ValueError, match="not floats"):
        exact([6, 4], 10.0)


# ---- scores to laws ----------------------------------------------------------------------------------------


def test_softmax_does_not_overflow_and_knows_minus_infinity():
    assert list(softmax(np.array([1e4, 1e4, -np.inf]))) == [0.5, 0.5, 0.0]
    assert list(to_law(np.array([-1e308, -1e308]))) == [0.5, 0.5]
    assert list(to_law(np.array([800.0, 0.0]))) == [1.0, 0.0]
    np.testing.assert_allclose(
        to_law(np.log([[1.0, 3.0], [2.0, 2.0]])), [[0.25, 0.75], [0.5, 0.5]], rtol=1e-15
    )


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=6))
def test_softmax_is_exp_over_sum(logits):
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    np.testing.assert_allclose(
        to_law(frozen(np.array(logits))), np.array(weights) / math.fsum(weights), rtol=1e-13
    )


@given(exact_laws(), st.integers(1, 10))
def test_exact_weights_are_normalised(law, scale):
    weights = frozen(law * scale)
    assert list(to_law(weights)) == list(law) and all_fractions(to_law(weights))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([1, 2]), "dtype int64"),
        (np.array([1.0], dtype=np.float32), "dtype float32"),
        (np.array([-np.inf, -np.inf]), "no token possible"),
        (np.array([[0.0, 1.0], [-np.inf, -np.inf]]), "no token possible"),
        (exact([0, 0]), "no token possible"),
        (np.array([np.nan, 0.0]), "never NaN"),
        (np.array([np.inf, 0.0]), "below inf"),
        (exact([-1, -2]), "at least 0"),  # their quotients (1/3, 2/3) would pass for a law
        (exact([1, -1]), "at least 0"),
        (objects(F(1), 0.5), "mixes floats"),
    ],
)
def test_scores_that_are_no_scores(scores, message):
    with pytest.raises(ValueError, match=message):
        to_law(scores)


@pytest.mark.parametrize("bad", [np.array([np.nan, 1.0]), np.array([np.inf, 1.0]), exact([-3, 2])])
@pytest.mark.parametrize(
    "step", [TopK(1), Temperature(0), Temperature(F(1, 2)), RepetitionPenalty(1), TopP(0.5)]
)
def test_no_transform_hides_a_bad_score(step, bad):
    with pytest.raises(ValueError, match="scores must be"):
        Transforms((step,)).law(bad, [0])


def test_has_weight():
    assert has_weight(exact([0, 1])) and has_weight(np.array([-np.inf, -900.0]))
    assert has_weight(np.array([[0.0], [1.0]]))
    assert not has_weight(exact([0, 0])) and not has_weight(np.array([[0.0], [-np.inf]]))


# ---- transforms against a naive implementation -------------------------------------------------------------
# Naive steps map a list of exact weights to a list. Weights are a/17: no two different ones tie after powers,
# so the float logits have the very ties of the weights.


@dataclass
class Case:
    """A step of the library beside its independent reading on a list of weights."""

    step: object
    naive: object


def ranked(weights):
    return sorted(range(len(weights)), key=lambda x: (-weights[x], x))


def only(weights, kept):
    return [w if x in kept else F(0) for x, w in enumerate(weights)]


def temperature(power):
    """T = 1/power; power 0 stands for T = 0."""
    if power == 0:
        return Case(Temperature(0), lambda w, prefix: only(w, ranked(w)[:1]))
    return Case(Temperature(F(1, power)), lambda w, prefix: [x**power for x in w])


def top_k(k):
    return Case(TopK(k), lambda w, prefix: only(w, ranked(w)[:k]))


def top_p(p):
    def naive(w, prefix):
        kept, mass = [], F(0)
        for token in ranked(w):
            if mass >= p - F(1, 10**9):
                break
            kept.append(token)
            mass += w[token] / sum(w)
        return only(w, kept)

    return Case(TopP(p), naive)


def penalty(theta):
    def naive(w, prefix):
        return [x**theta if token in prefix else x for token, x in enumerate(w)]

    return Case(RepetitionPenalty(theta), naive)


cases = st.one_of(
    st.builds(temperature, st.integers(0, 3)),
    st.builds(top_k, st.integers(1, 6)),
    st.builds(top_p, st.sampled_from([F(1, 10), F(1, 3), F(1, 2), F(2, 3), F(9, 10), F(1)])),
    st.builds(penalty, st.integers(1, 3)),
)
weights_over_17 = st.lists(st.sampled_from([0, 0, 1, 2, 3, 4, 4, 8, 17]), min_size=1, max_size=6).filter(any)
prefixes = st.lists(st.integers(0, 7), max_size=4)  # ids past V-1, such as a start token, are nobody's score


@settings(max_examples=200)
@given(weights_over_17, st.lists(cases, max_size=4), prefixes)
def test_every_composition_is_the_naive_one_on_both_kinds(numerators, composition, prefix):
    weights = frozen(exact(numerators, 17))
    expected = list(weights)
    for case in composition:
        expected = case.naive(expected, prefix)
    expected = [w / sum(expected) for w in expected]
    transforms = Transforms(tuple(case.step for case in composition))
    law = transforms.law(weights, prefix)
    assert list(law) == expected and all_fractions(law)
    floats = transforms.law(frozen(log(weights)), prefix)
    np.testing.assert_allclose(floats, np.array(expected, dtype=float), rtol=1e-12, atol=0)


@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=6),
    st.sampled_from([0.1, 0.7, 1.0, 2.5]),
    st.sampled_from([1, 1.3, F(3, 2)]),
    prefixes,
)
def test_float_only_parameters(logits, t, theta, prefix):
    """Temperature divides logits; the penalty is Hugging Face's: times theta if negative, else divided."""
    scores = frozen(np.array(logits))
    assert list(Temperature(t)(scores, prefix)) == [x / t for x in logits]
    theirs = [(x * theta if x < 0 else x / theta) if i in prefix else x for i, x in enumerate(logits)]
    ours = RepetitionPenalty(theta)(scores, prefix)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, np.array(theirs, dtype=float), rtol=1e-15)


@given(st.lists(weights_over_17, min_size=3, max_size=3), st.lists(cases, max_size=3), st.booleans())
def test_laws_of_a_stack_are_the_laws_of_its_rows(rows, composition, floats):
    size = min(map(len, rows))
    stack = exact([[1, *row[: size - 1]] for row in rows], 17)
    stack = frozen(log(stack) if floats else stack)
    transforms = Transforms(tuple(case.step for case in composition))
    laws = transforms.laws(stack, [1], [0, 2])
    assert laws.shape == stack.shape
    for i, law in enumerate(laws):
        np.testing.assert_array_equal(law, transforms.law(stack[i], [1, 0, 2][: i + 1]))


def both(numerators, denominator=10):
    weights = exact(numerators, denominator)
    return weights, log(weights)


def support(step, scores, prefix=()):
    return np.flatnonzero(Transforms((step,)).law(scores, prefix)).tolist()


def test_ties_go_to_the_lowest_id():
    for scores in both([1, 4, 4, 1]):
        assert support(Temperature(0), scores) == [1]
        assert support(TopK(1), scores) == [1] and support(TopK(3), scores) == [0, 1, 2]
        assert support(TopK(9), scores) == [0, 1, 2, 3]
        assert support(TopP(F(4, 10)), scores) == [1] and support(TopP(0.85), scores) == [0, 1, 2]
    assert list(Transforms((Temperature(0),)).law(np.array([0.0, -0.0, 0.0]))) == [1, 0, 0]


def test_top_p_stops_where_its_mass_is_reached():
    for scores in both([6, 3, 1]):
        for p in (
            0.9,
            F(9, 10),
            F(9, 10) + F(1, 2 * 10**9),
        ):  # 0.6 + 0.3 < 0.9 in floats: the epsilon decides
            assert support(TopP(p), scores) == [0, 1]
        assert support(TopP(F(9, 10) + F(2, 10**9)), scores) == [0, 1, 2]
        assert support(TopP(0.6), scores) == [0] and support(TopP(0.61), scores) == [0, 1]
        assert support(TopP(1), scores) == [0, 1, 2] and support(TopP(2e-9), scores) == [0]
    edge = F(9, 10) + F(1, 10**9)  # p - epsilon is 9/10 exactly, and 9/10 is enough
    assert support(TopP(edge), exact([6, 3, 1], 10)) == [0, 1]


def test_the_order_of_transforms_matters():
    """(6,3,1)/10: squared first, A holds 36/46 > 3/4; top-p 3/4 first keeps A and B, squared to 4 : 1."""
    for scores in both([6, 3, 1]):
        cold, nucleus = Temperature(F(1, 2)), TopP(F(3, 4))
        np.testing.assert_allclose(Transforms((cold, nucleus)).law(scores).astype(float), [1, 0, 0])
        np.testing.assert_allclose(Transforms((nucleus, cold)).law(scores).astype(float), [0.8, 0.2, 0])


def test_reported_laws():
    """lattice pull 974 (temperature) and vLLM issue 9834 (top-k), from shared sampler reports."""
    assert list(Transforms((Temperature(0.5),)).law(exact([1, 2]))) == [F(1, 5), F(4, 5)]
    assert list(Transforms((TopK(2),)).law(exact([5, 3, 2], 10))) == [F(5, 8), F(3, 8), 0]


def test_no_steps_and_impossible_tokens():
    assert list(Transforms().law(exact([1, 3]))) == [F(1, 4), F(3, 4)]
    assert list(RepetitionPenalty(2.0)(np.array([-np.inf, 0.0]), [0, 1])) == [-np.inf, 0.0]


@pytest.mark.parametrize("numbers", [np.array([0.5, 1.5, -1.0, 0.0]), exact([1, 4, 2, 0], 7)])
def test_row_i_sees_the_prefix_and_the_proposals_before_it(numbers):
    scores = frozen(np.array([numbers] * 3))
    calls = []

    def spy(row, prefix):
        assert row.shape == (4,)
        calls.append(list(prefix))
        return row

    prefix, proposals = [3, 1], [2, 0]
    Transforms((TopK(3), spy, Temperature(1))).laws(scores, prefix, proposals)
    assert calls == [[3, 1], [3, 1, 2], [3, 1, 2, 0]]
    assert (prefix, proposals) == ([3, 1], [2, 0])
    laws = Transforms((RepetitionPenalty(2),)).laws(scores, prefix, proposals)
    for i, seen in enumerate(([3, 1], [3, 1, 2], [3, 1, 2, 0])):
        assert list(laws[i]) == list(Transforms((RepetitionPenalty(2),)).law(numbers, seen))


def test_a_prefix_free_step_may_take_all_rows_at_once():
    shapes = []

    class Free:
        prefix_free = True

        def __call__(self, scores, prefix):
            shapes.append(scores.shape)
            return scores

    Transforms((Free(), TopK(1))).laws(np.zeros((3, 2)), [], [0, 1])
    Transforms((Free(), RepetitionPenalty(2))).laws(np.zeros((3, 2)), [], [0, 1])
    assert shapes == [(3, 2), (2,), (2,), (2,)]


@pytest.mark.parametrize("steps", [(), (TopK(1),), (RepetitionPenalty(2),)])
def test_rows_without_their_proposals_are_refused(steps):
    with pytest.raises(ValueError, match="3 rows need 2 proposals before the last, not 1"):
        Transforms(steps).laws(np.zeros((3, 2)), [], [0])


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (Temperature, [-1, -0.1, math.inf, math.nan], "finite and at least 0"),
        (TopK, [0, -1, 2.5, math.nan], "integer of at least 1"),
        (TopP, [0, -1, 1e-10, 1.0000001, math.nan], "top-p is"),
        (RepetitionPenalty, [0.9, 0, -2, math.inf, math.nan], "finite and at least 1"),
    ],
)
def test_bad_parameters(make, values, message):
    for value in values:
        with pytest.raises(ValueError, match=message):
            make(value)


def test_what_exact_weights_cannot_express():
    for t in (2, F(2, 3), 0.3, Decimal("0.3")):
        with pytest.raises(ValueError, match="1/T must be an integer"):
            Temperature(t)(exact([1, 2]), [])
    for theta, weights in [(1.5, exact([1, 2], 3)), (2, exact([3, 2]))]:
        with pytest.raises(ValueError, match="not exact here"):
            RepetitionPenalty(theta)(weights, [0])
    assert list(RepetitionPenalty(2)(exact([3, 1], 2), [1])) == [F(3, 2), F(1, 4)]


def test_a_temperature_too_small_for_floats_raises():
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="scores must be"):
        Transforms((Temperature(F(1, 10**400)), TopK(1))).law(np.array([0.0, 1.0]))


@pytest.mark.parametrize(
    ("numbers", "denominator"), [([1], 0), ([None], 1), ([[1, 2], [3]], 1), ([1 + 2j], 1), ([1], None), (["x"], 1)]
)
def test_exact_takes_numbers_only(numbers, denominator):
    with pytest.raises(ValueError, match=r"exact|Invalid literal"):
        exact(numbers, denominator)


@pytest.mark.parametrize("stranger", [Decimal("0.5"), None, "1/2", True, np.True_, 0.5 + 0j, np.float64(0.5)])
def test_an_exact_law_holds_exact_numbers_only(stranger):
    law = np.array([F(1, 2), stranger], dtype=object)
    with pytest.raises(ValueError, match="with exact ones"):
        check_law(law)


def test_top_p_one_keeps_everything():
    tail = exact([10**10 - 1, 1], 10**10)
    assert list(Transforms((TopP(1),)).law(tail)) == list(tail)
    assert (Transforms((TopP(1),)).law(np.log(tail.astype(float))) > 0).all()


@pytest.mark.parametrize("function", [check_law, to_law])
@pytest.mark.parametrize("alike", [0.5, np.float64(0.5), True])
def test_a_row_that_equals_one_seen_before_is_still_refused(function, alike):
    """What is found for an exact row is kept; by equality alone, 0.5 would find what was kept for 1/2."""
    good = objects(F(alike), 1 - F(alike))
    function(good)
    with pytest.raises(ValueError, match="mixes floats"):
        function(objects(alike, 1 - F(alike)))
    assert function(good).tolist() == good.tolist()


def test_by_row_keeps_each_kind_of_number_apart_and_computes_anew_without_a_hash():
    asked = []

    @by_row
    def kinds(*row):
        asked.append(row)
        return [type(value).__name__ for value in row]

    class Unhashable(F):
        __hash__ = None

    for row in [(1, F(2)), (F(1), 2), (1, F(2)), (True, F(2)), (Unhashable(1), 2), (Unhashable(1), 2)]:
        assert kinds(*row) == [type(value).__name__ for value in row]
    assert len(asked) == 5, "one of six was kept"
