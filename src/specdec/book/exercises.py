"""Checks that tell a reader whether an exercise is solved, without giving the answer away."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np

RTOL, ATOL = 1e-9, 1e-12  # for floats alone; exact numbers must agree exactly


@dataclass(frozen=True)
class Verdict:
    """What a check found: truthy when the answer is right, shown as one sentence."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


def check(answer: Any, truth: Any, *cases: tuple[Any, ...]) -> Verdict:
    """Compare a reader's answer with the truth: a value, or a function on each case (a tuple of arguments).

    A wrong, unfinished or failing answer gives a verdict that says for which case, and never raises.
    A check that could not fail (a function without cases) is the author's mistake and does raise.
    """
    if not callable(truth):
        if cases:
            raise ValueError("cases need a function as the truth")
        wrong = _fault(answer, truth)
        return Verdict(False, f"Not yet: {wrong}.") if wrong else Verdict(True, "Right.")
    if not cases or not all(isinstance(case, tuple) for case in cases):
        raise ValueError("a function is checked on at least one case, each a tuple of arguments")
    for case in cases:
        wrong = _fault_of_call(answer, truth, case)
        if wrong:
            return Verdict(False, f"Not yet: {wrong}.")
    return Verdict(True, f"Right: {len(cases)} case{'s agree' if len(cases) > 1 else ' agrees'}.")


def _fault_of_call(answer: Any, truth: Any, case: tuple[Any, ...]) -> str:
    """Say how the answer differs on one case; answer and truth get copies, so neither spoils the other's."""
    expected = truth(*copy.deepcopy(case))
    if answer is None or answer is Ellipsis or not callable(answer):
        return f"a function is asked for, yours is {_short(answer)}"
    where = f"for {_arguments(truth, case)}: "
    try:
        given = answer(*copy.deepcopy(case))
    except NotImplementedError:
        return "the function is not written yet"
    except Exception as error:  # whatever a reader's code does wrong is a verdict, not a crash
        return f"{where}yours raised {type(error).__name__}: {error}".rstrip(": ")
    wrong = _fault(given, expected)
    return where + wrong if wrong else ""


def _fault(given: Any, expected: Any) -> str:
    """Describe a value that is not the expected one, without telling that one; empty when it is right."""
    try:
        return "" if _same(given, expected) else f"yours is {_short(given)}"
    except Exception as error:  # an answer of a strange type may not even compare
        return f"yours cannot be compared ({type(error).__name__})"


def _same(given: Any, expected: Any) -> bool:
    """Compare exactly, but floats up to rounding; lists, tuples and arrays count alike as sequences."""
    if given is None or given is Ellipsis:
        return expected is given
    if isinstance(expected, Mapping):
        return (
            isinstance(given, Mapping)
            and given.keys() == expected.keys()
            and all(_same(given[key], value) for key, value in expected.items())
        )
    if _is_sequence(expected):
        return _is_sequence(given) and len(given) == len(expected) and all(map(_same, given, expected))
    if isinstance(given, Number) and isinstance(expected, Number) and (_is_float(given) or _is_float(expected)):
        return bool(np.isclose(float(given), float(expected), rtol=RTOL, atol=ATOL))  # type: ignore[arg-type]
    return bool(given == expected)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_float(value: Any) -> bool:
    return isinstance(value, float | np.floating)


def _arguments(function: Any, case: tuple[Any, ...]) -> str:
    """Show a case as `gamma=2, alpha=3/5`, with the names that the true function gives its arguments."""
    try:
        named = inspect.signature(function).bind(*case).arguments
    except (TypeError, ValueError):
        return ", ".join(map(_short, case))
    return ", ".join(f"{name}={_short(value)}" for name, value in named.items())


def _short(value: Any, width: int = 60) -> str:
    """Show a value briefly, fractions as 3/5."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Fraction):
        text = str(value)
    elif isinstance(value, list):
        text = "[" + ", ".join(map(_short, value)) + "]"
    else:
        text = repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"
