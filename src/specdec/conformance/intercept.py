"""Interception: random calls of untouched code are answered by a ``chance`` object while a context is active.

``law_of`` then enumerates public code that has never heard of ``chance``. Uniforms that are not numbers yet come out as
``Uniform`` and exponential or Gumbel noise as ``Noise``. A comparison splits them, so a uniform that is used twice gets its
exact wrong law. Float thresholds and weights count as the exact Fractions that they are, so the masses sum to exactly one and
the law differs from that of exact rows by the floats' own rounding only (and by guards up to ``TINY`` in noise).

With a chance whose uniforms are numbers (``Random``, ``Scripted``) the code gets ordinary floats: one uniform a call of
``uniform``, and an exponential is -log(1 - u) of one.
"""

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.conformance.guard import OutOfReachError
from specdec.law import Array

PURPOSE = "sample"
"""The purpose of every intercepted call: untouched code doesn't say what it draws for."""

NUMBERS = (int, float, Fraction, np.number)

TINY = 1e-6
"""Guards up to this size, as in log(u + 1e-10), are taken for 0 in noise: the law moves by no more than about V TINY."""

BELOW_ONE = math.nextafter(1.0, 0.0)


class NotFollowedError(OutOfReachError):
    """Untouched code did something with a random number that interception can't follow: the kit's limit, no fault of the code.

    Not a ``TypeError``: operators would turn that into "unsupported operand" and lose the remedy.
    """


def refuse(what: str, remedy: str) -> Any:
    """Raise ``NotFollowedError``. Annotated so that it can stand where a value is due."""
    raise NotFollowedError(f"{what} can't be followed exactly: {remedy}")


def exact_number(value: Any) -> Any:
    """The Fraction of a finite number, a tensor of one element included; inf and nan stay floats."""
    if isinstance(value, Uniform | Noise):
        refuse("a comparison or product of two random numbers", "compare uniforms with thresholds, and noise with its like")
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else value
    return Fraction(value) if isinstance(value, int) else value


def exact_weights(values: Any) -> Array:
    """Weights (V,) as an object array of Fractions. NaN, infinite and negative ones raise ``ValueError``."""
    weights = np.empty(len(values), dtype=object)
    weights[:] = [exact_number(value) for value in values]
    if not all(0 <= weight < math.inf for weight in weights):
        raise ValueError(f"weights hold an entry that is nan, infinite or negative: {list(map(float, weights))}")
    return weights


class _Source:
    """One random number of the chance: compared with thresholds as u, or put into one race as E = -log(1 - u), never both."""

    def __init__(self, chance: Chance, purpose: str = PURPOSE) -> None:
        self.chance, self.u = chance, chance.uniform(purpose)
        self.compared = self.noisy = False
        self.rate: Any = None
        self.total: Any = None
        self.beaten_by: _Source | None = None

    def enter(self, rate: Any) -> None:
        """Into a race, with E / rate."""
        if self.rate is None:
            self.rate = self.total = rate
        elif self.rate != rate:
            refuse("noise that decides two races with different weights", "draw fresh noise for each race")

    @property
    def leader(self) -> "_Source":
        """The winner so far of the race that this one is in."""
        return self if self.beaten_by is None else self.beaten_by.leader


def _before(one: "Noise", other: "Noise") -> bool:
    """Whether E/rate of the one is the smaller.

    The least of several exponentials is exponential with the sum of their rates, whichever it is: so races may be decided pair
    by pair, as argmin does, and the winner goes on with the sum.
    """
    if not one.rate or not other.rate:
        return bool(one.rate)  # E/0 is infinite and never the smaller
    a, b = one.source, other.source
    a.enter(one.rate)
    b.enter(other.rate)
    if a.leader is b.leader:
        if a is not b and a.beaten_by and b.beaten_by:
            refuse("the order of two numbers that both lost a race", "take the winner only (argmax or argmin), no ranking")
        return a is not b and a.beaten_by is None
    if a.beaten_by or b.beaten_by:
        refuse("noise that lost one race and enters another", "draw fresh noise for each race")
    won = a.chance.draw(np.array([a.total, b.total], dtype=object), PURPOSE) == 0
    first, second = (a, b) if won else (b, a)
    first.total, second.beaten_by = a.total + b.total, first
    return won


class _Symbol:
    """What ``Uniform`` and ``Noise`` share: everything that isn't followed raises ``NotFollowedError``."""

    __hash__ = None  # type: ignore[assignment]  # a random number without a value can't be counted
    source: _Source

    def __getattr__(self, name: str) -> Any:
        # numpy asks objects for __array__ and the like, and takes a method such as ``exp`` for the function.
        if name.startswith("__"):
            raise AttributeError(name)
        return refuse(f"{name} of a random number", self._remedy)

    def _no_value(self, *_: Any) -> Any:
        return refuse("the value of a random number", self._remedy)

    _remedy = "compare it with <, <=, > or >=, or scale and shift it first; noise decides an argmax or argmin"
    __eq__ = __ne__ = __bool__ = __float__ = __int__ = __index__ = __round__ = __floor__ = __abs__ = __pow__ = _no_value
    __mod__ = __floordiv__ = __divmod__ = __ceil__ = __deepcopy__ = __reduce_ex__ = _no_value


def _elementwise(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A binary operator that leaves arrays to numpy, which comes back with one element at a time."""

    def operate(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim:
            return NotImplemented
        return operation(self, other)

    return operate


class Uniform(_Symbol):
    """shift + slope * u for a uniform u on [0, 1) that isn't a number yet; slope is not 0.

    A boundary has no weight, so < and <= are one question. Comparisons with NaN are false.
    """

    def __init__(self, source: _Source, shift: Any = Fraction(0), slope: Any = Fraction(1)) -> None:
        self.source, self._shift, self._slope = source, shift, slope

    def _compare(self, other: Any, operation: Callable[[Any, Any], bool]) -> bool:
        """One of the four comparisons, with a number or with another function of the same u."""
        if isinstance(other, Uniform) and other.source is self.source:
            if self._slope == other._slope:  # numpy's searchsorted compares a key with itself
                return operation(self._shift, other._shift)
            return Uniform(self.source, self._shift - other._shift, self._slope - other._slope)._compare(0, operation)
        threshold = exact_number(other)
        if threshold != threshold:
            return False
        if self.source.noisy:
            refuse("a uniform that was made into noise and is then compared with a threshold", "draw a fresh uniform")
        self.source.compared = True
        below = bool(self.source.u < (threshold - self._shift) / self._slope)
        return below == (operation(0, 1) == (self._slope > 0))

    def _affine(self, shift: Any, slope: Any) -> Any:
        """shift + slope * self. An infinite shift, NaN and a slope of 0 give what floats give."""
        if abs(slope) == math.inf:
            refuse("a uniform times infinity", "leave out what is infinite")
        if slope == 0 or not math.isfinite(shift + slope):
            return float(shift + slope)
        return Uniform(self.source, shift + slope * self._shift, slope * self._slope)

    def _divided(self, number: Any) -> Any:
        if number == 0:
            return refuse("a uniform divided by 0", "compare u * q with p instead of u with p / q, or leave out q = 0")
        return self._affine(0, 1 / number)

    __lt__ = _elementwise(lambda self, other: self._compare(other, operator.lt))
    __le__ = _elementwise(lambda self, other: self._compare(other, operator.le))
    __gt__ = _elementwise(lambda self, other: self._compare(other, operator.gt))
    __ge__ = _elementwise(lambda self, other: self._compare(other, operator.ge))
    __add__ = __radd__ = _elementwise(lambda self, other: self._affine(exact_number(other), 1))
    __sub__ = _elementwise(lambda self, other: self._affine(-exact_number(other), 1))
    __rsub__ = _elementwise(lambda self, other: self._affine(exact_number(other), -1))
    __mul__ = __rmul__ = _elementwise(lambda self, other: self._affine(0, exact_number(other)))
    __truediv__ = _elementwise(lambda self, other: self._divided(exact_number(other)))

    def __neg__(self) -> Any:
        return self._affine(0, -1)

    def log(self) -> "Noise":
        """The log of u or of 1 - u: an exponential with its sign turned."""
        low, high = sorted((self._shift, self._shift + self._slope))
        if abs(low) > TINY or abs(high - 1) > TINY:
            refuse("the log of a shifted or scaled uniform", f"take the log of u or 1 - u, with no guard above {TINY}")
        if self.source.noisy or self.source.compared:
            refuse("noise from a uniform that was used before", "draw fresh noise for each race")
        self.source.noisy = True
        return Noise(self.source, sign=-1)

    def log1p(self) -> "Noise":
        """The log of 1 + self, as in log1p(-u)."""
        return (self + 1).log()


def _rate(value: Any) -> Any:
    if not math.isfinite(value):
        raise ValueError(f"a race has the weight {value}")
    return value


class Noise(_Symbol):
    """sign * E / rate ("time"), sign * rate / E ("speed"), or sign * (log rate - log E) ("log"), for E exponential with mean 1.

    Only its likes can be compared with it: the winner of a race is drawn with the rates as weights.
    """

    def __init__(self, source: _Source, rate: Any = Fraction(1), form: str = "time", sign: int = 1) -> None:
        self.source, self.rate, self._form, self._sign = source, _rate(rate), form, sign

    def _as(self, rate: Any, form: str | None = None, sign: int = 1) -> "Noise":
        return Noise(self.source, rate, form or self._form, sign * self._sign)

    def _scaled(self, factor: Any, divide: bool) -> "Noise":
        """The product with the factor or, with ``divide``, the quotient."""
        if self._form == "log" or (factor == 0 and (self._form == "time") != divide):
            refuse(f"Gumbel noise times {factor}, or noise that becomes 0 or 0/0", "scale the logits, and add the noise last")
        size, sign = abs(_rate(factor)), -1 if factor < 0 else 1
        return self._as(self.rate * size if (self._form == "time") == divide else self.rate / size, sign=sign)

    def _inverse(self, number: Any = 1) -> "Noise":
        """number / self."""
        if self._form == "log" or not self.rate:
            refuse("a number divided by Gumbel noise or by infinite noise", "form p / e or e / p, once")
        return self._as(self.rate, "speed" if self._form == "time" else "time")._scaled(number, False)

    def _plus(self, number: Any) -> "Noise":
        if self._form == "time" and abs(number) <= TINY:
            return self
        if self._form != "log":
            refuse("exponential noise plus a number", f"compare e / p or p / e, with no guard above {TINY}")
        power = float(number) * self._sign
        if power == -math.inf:
            return self._as(Fraction(0))
        if not power < 700:
            refuse(f"Gumbel noise plus {number}", "shift the logits so that the largest is 0")
        return self._as(self.rate * Fraction(math.exp(power)))

    def _less(self, other: Any, strictly: bool) -> bool:
        if not isinstance(other, Noise) or self._form != other._form:
            refuse("noise against a number, or against noise of another form", "compare p / e, e / p or log p + g with its like")
        if self._sign != other._sign:
            equal = self._form == "speed" and not self.rate and not other.rate  # 0 against -0
            return not strictly if equal else self._sign < other._sign
        first, second = (self, other) if (self._form == "time") == (self._sign > 0) else (other, self)
        return _before(first, second) if strictly else not _before(second, first)

    __lt__ = _elementwise(lambda self, other: self._less(other, True))
    __le__ = _elementwise(lambda self, other: self._less(other, False))
    __gt__ = _elementwise(lambda self, other: not self._less(other, False))
    __ge__ = _elementwise(lambda self, other: not self._less(other, True))
    __add__ = __radd__ = _elementwise(lambda self, other: self._plus(exact_number(other)))
    __sub__ = _elementwise(lambda self, other: self._plus(-exact_number(other)))
    __rsub__ = _elementwise(lambda self, other: (-self)._plus(exact_number(other)))
    __mul__ = __rmul__ = _elementwise(lambda self, other: self._scaled(exact_number(other), False))
    __truediv__ = _elementwise(lambda self, other: self._scaled(exact_number(other), True))
    __rtruediv__ = _elementwise(lambda self, other: self._inverse(exact_number(other)))

    def __neg__(self) -> "Noise":
        return self._as(self.rate, sign=-1)

    def log(self) -> "Noise":
        """Gumbel noise, or its negative, from an exponential."""
        if self._form == "log" or self._sign < 0:
            refuse("the log of negative noise or of Gumbel noise", "form -log(-log u) + log p")
        return self._as(self.rate, "log", -1 if self._form == "time" else 1)

    def exp(self) -> "Noise":
        """An exponential, or 1/E, from Gumbel noise."""
        if self._form != "log":
            refuse("exp of exponential noise", "compare e / p or p / e")
        return Noise(self.source, self.rate, "speed" if self._sign > 0 else "time")


# ---- numpy ------------------------------------------------------------------------------------------------------------


def _fill(chance: Chance, size: Any, number: Callable[[float], float], symbol: Callable[[_Source], Any]) -> Any:
    """An array of random numbers of the given size, or one of them for None: floats where the chance's uniforms are numbers."""
    shape = () if size is None else size
    values = np.empty(shape, dtype=object)
    for index in np.ndindex(values.shape):
        source = _Source(chance)
        concrete = isinstance(source.u, NUMBERS)
        # A uniform such as 1 - 1e-40 rounds to 1, which no generator of floats returns.
        values[index] = number(min(float(source.u), BELOW_ONE)) if concrete else symbol(source)
    if size is None:
        return values[()]
    return values if any(isinstance(value, _Symbol) for value in values.flat) else values.astype(np.float64)


def uniform(chance: Chance, purpose: str) -> Any:
    """One uniform on [0, 1): a number if the chance's are numbers, else a ``Uniform``."""
    source = _Source(chance, purpose)
    return source.u if isinstance(source.u, (*NUMBERS, Uniform)) else Uniform(source)


def uniforms(chance: Chance, size: Any = None) -> Any:
    """Uniforms on [0, 1)."""
    return _fill(chance, size, lambda u: u, Uniform)


def exponentials(chance: Chance, size: Any = None) -> Any:
    """Exponentials with mean 1."""
    return _fill(chance, size, lambda u: -math.log1p(-u), Noise)


def draws(chance: Chance, weights: Array, number: int, replace: bool) -> list[int]:
    """Several draws from exact weights (V,), with or without replacement."""
    drawn: list[int] = []
    for _ in range(number):
        drawn.append(chance.draw(weights, PURPOSE))
        if not replace:
            weights = weights.copy()
            weights[drawn[-1]] = Fraction(0)
    return drawn


class Generator:
    """A chance object in the clothes of ``np.random.Generator``, to be passed to code that takes a generator.

    It has ``random`` (and ``random_sample``, ``rand``), ``uniform``, ``choice``, ``multinomial``, ``exponential``,
    ``standard_exponential`` and ``gumbel``. Anything else raises ``NotFollowedError``.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return refuse(f"numpy's random {name}", f"interception answers {', '.join(METHODS)}")

    def random(self, size: Any = None, dtype: Any = None) -> Any:
        """Uniforms on [0, 1)."""
        return uniforms(self._chance, size)

    random_sample = random

    def rand(self, *shape: int) -> Any:
        """Uniforms on [0, 1), the shape as arguments."""
        return uniforms(self._chance, shape or None)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniforms on [low, high)."""
        u = uniforms(self._chance, size)
        return u if (low, high) == (0, 1) else low + (high - low) * u

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Elements of a, or of range(a), with the laws p. As numpy does, p that doesn't sum to one raises ``ValueError``."""
        items = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        weights = exact_weights([1] * len(items) if p is None else p)
        if len(weights) != len(items) or (p is not None and abs(sum(weights) - 1) > 1e-8):
            raise ValueError(f"choice among {len(items)} needs as many probabilities with sum 1, not {p}")
        shape = () if size is None else size
        drawn = np.empty(shape, dtype=int)
        drawn[...] = np.reshape(draws(self._chance, weights, drawn.size, replace), drawn.shape)
        return items[drawn]

    def multinomial(self, n: int, pvals: Any, size: Any = None) -> Array:
        """Counts (..., V) of n draws each. As numpy does, pvals that sum to more than one raise ``ValueError``."""
        weights = exact_weights(pvals)
        if sum(weights[:-1]) > 1 + 1e-12:
            raise ValueError(f"multinomial needs probabilities with sum 1, not {pvals}")
        weights[-1] = 1 - min(1, sum(weights[:-1]))  # numpy's own reading: the last takes what is left
        shape = () if size is None else tuple(np.atleast_1d(size))
        counts = np.zeros((*shape, len(weights)), dtype=int)
        for index in np.ndindex(shape):
            np.add.at(counts[index], draws(self._chance, weights, n, True), 1)
        return counts

    def standard_exponential(self, size: Any = None, dtype: Any = None) -> Any:
        """Exponentials with mean 1."""
        return exponentials(self._chance, size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponentials with mean ``scale``."""
        return scale * exponentials(self._chance, size)

    def gumbel(self, loc: Any = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        """Gumbel noise."""
        if scale != 1:
            refuse("Gumbel noise with a scale", "divide the logits by the temperature instead")
        return loc - np.log(exponentials(self._chance, size))


METHODS = [name for name in vars(Generator) if not name.startswith("_")]
_HARMLESS = ("seed", "get_state", "set_state")


def generator(chance: Chance) -> Generator:
    """The chance as an object with the methods of ``np.random.Generator``, for code that takes one."""
    return Generator(chance)


@contextmanager
def numpy_calls(chance: Chance) -> Iterator[Generator]:
    """While active, ``np.random``'s functions are answered by the chance; ``default_rng`` and ``RandomState`` give its generator.

    Generators made before, and functions imported by name before (``from numpy.random import rand``), are not seen: pass the
    yielded generator to the code. Functions that interception doesn't answer raise ``NotFollowedError``. Contexts nest,
    the inner chance answering, and all is restored at the end, also after an exception. The patch holds for all threads of
    the process, so run nothing else that draws at the same time.
    """
    ours = Generator(chance)
    known = {name: getattr(ours, name) for name in METHODS}
    known |= dict.fromkeys(("default_rng", "RandomState"), lambda *_, **__: ours)
    names = [n for n in np.random.__all__ if n.islower() and callable(getattr(np.random, n)) and n not in _HARMLESS]
    replaced = {name: getattr(np.random, name) for name in {*names, *(known.keys() & vars(np.random).keys())}}
    try:
        for name in replaced:
            setattr(np.random, name, known[name] if name in known else _refused(ours, name))
        yield ours
    finally:
        for name, function in replaced.items():
            setattr(np.random, name, function)


def _refused(ours: Generator, name: str) -> Callable[..., Any]:
    return lambda *_, **__: getattr(ours, name)


def torch_calls(chance: Chance) -> Any:
    """While active, torch's random functions are answered by the chance: a context manager, for the current thread only.

    Answered are ``rand``, ``rand_like``, ``uniform_``, ``exponential_``, ``multinomial``, ``bernoulli`` and what calls them, such
    as ``torch.distributions.Categorical``; generators are ignored. Other random functions, and operations on random numbers
    that can't be followed, raise ``NotFollowedError``. Compiled and scripted code is not seen. Contexts nest, the inner
    chance answering. Needs torch: ``ImportError`` names the extra.
    """
    try:
        from specdec.conformance import intercept_torch
    except ImportError as error:
        raise ImportError('torch_calls needs torch: pip install -e ".[peers]"') from error
    return intercept_torch.Calls(chance)
