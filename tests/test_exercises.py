"""Exercise checks: right answers, and every kind of wrong one, which must never raise."""

from fractions import Fraction as F

import numpy as np
import pytest

from specdec.book.exercises import Verdict, check


def overlap(p, q):
    """Return the mass that two laws share."""
    return sum(map(min, p, q))


LAWS = ((F(6, 10), F(3, 10), F(1, 10)), (F(2, 10), F(3, 10), F(5, 10)))
OTHERS = ((F(1, 2), F(1, 2)), (F(1, 4), F(3, 4)))


def test_a_right_function_agrees_on_every_case():
    verdict = check(lambda a, b: 1 - sum(max(x - y, 0) for x, y in zip(a, b, strict=True)), overlap, LAWS, OTHERS)
    assert verdict and repr(verdict) == "Right: 2 cases agree."
    assert repr(check(overlap, overlap, LAWS)) == "Right: 1 case agrees."


def test_the_first_case_that_differs_is_shown_with_the_readers_value_alone():
    verdict = check(lambda p, q: F(3, 5), overlap, LAWS, OTHERS)
    assert not verdict
    assert repr(verdict) == "Not yet: for p=(Fraction(1, 2), Fraction(1, 2)), q=(Fraction(1, 4), Fraction(3, 4)): yours is 3/5."
    assert "3/4" not in repr(check(lambda p, q: 0, overlap, OTHERS)).split("yours")[1]


@pytest.mark.parametrize("answer", [None, ..., 3, "p"])
def test_an_unwritten_function_is_not_yet(answer):
    assert repr(check(answer, overlap, LAWS)).startswith("Not yet: a function is asked for, yours is ")


def test_a_stub_that_returns_nothing_or_says_so_is_not_yet():
    def stub(p, q):
        raise NotImplementedError

    assert repr(check(stub, overlap, LAWS)) == "Not yet: the function is not written yet."
    assert repr(check(lambda p, q: ..., overlap, LAWS)).endswith("yours is Ellipsis.")
    assert repr(check(lambda p, q: None, overlap, LAWS)).endswith("yours is None.")


def test_an_answer_that_raises_is_named():
    verdict = check(lambda p, q: 1 / 0, overlap, LAWS)
    assert not verdict and "yours raised ZeroDivisionError: division by zero" in repr(verdict)
    assert "TypeError" in repr(check(lambda p: 1, overlap, LAWS))


def test_an_answer_cannot_spoil_the_case_for_the_truth_or_for_later_ones():
    def greedy(numbers):
        numbers.clear()
        return 6

    case = ([1, 2, 3],)
    assert check(greedy, sum, case, case)
    assert case == ([1, 2, 3],)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (F(3, 5), F(3, 5)),
        (0.1 + 0.2, 0.3),
        (0.6, F(3, 5)),
        (np.float64(1.96), 1.96),
        ([F(1), F(0)], np.array([F(1), F(0)], dtype=object)),
        (np.array([0.1 + 0.2, 0.7]), [0.3, 0.7]),
        ({1: 0.4, 2: F(1, 2)}, {2: 0.5, 1: F(2, 5)}),
        (("A", "B"), ("A", "B")),
        ("residual", "residual"),
        (5e-17, 0.0),
    ],
)
def test_equal_values(given, expected):
    assert repr(check(given, expected)) == "Right."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (F(3, 5) + F(1, 10**30), F(3, 5)),
        (0.3 + 1e-7, 0.3),
        (1e-9, 0.0),
        (float("nan"), float("nan")),
        (None, 0),
        (..., 0),
        ([1, 2], [1, 2, 3]),
        (np.zeros(2), np.zeros((2, 2))),
        ([[1, 2], [3, 4]], [1, 2]),
        ({1: 2}, {1: 2, 3: 4}),
        (2, {1: 2}),
        ("AB", ["A", "B"]),
        (overlap, 3),
    ],
)
def test_different_values(given, expected):
    verdict = check(given, expected)
    assert isinstance(verdict, Verdict) and not verdict
    assert repr(verdict).startswith("Not yet: yours is ")


def test_a_value_that_refuses_to_be_compared_is_not_yet():
    class Odd:
        def __eq__(self, other):
            raise RuntimeError

        __hash__ = None

    assert repr(check(Odd(), 3)) == "Not yet: yours cannot be compared (RuntimeError)."


def test_long_values_are_cut():
    assert len(repr(check(list(range(1000)), 3))) < 100


def test_the_authors_mistakes_raise():
    with pytest.raises(ValueError, match="at least one case"):
        check(overlap, overlap)
    with pytest.raises(ValueError, match="tuple"):
        check(abs, abs, 3)
    with pytest.raises(ValueError, match="need a function"):
        check(3, 3, (1,))
    with pytest.raises(ZeroDivisionError):
        check(abs, lambda x: x / 0, (1,))
