"""Tier 0, all laws: a verification rule runs on symbolic probabilities, so that the verdict holds for every law of a size.

The claim, for one round. Let the rows of target and draft be any laws over V tokens, zeros included: one target row for every
prefix of at most γ tokens, one draft row for every prefix of at most γ - 1, all free of each other. Proposals are drawn from
the draft, the rule emits t, and the target's own law continues t to γ + 1 tokens. The text that results has the target's
law: for each s of γ + 1 tokens, Σ P(t) target(rest of s | t) over the prefixes t of s equals target(s).
One round is enough. A rule keeps nothing between rounds (its signature has no memory), so what follows a round is a round at
another prefix; by induction from the last round backwards any number of rounds, with any γ of those proved, is exact. A rule
that keeps something all the same is noticed only where its questions change from run to run.

How. The rule runs unchanged on rational functions of the free probabilities. Each comparison asks for a sign; the function is
factored, and where the sign of a factor is open the run goes both ways: every path ends with a *guard* (the signs that its
answers need), a weight, and a text. Paths that no law takes are left out (z3). The sum of the weights minus the target's
probability must be zero on every cell of laws. In a cell of full dimension that is an identity of polynomials. On a face,
where the rule asked whether two numbers are equal and they are, the function need only vanish on that face: its remainder
after division by the equalities is zero, or z3 shows that no law of the cell gives another value.

What is trusted: z3's "no such law", sympy's factors, and the arithmetic of polynomials. Not trusted: a refutation. Its laws
are made Fractions and the very rule runs on them under ``chance.law_of``. Where z3 answers neither yes nor no, nothing is left
out and nothing is acquitted. z3 decides cells with its nlsat (Jovanović & de Moura 2012, "Solving Non-Linear Arithmetic"); for
strict and one token Leviathan et al. (2023, appendix A.1) prove the claim by hand.

Needs z3-solver and sympy.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import isinf, prod
from typing import Any, NoReturn

import numpy as np

from specdec.chance import Chance, Interval, Weights, inverse_transform, law_of
from specdec.conformance.exact import distance, find_witness, in_words
from specdec.conformance.guard import BrokenError, described
from specdec.conformance.samplers import token_fault
from specdec.conformance.situations import Law, Text
from specdec.conformance.verdicts import Finding, Verdict, Witness
from specdec.law import Array
from specdec.verification import Verify

SIZES = ((2, 1), (3, 1), (2, 2), (3, 2))
"""(V, γ) that are proved by default. Two tokens or one proposal alone hide some mistakes, so the largest has three and two."""

MAX_CHOICES = 100
"""A round that asks for more random choices than this is not followed any further."""

SOLVER_MS = 3000
"""How long z3 may think about one question before it is taken as open."""

SAMPLE = 4000
"""So many random laws are looked at before z3 is asked."""

Signs = frozenset[int]
Facts = Mapping[int, Signs]
Terms = list[tuple[dict[int, Signs], "Symbol"]]
Laws = Mapping[tuple[str, Text], Sequence[Any]]
ANY = frozenset((-1, 0, 1))


class _StopReading(BaseException):
    """The rule can't be followed. Not an Exception: a rule that catches those must not swallow it."""


class _NoSuchLaws(BaseException):
    """Nothing can happen here: the facts of this path exclude each other."""


# ---- the symbols ------------------------------------------------------------------------------------------------------


class Symbol:
    """A rational function of the free probabilities, ``numerator / Π factor ** power``, reduced; one of these stands in an array.

    Arithmetic with Symbols, ints and Fractions is exact. A comparison asks the run that is under way, which may go both ways.
    It has no float, no int and no hash.
    """

    __slots__ = ("numerator", "powers", "space")
    __hash__ = None  # type: ignore[assignment]  # two functions may be equal at some laws only

    def __init__(self, space: "Space", numerator: Any, powers: Mapping[int, int] | None = None) -> None:
        left = {}
        for factor, power in sorted((powers or {}).items()) if numerator else ():
            while power and (quotient := space.divided(numerator, factor)) is not None:
                numerator, power = quotient, power - 1
            if power:
                left[factor] = power
        self.space, self.numerator, self.powers = space, numerator, left

    @property
    def key(self) -> tuple[Any, tuple[tuple[int, int], ...]]:
        """Equal for equal functions."""
        return self.numerator, tuple(self.powers.items())

    def _other(self, value: Any) -> "Symbol | None":
        if isinstance(value, Symbol):
            return value
        if isinstance(value, float | np.floating):
            raise _StopReading(f"it mixes the laws with the float {value}; exact rules use ints and Fractions")
        if isinstance(value, int | np.integer | Fraction):
            return self.space.constant(value)
        return None

    def _combined(self, other: Any, operation: Callable[["Symbol", "Symbol"], "Symbol"], swapped: bool = False) -> Any:
        """The operation on two Symbols, computed once for each pair: runs repeat each other's beginnings."""
        number = self._other(other)
        if number is None:
            return NotImplemented
        one, two = (number, self) if swapped else (self, number)
        if operation is Symbol._over and two == 0:
            raise ZeroDivisionError("division by a probability, or a sum of them, that is zero")
        key = operation, id(one), id(two)
        if key not in self.space.computed:
            self.space.computed[key] = one, two, operation(one, two)  # with the pair, so that no other takes their ids
        return self.space.computed[key][2]

    def _plus(self, other: "Symbol") -> "Symbol":
        common = {f: max(self.powers.get(f, 0), other.powers.get(f, 0)) for f in {*self.powers, *other.powers}}
        numerator = self.space.ring.zero
        for one in (self, other):
            missing = {f: power - one.powers.get(f, 0) for f, power in common.items() if power > one.powers.get(f, 0)}
            numerator += one.numerator * self.space.expanded(missing) if missing else one.numerator
        return Symbol(self.space, numerator, common)

    def _minus(self, other: "Symbol") -> "Symbol":
        return self._plus(Symbol(self.space, -other.numerator, other.powers))

    def _times(self, other: "Symbol") -> "Symbol":
        powers = {f: self.powers.get(f, 0) + other.powers.get(f, 0) for f in {*self.powers, *other.powers}}
        return Symbol(self.space, self.numerator * other.numerator, powers)

    def _over(self, other: "Symbol") -> "Symbol":
        constant, factors = self.space.factors(other.numerator)
        return self._times(Symbol(self.space, self.space.expanded(other.powers) * (1 / constant), factors))

    def __neg__(self) -> "Symbol":
        return 0 - self

    def __pos__(self) -> "Symbol":
        return self

    def __abs__(self) -> "Symbol":
        return self if self >= 0 else -self

    def __add__(self, other: Any) -> Any:
        return self._combined(other, Symbol._plus)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, Symbol._minus)

    def __rsub__(self, other: Any) -> Any:
        return self._combined(other, Symbol._minus, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._combined(other, Symbol._times)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._combined(other, Symbol._over)

    def __rtruediv__(self, other: Any) -> Any:
        return self._combined(other, Symbol._over, swapped=True)

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, int) or power < 0:
            raise _StopReading(f"it raises a probability to the power {power}: only whole powers are rational functions")
        return prod([self] * power, start=self.space.constant(1))

    def _compared(self, other: Any, wanted: Signs) -> Any:
        if isinstance(other, float) and isinf(other):
            return (-1 if other > 0 else 1) in wanted
        difference = self.__sub__(other)
        return difference if difference is NotImplemented else self.space.run.ask(difference, wanted)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, frozenset((-1,)))

    def __le__(self, other: Any) -> Any:
        return self._compared(other, frozenset((-1, 0)))

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, frozenset((1,)))

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, frozenset((0, 1)))

    def __eq__(self, other: object) -> Any:
        return self._compared(other, frozenset((0,)))

    def __ne__(self, other: object) -> Any:
        return self._compared(other, frozenset((-1, 1)))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def _no_number(self) -> NoReturn:
        raise _StopReading("it turns a probability into a float or an int, which has no symbolic reading")

    __float__ = __int__ = __index__ = _no_number

    def __repr__(self) -> str:
        below = " * ".join(f"({self.space.expanded({f: 1})})**{power}" for f, power in self.powers.items())
        return f"({self.numerator}) / ({below})" if below else str(self.numerator)


# ---- the space of laws ------------------------------------------------------------------------------------------------


class Space:
    """All laws of a size: the free probabilities, the irreducible factors met so far, and what signs they can have together.

    A factor is named by a number. The last token's probability is 1 minus the others', so every row is a law by itself.
    """

    def __init__(self, vocab_size: int, gamma: int, deadline: float) -> None:
        import z3
        from sympy import QQ, ring

        self._z3 = z3
        self.vocab_size, self.gamma, self.deadline = vocab_size, gamma, deadline
        depths = {"target": gamma + 1, "draft": gamma}
        self.rows = [(model, x) for model in depths for n in range(depths[model]) for x in product(range(vocab_size), repeat=n)]
        letters = {"target": "p", "draft": "q"}
        self.names = [f"{letters[m]}{''.join(map(str, x))}_{v}" for m, x in self.rows for v in range(vocab_size - 1)]
        self.ring, *_ = ring(self.names, QQ)
        self.run: Any = None
        self.cells = 0
        self.computed: dict[Any, tuple[Symbol, Symbol, Symbol]] = {}
        self.rows_of: list[set[int]] = []
        self._constants: dict[Any, Symbol] = {}
        self._polynomials: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._factored: dict[Any, tuple[Any, dict[int, int]]] = {}
        self._formulas: dict[Any, Any] = {}
        self._answers: dict[frozenset[tuple[int, Signs]], bool] = {}
        self._base: dict[int, Signs] = {}
        self._sample = self._drawn()
        self._sample_signs: dict[int, Array] = {}
        self.laws = {row: self._law(i) for i, row in enumerate(self.rows)}

    def _law(self, row: int) -> list[Symbol]:
        """The Symbols of a row, each known to be at least 0."""
        free = self.ring.gens[row * (self.vocab_size - 1) : (row + 1) * (self.vocab_size - 1)]
        law = [Symbol(self, value) for value in (*free, sum((-x for x in free), self.ring.one))]
        for value in law:
            constant, factors = self.factors(value.numerator)
            for factor in factors:
                self._base[factor] = frozenset((0, 1)) if constant > 0 else frozenset((-1, 0))
        return law

    def check_time(self) -> None:
        """Stop once the deadline is past."""
        if time.thread_time() > self.deadline:
            raise _StopReading("the time ran out")

    def constant(self, value: Any) -> Symbol:
        """A number as a Symbol, the same for the same number."""
        if value not in self._constants:
            number = Fraction(int(value) if isinstance(value, np.integer) else value)
            self._constants[value] = Symbol(self, self.ring.ground_new(self.ring.domain(number.numerator, number.denominator)))
        return self._constants[value]

    def expanded(self, powers: Mapping[int, int]) -> Any:
        """The product of factors as one polynomial."""
        return prod((self._polynomials[f] ** power for f, power in powers.items()), start=self.ring.one)

    def divided(self, numerator: Any, factor: int) -> Any:
        """numerator / factor, or None where it does not divide."""
        (quotient,), remainder = numerator.div([self._polynomials[factor]])
        return None if remainder else quotient

    def factors(self, numerator: Any) -> tuple[Any, dict[int, int]]:
        """(constant, {factor: power}) of a polynomial that is not 0; sympy's factors, in the variables that occur."""
        if numerator not in self._factored:
            used = sorted({i for monomial in numerator for i, power in enumerate(monomial) if power}) or [0]
            small = self.ring.clone(symbols=[self.ring.symbols[i] for i in used])
            constant, found = small.from_dict({tuple(m[i] for i in used): c for m, c in numerator.items()}).factor_list()
            powers = {}
            for factor, power in found:
                constant *= factor.LC**power
                powers[self._number(factor.monic(), used)] = power
            self._factored[numerator] = constant, powers
        return self._factored[numerator]

    def _number(self, factor: Any, used: Sequence[int]) -> int:
        spread = {}
        for monomial, coefficient in factor.items():
            wide = [0] * self.ring.ngens
            for i, power in zip(used, monomial, strict=True):
                wide[i] = power
            spread[tuple(wide)] = coefficient
        whole = self.ring.from_dict(spread)
        if whole not in self._numbers:
            self._numbers[whole] = len(self._polynomials)
            self._polynomials.append(whole)
            self.rows_of.append({i // (self.vocab_size - 1) for i in used})
        return self._numbers[whole]

    def depth(self, factor: int) -> int:
        """The longest prefix among a factor's rows."""
        return max(len(self.rows[row][1]) for row in self.rows_of[factor])

    def known(self, facts: Facts, factor: int) -> Signs:
        """The signs of a factor that the facts, and its being a probability, leave open."""
        return facts.get(factor, ANY) & self._base.get(factor, ANY)

    def possible(self, facts: Facts, factor: int) -> bool:
        """Whether some laws satisfy the facts, of which those apart from ``factor`` are known to be satisfiable.

        Facts about rows that no chain of facts links with the factor's can't matter. True where z3 does not know.
        """
        self.check_time()
        rows, linked, waiting = set(self.rows_of[factor]), {}, dict(facts)
        while near := [f for f in waiting if rows & self.rows_of[f]]:
            for f in near:
                linked[f] = waiting.pop(f)
                rows |= self.rows_of[f]
        question = frozenset(linked.items())
        if question not in self._answers:
            self._answers[question] = self._sampled(linked) or str(self.solver(linked).check()) != "unsat"
        return self._answers[question]

    def _sampled(self, facts: Facts) -> bool:
        """Whether some of the sample satisfies the facts: most questions are settled so, without z3.

        Floats decide. A yes by mistake would do no harm: it only keeps an empty cell.
        """
        satisfying = np.ones(SAMPLE, dtype=bool)
        for factor, signs in facts.items():
            if factor not in self._sample_signs:
                terms = [float(c) * (self._sample ** np.array(m)).prod(axis=1) for m, c in self._polynomials[factor].items()]
                self._sample_signs[factor] = np.sign(sum(terms))
            satisfying &= np.isin(self._sample_signs[factor], list(signs))
        return bool(satisfying.any())

    def _drawn(self) -> Array:
        """Free probabilities of random laws (SAMPLE, variables) in sixteenths, many of them 0 or alike in target and draft."""
        random = np.random.default_rng(0)
        rows: dict[tuple[str, Text], Array] = {}
        for model, prefix in self.rows:
            weights = random.dirichlet(np.full(self.vocab_size, 0.7), size=SAMPLE)
            row = random.multinomial(16, weights) / 16
            if model == "draft":
                row = np.where(random.random((SAMPLE, 1)) < 0.2, rows["target", prefix], row)
            rows[model, prefix] = row
        return np.concatenate([row[:, :-1] for row in rows.values()], axis=1)

    def open(self, facts: Facts, factor: int, signs: Signs) -> bool:
        """Whether a factor can have one of the signs where the facts, which are satisfiable, hold."""
        known = self.known(facts, factor)
        return bool(known & signs) and (known <= signs or self.possible({**facts, factor: known & signs}, factor))

    def vanishes(self, numerator: Any, facts: Facts) -> bool:
        """Whether a polynomial is 0 wherever the facts hold, because the factors that they say are 0 divide it away."""
        zero = [self._polynomials[f] for f, signs in facts.items() if signs == {0}]
        return not numerator or (bool(zero) and not numerator.rem(zero))

    def solver(self, facts: Facts, also: Iterable[int] = (), least: Fraction = Fraction(0)) -> Any:
        """A z3 solver that knows the facts, and that the rows in them and in the factors ``also`` are laws.

        Their probabilities are ``least`` or more.
        """
        z3 = self._z3
        solver = z3.SolverFor("QF_NRA")
        solver.set("timeout", SOLVER_MS)
        for row in sorted({row for f in (*facts, *also) for row in self.rows_of[f]}):
            if (row, least) not in self._formulas:
                bound = z3.RealVal(str(least))
                self._formulas[row, least] = [self.formula(value.numerator) >= bound for value in self.laws[self.rows[row]]]
            solver.add(self._formulas[row, least])
        for fact in facts.items():
            if fact not in self._formulas:
                value = self.formula(self._polynomials[fact[0]])
                self._formulas[fact] = z3.Or([{-1: value < 0, 0: value == 0, 1: value > 0}[sign] for sign in fact[1]])
            solver.add(self._formulas[fact])
        return solver

    def formula(self, numerator: Any) -> Any:
        """A polynomial in z3's terms."""
        z3 = self._z3
        if numerator not in self._formulas:
            total: Any = z3.RealVal(0)
            for monomial, coefficient in numerator.items():
                term: Any = z3.RealVal(str(coefficient))
                for i, power in enumerate(monomial):
                    for _ in range(power):
                        term = term * z3.Real(self.names[i])
                total = total + term
            self._formulas[numerator] = total
        return self._formulas[numerator]


# ---- one run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Path:
    """What a rule does where the guard holds: it emits ``text`` with probability ``weight``, or ends in a fault."""

    guard: dict[int, Signs]
    weight: Symbol
    text: Text = ()
    fault: str = ""


class Run:
    """One path of a rule, along a script of (branch, branches): the chance that it asks, and the judge of its comparisons.

    ``guard`` is what the answers to its comparisons need. ``facts`` adds what holds wherever the path has weight: each option
    that it took has a probability above 0.
    """

    def __init__(self, space: Space, script: list[tuple[int, int]]) -> None:
        self._space, self._script = space, script
        self._trail: list[tuple[int, int]] = []
        self._positive: list[int] = []
        self.guard: dict[int, Signs] = {}
        self.facts: dict[int, Signs] = {}
        self.weight = space.constant(1)

    def _branch(self, options: list[Any]) -> Any:
        """The script's option, or the first."""
        if not options:
            raise _NoSuchLaws
        self._space.check_time()
        depth = len(self._trail)
        if depth > MAX_CHOICES:
            raise _StopReading(f"a round asks for more than {MAX_CHOICES} decisions")
        branch, number = self._script[depth] if depth < len(self._script) else (0, len(options))
        if number != len(options):
            raise _StopReading("it asked for other choices than in its last run: it keeps something, or has chance of its own")
        self._trail.append((branch, number))
        return options[branch]

    def next_script(self) -> list[tuple[int, int]] | None:
        """The script of the path after this one."""
        trail = list(self._trail)
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        return [*trail[:-1], (trail[-1][0] + 1, trail[-1][1])] if trail else None

    def _learnt(self, factor: int, signs: Signs) -> dict[int, Signs]:
        return {**self.facts, factor: self._space.known(self.facts, factor) & signs}

    # -- comparisons

    def ask(self, value: Symbol, wanted: Signs) -> bool:
        """Whether the sign of ``value`` is one of those wanted. Where that is open, the run goes both ways."""
        while (answer := self._answer(value, wanted)) is None:
            factor, groups = self._question(value, wanted)
            left = [group for group in groups if self._space.open(self.facts, factor, group)]
            if len(left) == 1:
                self.facts = self._learnt(factor, left[0])
                continue
            group = self._branch(left)
            self.facts = self._learnt(factor, group)
            self.guard[factor] = self.guard.get(factor, ANY) & group
        return answer

    def _signs(self, value: Symbol) -> tuple[int, dict[int, Signs]]:
        """The constant's sign, and the signs of each factor as it enters the product."""
        constant, factors = self._space.factors(value.numerator)
        powers = {**factors, **value.powers}
        return (1 if constant > 0 else -1), {
            f: frozenset(sign**power for sign in self._space.known(self.facts, f)) for f, power in powers.items()
        }

    def _answer(self, value: Symbol, wanted: Signs) -> bool | None:
        if not value.numerator:
            return 0 in wanted
        constant, signs = self._signs(value)
        possible = {constant}
        for each in signs.values():
            possible = {a * b for a in possible for b in each}
        return True if possible <= wanted else False if not possible & wanted else None

    def _question(self, value: Symbol, wanted: Signs) -> tuple[int, list[Signs]]:
        """A factor whose sign is open, and its signs in groups: by the answer where it alone is open, else one by one."""
        constant, signs = self._signs(value)
        undecided = [f for f, each in signs.items() if len(each) > 1]
        factor = undecided[0]
        if len(undecided) > 1:
            return factor, [frozenset((sign,)) for sign in sorted(ANY)]
        rest = constant * prod(next(iter(each)) for f, each in signs.items() if f != factor)
        power = {**self._space.factors(value.numerator)[1], **value.powers}[factor]
        yes = frozenset(sign for sign in ANY if rest * sign**power in wanted)
        return factor, [yes, ANY - yes]

    # -- chance

    def uniform(self, purpose: str) -> Interval:
        """An interval that comparisons split, as under ``chance.law_of``."""
        return Interval(self)  # type: ignore[arg-type]  # it needs ``choose`` alone

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        """Both ways, each with its weight. A probability outside [0, 1] raises, as any chance does."""
        if not 0 <= probability <= 1:
            raise ValueError("an acceptance probability is not in [0, 1]")
        return bool(u < probability) if u is not None else self.choose([(True, probability), (False, 1 - probability)])

    def draw(self, weights: Array | Weights, purpose: str, u: Any = None) -> int:
        """Every index that has any weight. Bad weights raise, as with any chance."""
        if u is not None:
            return inverse_transform(weights, u)
        values = list(weights.values if isinstance(weights, Weights) else weights)
        total = sum(values, start=self._space.constant(0))
        if any(value < 0 for value in values) or not total > 0:
            raise ValueError("weights must be non-negative and not all zero")
        return self.choose([(index, value / total) for index, value in enumerate(values)])

    def choose(self, options: list[tuple[Any, Any]]) -> Any:
        """One of (value, probability), and from here on its probability is above 0. No option is asked whether it is."""
        possible = []
        for value, probability in options:
            weight = self._space.constant(1) * probability
            if self._answer(weight, frozenset((0,))) is True:
                continue
            facts = self._with_weight(weight)
            if facts is not None:
                possible.append((value, weight, facts))
        value, weight, facts = self._branch(possible)
        self._positive += [f for f in facts if facts[f] != self.facts.get(f)]
        self.facts = facts
        self.weight = self.weight * weight
        return value

    def _with_weight(self, weight: Symbol) -> dict[int, Signs] | None:
        """The facts where ``weight`` is above 0; None where it never is."""
        before, factors = self.facts, self._space.factors(weight.numerator)[1]
        try:
            for factor in factors:
                if not self._space.open(self.facts, factor, ANY - {0}):
                    return None
                self.facts = self._learnt(factor, ANY - {0})
            constant, signs = self._signs(weight)
            undecided = [f for f, each in signs.items() if len(each) > 1]
            if len(undecided) == 1 and undecided[0] in factors:
                rest = constant * prod(next(iter(each)) for f, each in signs.items() if f != undecided[0])
                if not self._space.open(self.facts, undecided[0], frozenset((rest,))):
                    return None
                self.facts = self._learnt(undecided[0], frozenset((rest,)))
            return self.facts
        finally:
            self.facts = before

    def region(self) -> dict[int, Signs]:
        """The guard, and those of the facts without which the weight would not be the path's.

        A fact "this option has a probability above 0" may go where its failing makes the weight 0 anyway, as it should: its
        factor divides the weight's numerator, and no denominator can vanish. Else it stays.
        """
        space, region = self._space, dict(self.guard)
        divides = space.factors(self.weight.numerator)[1]
        for f in self._positive:
            if f not in divides and space.open(region, f, ANY - self.facts[f]):
                region[f] = self.facts[f]
        if any(space.open(region, f, frozenset((0,))) for f in self.weight.powers):
            region.update((f, self.facts[f]) for f in self._positive)
        return region


def paths(space: Space, verify: Verify) -> list[tuple[Text, Path]]:
    """Every path of one round: (proposals, what the rule does). Laws at which two paths have weight share it."""
    found: list[tuple[Text, Path]] = []
    script: list[tuple[int, int]] | None = []
    while script is not None:
        space.run = run = Run(space, script)
        try:
            proposals = proposed(space.laws, space.gamma, run)
            found.append((proposals, _followed(space, verify, proposals, run)))
        except _NoSuchLaws:
            pass
        script = run.next_script()
    return found


def _followed(space: Space, verify: Verify, proposals: Text, run: Run) -> Path:
    try:
        text = emitted(verify, space.laws, proposals, run)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, BrokenError) and error.__cause__ else error
        if isinstance(cause, TypeError | AttributeError | NotImplementedError):
            raise _StopReading(f"on symbols it raises {described(cause)}") from error
        return Path(run.facts, run.weight, fault=_said(error))
    return Path(run.region(), run.weight, text)


def _said(error: Exception) -> str:
    """A fault in words; what the kit itself has put into words stays as it is."""
    return str(error) if isinstance(error, BrokenError) else f"it raised {described(error)}"


def emitted(verify: Verify, laws: Laws, proposals: Text, chance: Any, kind: type = object) -> Text:
    """The round's tokens at the rows of the proposals; ``BrokenError`` where they are no text of at most γ + 1 tokens."""
    gamma, vocab_size = len(proposals), len(laws["target", ()])
    target: Array = np.array([laws["target", proposals[:i]] for i in range(gamma + 1)], dtype=kind)
    draft: Array = np.array([laws["draft", proposals[:i]] for i in range(gamma)], dtype=kind).reshape(gamma, vocab_size)
    round_: Any = verify(target, draft, proposals, chance)
    tokens = getattr(round_, "tokens", round_)
    if fault := token_fault(tokens, vocab_size):
        raise BrokenError(f"it emitted {fault}")
    if not 1 <= len(tokens) <= gamma + 1:
        raise BrokenError(f"it emitted {len(tokens)} tokens: {gamma} proposals have rows for 1 to {gamma + 1}")
    return tuple(int(token) for token in tokens)


def proposed(laws: Laws, gamma: int, chance: Chance, kind: type = object) -> Text:
    """Proposals drawn from the draft's rows."""
    proposals: Text = ()
    for _ in range(gamma):
        proposals = (*proposals, chance.draw(np.array(laws["draft", proposals], dtype=kind), "propose"))
    return proposals


# ---- sums over cells --------------------------------------------------------------------------------------------------


def total(space: Space, terms: Terms, cell: Facts) -> Terms:
    """The sum of guarded terms on a cell, as disjoint guarded terms; laws that no guard holds have the sum 0.

    Each open factor splits the cell, those of short prefixes first; where the sum is one function on all parts, the split is
    undone. So rows that do not matter to the sum leave no cells behind.
    """
    alive = []
    for guard, value in terms:
        left = {f: signs for f, signs in guard.items() if not space.known(cell, f) <= signs}
        if all(space.known(cell, f) & signs for f, signs in left.items()):
            alive.append((left, value))
    undecided = {f for guard, _ in alive for f in guard}
    if not undecided:
        space.cells += 1
        value = sum((value for _, value in alive), start=space.constant(0))
        return [({}, value)] if value.numerator else []
    factor = min(undecided, key=lambda f: (space.depth(f), f))
    parts: dict[Any, set[int]] = defaultdict(set)
    for sign in space.known(cell, factor):
        parts[tuple(sign in guard.get(factor, ANY) for guard, _ in alive)].add(sign)
    merged: list[tuple[Signs, Terms]] = []
    for part in sorted(map(frozenset, parts.values()), key=lambda part: part == {0}):  # the face last
        if space.open(cell, factor, part):
            inside = {**cell, factor: part}
            terms = total(space, alive, inside)
            same = next((i for i, (_, others) in enumerate(merged) if _agree(space, inside, terms, others)), None)
            if same is None:
                merged.append((part, terms))
            else:
                merged[same] = merged[same][0] | part, merged[same][1]
    if len(merged) == 1:
        return merged[0][1]
    return [({**guard, factor: signs}, value) for signs, terms in merged for guard, value in terms]


def _agree(space: Space, cell: Facts, terms: Terms, others: Terms) -> bool:
    """Whether the others' functions are defined on the cell, and equal to the terms' there."""
    if [guard for guard, _ in terms] != [guard for guard, _ in others]:
        return False
    for (guard, one), (_, other) in zip(terms, others, strict=True):
        facts = {**cell, **guard}
        if any(space.open(facts, f, frozenset((0,))) for f in other.powers if f not in one.powers):
            return False
        if one.key != other.key and not space.vanishes((one - other).numerator, facts):
            return False
    return True


def emission(space: Space, found: Sequence[tuple[Text, Path]], text: Text) -> Terms:
    """The probability that a round emits exactly ``text``, summed over the proposals, the last proposal first."""
    groups: dict[Text, Terms] = defaultdict(list)
    for proposals, path in found:
        if path.text == text:
            groups[proposals].append((path.guard, path.weight))
    for length in range(space.gamma, -1, -1):
        shorter: dict[Text, Terms] = defaultdict(list)
        for proposals, terms in groups.items():
            shorter[proposals[: length - 1] if length else ()] += total(space, terms, {})
        groups = shorter
    return groups[()]


def differences(space: Space, found: Sequence[tuple[Text, Path]]) -> Iterable[tuple[Text, Terms]]:
    """For each text of γ + 1 tokens: its probability under the rule minus the target's, as guarded terms.

    The longest emissions come first: with them the conditions on the last rows cancel.
    """
    emissions: dict[Text, Terms] = {}
    for text in product(range(space.vocab_size), repeat=space.gamma + 1):
        factors = [space.laws["target", text[:i]][token] for i, token in enumerate(text)]
        terms: Terms = []
        for length in range(len(text), 0, -1):
            if text[:length] not in emissions:
                emissions[text[:length]] = emission(space, found, text[:length])
            rest = prod(factors[length:], start=space.constant(1))
            more = [(guard, value * rest) for guard, value in emissions[text[:length]]]
            terms = total(space, terms + more, {})
        yield text, total(space, [*terms, ({}, -prod(factors, start=space.constant(1)))], {})


# ---- verdicts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """What was shown at one size: PROVED, LOSSY, BROKEN, or None where nothing was, for the reason that ``says`` gives.

    ``laws``: the rows of the witness, {("target" or "draft", prefix): probabilities}. ``distance``: the total variation there.
    ``texts``: the identities shown; ``cells``: the parts that sums were taken on.
    """

    vocab_size: int
    gamma: int
    verdict: Verdict | None
    says: str
    laws: Laws | None = None
    witness: Witness | None = None
    distance: Any = None
    texts: int = 0
    cells: int = 0
    seconds: float = 0.0

    @property
    def finding(self) -> Finding | None:
        """The kit's finding; None where nothing was shown."""
        where = f"V = {self.vocab_size}, γ = {self.gamma}"
        if self.verdict is None:
            return None
        return Finding("all laws", where, self.verdict, self.says, self.witness, self.distance, self.seconds)


def prove(verify: Verify, vocab_size: int, gamma: int, *, seconds: float = 120) -> Proof:
    """Judge a rule for all laws over ``vocab_size`` tokens with ``gamma`` proposals, in about so many seconds of CPU time.

    ``ValueError`` for sizes without a question.
    """
    if vocab_size < 2 or gamma < 0:
        raise ValueError(f"V = {vocab_size}, γ = {gamma}: a law needs at least two tokens, and γ is at least 0")
    began = time.thread_time()  # a loaded machine is slow, and no verdict should depend on that
    try:
        space = Space(vocab_size, gamma, began + seconds)
    except ModuleNotFoundError as error:
        return Proof(vocab_size, gamma, None, f"{error.name} is not installed: it needs z3-solver and sympy")
    try:
        proof = _judged(space, verify)
    except _StopReading as stop:
        proof = Proof(vocab_size, gamma, None, str(stop))
    return replace(proof, cells=space.cells, seconds=time.thread_time() - began)


def prove_sizes(verify: Verify, sizes: Iterable[tuple[int, int]] = SIZES, *, seconds: float = 120) -> list[Proof]:
    """``prove`` at each (V, γ), with so many seconds each, up to the first accusation."""
    proofs = []
    for vocab_size, gamma in sizes:
        proofs.append(prove(verify, vocab_size, gamma, seconds=seconds))
        if proofs[-1].verdict not in (None, Verdict.PROVED):
            break
    return proofs


def _judged(space: Space, verify: Verify) -> Proof:
    """The verdict: of a fault if there is one, else of the first text that has another probability than the target's."""
    size, texts, doubts = (space.vocab_size, space.gamma), 0, ""
    found = paths(space, verify)
    for fault, region in [(path.fault, path.guard) for _, path in found if path.fault]:
        for laws in some_laws(space, region) or ():
            if said := _raised(verify, space.gamma, laws):
                return Proof(*size, Verdict.BROKEN, said, laws)
        doubts = f"at some laws {fault}, but no such laws were found whose floats do the same"
    if doubts:
        return Proof(*size, None, doubts)
    for text, terms in differences(space, found):
        for region, value in terms:
            if space.vanishes(value.numerator, region) or (candidates := some_laws(space, region, value)) is None:
                continue
            for laws in candidates:
                if proof := _refuted(verify, space, laws):
                    return proof
            doubts = f"the text {text} is open: z3 decided neither that its probability is right nor found rational laws"
        texts += 1
    if doubts:
        return Proof(*size, None, doubts)
    says = f"one round has the target's law, whatever the {len(space.names)} free probabilities: {texts} identities"
    return Proof(*size, Verdict.PROVED, says, texts=texts)


def some_laws(space: Space, region: Facts, value: Symbol | None = None) -> list[Laws] | None:
    """Rational laws in or near a region, where ``value`` is not 0; None where z3 shows that there are none.

    Laws away from 0 first, and numbers with small denominators first: whoever uses them checks them, so they may lie near by.
    """
    for least in (Fraction(1, 10), Fraction(1, 100), Fraction(0)):
        also = space.factors(value.numerator)[1] if value is not None else ()
        solver = space.solver(region, also, least)
        if value is not None:
            solver.add(space.formula(value.numerator) != 0)
        answer = str(solver.check())
        if answer == "sat":
            model = solver.model()
            point = {str(name): _fraction(model[name]) for name in model.decls()}
            rounded = [{name: x.limit_denominator(d) for name, x in point.items()} for d in (10, 100, 10**4, 10**12)]
            return [laws for each in (*rounded, point) if (laws := _laws_at(space, each))]
    return None if answer == "unsat" else []


def _fraction(value: Any) -> Fraction:
    """z3's number, to twenty digits where it is irrational."""
    exact = value if hasattr(value, "as_fraction") else value.approx(20)
    return Fraction(int(exact.numerator_as_long()), int(exact.denominator_as_long()))


def _laws_at(space: Space, point: Mapping[str, Fraction]) -> Laws | None:
    """The rows at a point; rows that it does not name are even. None where a last probability falls below 0."""
    laws, even = {}, Fraction(1, space.vocab_size)
    for i, row in enumerate(space.rows):
        names = space.names[i * (space.vocab_size - 1) : (i + 1) * (space.vocab_size - 1)]
        known = any(name in point for name in names)
        free = [point.get(name, Fraction(0) if known else even) for name in names]
        laws[row] = (*free, 1 - sum(free))
    return laws if all(x >= 0 for law in laws.values() for x in law) else None


def _round(verify: Verify, laws: Laws, gamma: int, kind: type) -> dict[Text, Any]:
    """The law of one round's tokens, enumerated at given laws by the very rule."""

    def once(chance: Chance) -> Text:
        return emitted(verify, laws, proposed(laws, gamma, chance, kind), chance, kind)

    return law_of(once)


def _raised(verify: Verify, gamma: int, laws: Laws) -> str:
    """What the rule does wrong at given laws, on Fractions and on floats alike; empty where it returns a text on either."""
    said = ""
    for kind in (object, np.float64):
        try:
            _round(verify, laws, gamma, kind)
            return ""
        except Exception as error:
            said = said or _said(error)
    return f"{said}, at {shown(laws)}"


def _refuted(verify: Verify, space: Space, laws: Laws) -> Proof | None:
    """LOSSY, if the rule's law at given laws, enumerated, is not the target's."""
    try:
        round_ = _round(verify, laws, space.gamma, object)
    except Exception:
        return None  # rounded onto a face where the rule raises: not the difference that is looked for
    expected: Law = {}
    found: Law = {}
    for text in product(range(space.vocab_size), repeat=space.gamma + 1):
        factors = [laws["target", text[:i]][token] for i, token in enumerate(text)]
        expected[text] = prod(factors)
        found[text] = sum(round_.get(text[:n], 0) * prod(factors[n:]) for n in range(1, len(text) + 1))
    gap = distance(found, expected)
    if not gap:
        return None
    witness = find_witness(found, expected)
    says = f"{in_words(witness)}, at {shown(laws)}"
    return Proof(space.vocab_size, space.gamma, Verdict.LOSSY, says, laws, witness, gap)


def shown(laws: Laws) -> str:
    """Laws in words: each row behind the model's name and the prefix; even rows behind a token are left out."""
    rows = [
        f"{model} {' '.join(map(str, ('after', *prefix))) + ' ' if prefix else ''}({', '.join(map(str, law))})"
        for (model, prefix), law in laws.items()
        if not prefix or len(set(law)) > 1
    ]
    return "; ".join(rows) + ("; the other rows are even" if len(rows) < len(laws) else "")
