"""Exact whole numbers: Python integers, or numpy arrays that hold int64 while it is safe and Python integers beyond."""

from typing import Any

import numpy as np

SAFE = 2**55
"""A product below it stays int64, and so does a sum of some hundred such products."""


def whole(name: str, value: Any, least: int = 0) -> int:
    """A Python integer of at least ``least``; ``ValueError`` otherwise, for arrays and booleans too."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} is {value!r}: it must be an integer of at least {least}")
    return int(value)


def count(name: str, value: Any, least: int = 0) -> Any:
    """A Python integer, or an array of integers, none below ``least``; ``ValueError`` otherwise."""
    values = np.asarray(value)
    if values.dtype.kind == "f" and isinstance(value, list | tuple):
        values = np.array(value, dtype=object)  # numpy reads integers from 2^63 on, among smaller ones, as floats
    integers = values.dtype.kind in "iu" or (values.dtype == object and all(type(v) is int for v in values.flat))
    if not integers or values.size == 0:
        raise ValueError(f"{name} is {value!r}: it must be an integer, or an array of integers, of at least {least}")
    if values.min() < least:
        raise ValueError(f"{name} is {int(values.min()) if values.ndim else value!r}: it must be at least {least}")
    if values.ndim == 0:
        return int(value)
    return values.astype(object) if values.max() >= SAFE else values.astype(np.int64)


def times(*factors: Any) -> Any:
    """Their product; an array turns to Python integers (object dtype) where int64 might not hold what follows from it."""
    most = 1
    for factor in factors:
        most *= factor if isinstance(factor, int) else int(factor.max())
    product: Any = 1
    for factor in factors:
        product = product * (factor.astype(object) if most >= SAFE and not isinstance(factor, int) else factor)
    return product


def largest(*values: Any) -> list[int]:
    """The largest entry of each, as Python integers."""
    return [value if isinstance(value, int) else int(value.max()) for value in values]


def least(a: Any, b: Any) -> Any:
    """The smaller one, entry by entry; Python integers stay such."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def greatest(a: Any, b: Any) -> Any:
    """The larger one, entry by entry."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def blocks(cells: Any, size: int) -> Any:
    """How many blocks of ``size`` hold so many cells: the quotient, rounded up."""
    return -(-cells // size)


def padded(cells: Any, size: int) -> Any:
    """Cells in whole blocks."""
    return blocks(cells, size) * size
