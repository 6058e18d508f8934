"""Hypothesis strategies for laws: small numerators, so that zeros, ties, one-hots, p = q recur.

Importing this module loads the profile of the whole suite: no deadline, and the same examples on every run.
"""

from fractions import Fraction

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from specdec.law import exact

settings.register_profile("specdec", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("specdec")

numerators = st.sampled_from([0, 0, 1, 1, 2, 3, 5])
vocabulary_sizes = st.integers(1, 5)


def frozen(array):
    """The array, read-only: whatever writes into it raises."""
    array.flags.writeable = False
    return array


def _law(counts):
    return frozen(exact(counts, sum(counts)))


def _one_hot(size, token):
    return frozen(exact([int(i == token) for i in range(size)]))


@st.composite
def exact_laws(draw, size=None):
    """A law of Fractions; one in four is a one-hot."""
    size = draw(vocabulary_sizes) if size is None else size
    if draw(st.integers(0, 3)) == 0:
        return _one_hot(size, draw(st.integers(0, size - 1)))
    return _law(draw(st.lists(numerators, min_size=size, max_size=size).filter(any)))


@st.composite
def exact_pairs(draw, size=None):
    """Laws (p, q) of Fractions: unrelated, equal, or with disjoint supports."""
    size = draw(vocabulary_sizes) if size is None else size
    p = draw(exact_laws(size))
    kind = draw(st.sampled_from(["any", "any", "any", "equal", "disjoint"]))
    free = np.flatnonzero(p == 0)
    if kind == "equal":
        return p, p
    if kind == "disjoint" and len(free):
        counts = np.zeros(size, dtype=int)
        counts[free] = draw(st.lists(st.integers(1, 3), min_size=len(free), max_size=len(free)))
        return p, _law(counts.tolist())
    return p, draw(exact_laws(size))


@st.composite
def float_laws(draw, size=None):
    """A float64 law: an exact one rounded, or arbitrary floats normalised, tiny ones and zeros among them."""
    size = draw(vocabulary_sizes) if size is None else size
    if draw(st.booleans()):
        return frozen(draw(exact_laws(size)).astype(float))
    weight = st.floats(0, 1) | st.sampled_from([0.0, 1e-300, 1e-17, 1.0])
    weights = np.array(draw(st.lists(weight, min_size=size, max_size=size).filter(lambda w: sum(w) > 1e-200)))
    return frozen(weights / weights.sum())


@st.composite
def float_pairs(draw, size=None):
    """Float laws (p, q): unrelated, equal, or a rounding apart."""
    size = draw(vocabulary_sizes) if size is None else size
    p = draw(float_laws(size))
    kind = draw(st.sampled_from(["any", "equal", "near"]))
    if kind == "any":
        return p, draw(float_laws(size))
    if kind == "equal":
        return p, p
    return p, frozen(p * (1 + draw(st.sampled_from([-5e-10, -2e-16, 2e-16, 5e-10]))))


@st.composite
def prefix_laws(draw, depth, size):
    """A model as {prefix: exact law} for every prefix of up to ``depth`` tokens; rows share nothing."""
    prefixes = [()]
    for prefix in prefixes:
        if len(prefix) < depth:
            prefixes += [(*prefix, token) for token in range(size)]
    return {prefix: draw(exact_laws(size)) for prefix in prefixes}


def smooth_uniforms(count):
    """Uniforms (2k+1)/20014: never within 1e-8 of a ratio of small numbers, so both kinds must agree."""
    uniform = st.integers(0, 10006).map(lambda k: Fraction(2 * k + 1, 20014))
    return st.lists(uniform, min_size=count, max_size=count)
