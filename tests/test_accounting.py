"""accounting.py: the formulas against enumeration of accept/reject strings, and the lesson's numbers."""

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.accounting import (
    best_gamma,
    break_even_alpha,
    break_even_verify,
    count_law,
    count_variance,
    expected_count,
    speedup,
    throughput,
)
from strategies import frozen

MS = F(1, 1000)
alphas = st.fractions(0, 1, max_denominator=12) | st.sampled_from([F(0), F(1)])
gammas = st.integers(0, 5)
times = st.fractions(F(1, 20), 5, max_denominator=20)


def enumerated_law(alpha, gamma):
    """P(K = k) by walking through all 2**γ strings of accept and reject."""
    law = [F(0)] * (gamma + 1)
    for accepted in product([True, False], repeat=gamma):
        kept = accepted.index(False) if False in accepted else gamma
        law[kept] += math.prod(alpha if yes else 1 - alpha for yes in accepted)
    return law


@given(alphas, gammas)
def test_count_law_by_enumeration(alpha, gamma):
    law = count_law(alpha, gamma)
    assert law == enumerated_law(alpha, gamma) and sum(law) == 1
    mean = sum(k * weight for k, weight in enumerate(law, start=1))
    assert expected_count(alpha, gamma) == mean
    second = sum(k**2 * weight for k, weight in enumerate(law, start=1))
    assert count_variance(alpha, gamma) == second - mean**2


@given(alphas, gammas)
def test_published_closed_forms(alpha, gamma):
    """Leviathan et al. equation 1; and E[K²] = Σ (2j+1) P(K > j)."""
    mean, second = expected_count(alpha, gamma), sum((2 * j + 1) * alpha**j for j in range(gamma + 1))
    assert mean == ((1 - alpha ** (gamma + 1)) / (1 - alpha) if alpha != 1 else gamma + 1)
    assert count_variance(alpha, gamma) == second - mean**2


def test_lesson_counts_and_the_ends():
    assert count_law(F(3, 5), 2) == [F(2, 5), F(6, 25), F(9, 25)]
    assert expected_count(F(3, 5), 2) == F(49, 25)
    assert count_variance(F(3, 5), 2) == (10 + 4 * 6 + 9 * 9) * F(1, 25) - F(49, 25) ** 2
    for zero, one in [(F(0), F(1)), (0, 1), (0.0, 1.0)]:
        assert count_law(zero, 3) == [1, 0, 0, 0] and count_law(one, 3) == [0, 0, 0, 1]
        assert expected_count(zero, 3) == 1 and expected_count(one, 3) == 4
        assert count_variance(zero, 3) == count_variance(one, 3) == 0
        assert count_law(zero, 0) == count_law(one, 0) == [1]


@pytest.mark.parametrize("gamma", [1, 4, 20])
@pytest.mark.parametrize("alpha", [2.0**-60, 1e-12, 1e-3, 0.6, 0.999, 1 - 1e-8, 1 - 2.0**-40, 1 - 2.0**-53])
def test_floats_keep_their_accuracy_near_the_ends(alpha, gamma):
    exact = F(alpha)
    assert expected_count(alpha, gamma) == pytest.approx(
        float(expected_count(exact, gamma)), rel=1e-14, abs=0
    )
    assert count_variance(alpha, gamma) == pytest.approx(
        float(count_variance(exact, gamma)), rel=1e-12, abs=0
    )
    assert count_law(alpha, gamma) == pytest.approx(
        [float(x) for x in count_law(exact, gamma)], rel=1e-13, abs=0
    )


def test_alpha_may_be_an_array():
    grid = frozen(np.linspace(0, 1, 11))
    for function in (expected_count, count_variance):
        singly = [function(a, 4) for a in grid.tolist()]
        np.testing.assert_allclose(function(grid, 4), singly, rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(np.sum(count_law(grid, 4), axis=0), 1)
    np.testing.assert_allclose(speedup(grid, 4, 0.1), expected_count(grid, 4) / 1.4)
    exact = np.array([F(0), F(3, 5), F(1)], dtype=object)
    assert list(expected_count(exact, 2)) == [1, F(49, 25), 3]
    assert list(count_variance(exact, 2)) == [0, F(474, 625), 0]


def test_a_numpy_gamma_does_not_overflow_fractions():
    """3**60 exceeds 64 bits, and Fraction(3, 5) ** np.int64(60) would wrap around silently."""
    law = count_law(F(3, 5), np.int64(60))
    assert law == count_law(F(3, 5), 60) and sum(law) == 1
    assert speedup(F(3, 5), np.int64(60), F(3, 5**27)) == speedup(F(3, 5), 60, F(3, 5**27))


def test_lesson_rates():
    round_ = {"draft": 2 * MS, "overhead": MS}
    assert throughput(F(3, 5), 2, verify=6 * MS, **round_) == F(1960, 9)
    assert throughput(F(3, 5), 2, verify=12 * MS, **round_) == F(1960, 15)
    for seconds, rate in [(0.006, 217.77777777777777), (0.012, 130.66666666666666)]:
        floats = throughput(0.6, 2, draft=0.002, verify=seconds, overhead=0.001)
        assert floats == pytest.approx(rate, rel=1e-14, abs=0)
    assert break_even_verify(F(3, 5), 2, draft=2 * MS, baseline=6 * MS, overhead=MS) == F(876, 100) * MS
    assert throughput(F(3, 5), 0, draft=0, verify=6 * MS) == F(500, 3)


@given(alphas, gammas, times, times, times)
def test_at_break_even_a_round_is_as_fast_as_the_baseline(alpha, gamma, draft, baseline, overhead):
    verify = break_even_verify(alpha, gamma, draft=draft, baseline=baseline, overhead=overhead)
    if verify >= 0:
        assert throughput(alpha, gamma, draft=draft, verify=verify, overhead=overhead) == 1 / baseline
        assert throughput(alpha, gamma, draft=draft, verify=verify + MS, overhead=overhead) < 1 / baseline
    else:
        assert throughput(alpha, gamma, draft=draft, verify=0, overhead=overhead) < 1 / baseline


@given(alphas, gammas, times)
def test_speedup_is_theorem_3_8(alpha, gamma, c):
    if alpha == 1:
        closed = (gamma + 1) / (gamma * c + 1)
    else:
        closed = (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (gamma * c + 1))
    assert speedup(alpha, gamma, c) == closed
    assert speedup(alpha, gamma, c, 2) == expected_count(alpha, gamma) / (gamma * c + 2)


@given(alphas, times, times, st.sampled_from([F(0), F(1, 20), F(1)]), st.integers(0, 8))
def test_best_gamma_by_brute_force(alpha, draft, slope, overhead, largest):
    def verify(gamma):
        return 1 + slope * (gamma + 1)

    rates = [1 / verify(0)]  # the target alone: no draft, no overhead
    for gamma in range(1, largest + 1):
        mean = sum(k * weight for k, weight in enumerate(enumerated_law(alpha, gamma), start=1))
        rates.append(mean / (gamma * draft / 10 + verify(gamma) + overhead))
    best, rate = best_gamma(alpha, draft_step=draft / 10, verify=verify, largest=largest, overhead=overhead)
    assert rate == max(rates) and best == rates.index(max(rates))


def test_best_gamma_ties_go_to_the_smaller():
    """First: free drafts, and verification costs a second a position, so every γ yields a token a second."""
    assert best_gamma(F(1), draft_step=0, verify=lambda gamma: gamma + 1, largest=5) == (0, 1)
    assert best_gamma(F(1), draft_step=0, verify=lambda gamma: 1, largest=5) == (5, 6)
    assert best_gamma(F(0), draft_step=0, verify=lambda gamma: 1, largest=5) == (0, 1)
    assert best_gamma(F(9, 10), draft_step=F(10), verify=lambda gamma: 1, largest=5) == (0, 1)
    assert best_gamma(F(1, 2), draft_step=F(1, 5), verify=lambda gamma: 1, largest=3) == (1, F(5, 4))  # 2 as well


@pytest.mark.parametrize("gamma", [-1, 1.0, 2.5, None, "2", F(2)])
def test_bad_gamma(gamma):
    for ask in (
        lambda: count_law(F(1, 2), gamma),
        lambda: expected_count(0.5, gamma),
        lambda: count_variance(0.5, gamma),
        lambda: throughput(0.5, gamma, draft=1, verify=1),
        lambda: break_even_verify(0.5, gamma, draft=1, baseline=1),
        lambda: best_gamma(0.5, draft_step=1, verify=lambda g: 1, largest=gamma),
    ):
        with pytest.raises(ValueError, match="gamma is"):
            ask()


@pytest.mark.parametrize(
    "alpha", [-0.1, 1.1, math.nan, math.inf, F(-1, 9), F(10, 9), np.array([0.5, 2]), np.array([math.nan])]
)
def test_bad_alpha(alpha):
    for ask in (count_law, expected_count, count_variance, lambda a, g: speedup(a, g, 0.1)):
        with pytest.raises(ValueError, match="alpha is"):
            ask(alpha, 2)


@pytest.mark.parametrize("seconds", [-1, -1e-9, math.nan, math.inf, F(-1, 2)])
def test_bad_seconds(seconds):
    good = {"draft": 1, "verify": 1, "overhead": 1, "baseline": 1}
    for name in good:
        bad = good | {name: seconds}
        for function, other in ((throughput, "baseline"), (break_even_verify, "verify")):
            if name != other:
                with pytest.raises(ValueError, match=f"{name} is"):
                    function(0.5, 2, **{key: value for key, value in bad.items() if key != other})
    with pytest.raises(ValueError, match="verify is"):
        best_gamma(0.5, draft_step=1, verify=lambda gamma: seconds if gamma else 1, largest=2)
    with pytest.raises(ValueError, match="draft is"):
        speedup(0.5, 2, seconds)


def test_a_round_of_no_duration_has_no_throughput():
    with pytest.raises(ValueError, match="no duration"):
        throughput(0.5, 2, draft=0, verify=0)


@pytest.mark.parametrize("gamma", [-1, 1.5, None])
def test_speedup_names_the_gamma_that_it_refuses(gamma):
    with pytest.raises(ValueError, match="gamma is"):
        speedup(0.5, gamma, 0.1)


@given(st.integers(1, 5), times, times, times, times)
def test_break_even_alpha_is_the_least_that_is_enough(gamma, draft, verify, baseline, overhead):
    rest = {"draft": draft, "verify": verify, "overhead": overhead}
    even = break_even_alpha(gamma, baseline=baseline, **rest)
    if even is None:
        assert throughput(1, gamma, **rest) < 1 / baseline
    else:
        assert throughput(even, gamma, **rest) >= 1 / baseline
        assert even == 0 or throughput(even - F(1, 2**50), gamma, **rest) < 1 / baseline


def test_break_even_alpha_by_hand():
    lesson = {"draft": 2 * MS, "overhead": MS, "baseline": 6 * MS}
    root = break_even_alpha(2, verify=6 * MS, **lesson)  # 1 + α + α² = 3/2
    assert 0 <= float(root) - (3**0.5 - 1) / 2 < 2e-15
    assert break_even_alpha(1, draft=MS, verify=6 * MS, baseline=6 * MS, overhead=2 * MS) == F(1, 2)
    assert break_even_alpha(2, verify=15 * MS, **lesson) == 1  # three tokens in 18 ms, and no fewer
    assert break_even_alpha(2, verify=F(151, 10) * MS, **lesson) is None
    assert break_even_alpha(2, verify=3 * MS, **lesson) == 0
    assert break_even_alpha(2, draft=2.0, verify=3.0, baseline=6.0, overhead=1.0) == 0
    with pytest.raises(ValueError, match="verify is -1"):
        break_even_alpha(2, verify=-1, **lesson)
