"""The figures of the lesson that this book grew from, as data: what the lesson states, never what the book computes.

The worked trace sets them beside its own results, and ``tests/test_lesson.py`` compares the two.
"""

import json
from fractions import Fraction
from importlib.resources import files
from typing import Any

from specdec.law import exact


def load() -> dict[str, Any]:
    """The figures by name. A decimal is a Fraction (0.6 is 3/5), a list of numbers an exact array; ``assumed_ms`` is in ms."""
    text = files("specdec.book").joinpath("lesson.json").read_text("utf-8")
    return json.loads(text, parse_float=Fraction, object_hook=_with_arrays)


def _with_arrays(figures: dict[str, Any]) -> dict[str, Any]:
    """The same, with every list of numbers as an exact array; lists of symbols stay lists."""
    numbers = {name: value for name, value in figures.items() if isinstance(value, list) and not isinstance(value[0], str)}
    return figures | {name: exact(value) for name, value in numbers.items()}
