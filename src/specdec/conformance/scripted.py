"""Tier 2, scripted uniforms: a round is a function of its uniforms, and its law is read off that function, not sampled.

A *run* is a callable ``run(uniforms: Script) -> emitted tokens``, deterministic in the uniforms that it takes. ``recover`` finds
the cells on which its tokens are constant, ``probe`` goes to the cells' boundaries, ``race`` does the same for samplers that let
weights race on noise, and ``test`` asks all of it of a round in some small situations.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from specdec.chance import Weights, inverse_transform
from specdec.conformance.catalogue import CHAIN, forgetful
from specdec.conformance.exact import distance, find_witness, in_words
from specdec.conformance.guard import BrokenError, OutOfReachError, blamed, time_limit
from specdec.conformance.samplers import token_fault
from specdec.conformance.situations import Law, Text
from specdec.conformance.verdicts import Finding, Verdict, Witness
from specdec.law import Array, positive_part
from specdec.models import abc_machine
from specdec.models.table import Table, text_law
from specdec.verification import Verify, block

UNIFORMS = 10_000
"""A round that takes more never ends."""
RUNS = 20_000
"""More runs are not spent on the cells of one round: those of a sampler by inverse transform need a few hundred."""
CHECKS = 64
"""Scripts on which the recovered cells must foretell the tokens."""
EFFORTS = ((16, 4), (128, 16))
"""(equal steps that each uniform is looked at in, sets of later uniforms): the second where the first missed a cell."""
SNAP = 16
"""Steps of the uniforms' grid by which rounding may shift a threshold. Within them a breakpoint is read as the threshold."""
TOLERANCE = 1e-6
"""Total variation put down to rounding: code that computes in float32 on float64 uniforms stays below."""
SAMPLES, FALSE_ALARM = 4096, 1e-9
"""Scripts where the cells are no boxes, and the probability that a lossless sampler is then accused in one situation."""


# ---- uniforms that were written beforehand ---------------------------------------------------------------------------------


class Script:
    """Uniforms in a written order, for any reader, and the count ``used`` of those it took.

    A generator's ``random()`` or ``random(size)``, an iterator's ``next``, or a chance object's ``uniform``, ``accept`` and
    ``draw``: each takes the next ones. Behind ``head`` those of ``tail`` follow, again and again.
    """

    def __init__(self, head: Sequence[float], tail: Sequence[float]) -> None:
        self._head, self._tail, self.used = head, tail, 0

    def __iter__(self) -> Iterator[float]:
        return self

    def __next__(self) -> float:
        if self.used == UNIFORMS:
            raise BrokenError(f"it never ends: more than {UNIFORMS} uniforms in one round")
        self.used += 1
        return self._at(self.used - 1)

    def _at(self, index: int) -> float:
        behind = index - len(self._head)
        return self._head[index] if behind < 0 else self._tail[behind % len(self._tail)]

    @property
    def taken(self) -> tuple[float, ...]:
        """The uniforms that were taken."""
        return tuple(map(self._at, range(self.used)))

    def random(self, size: Any = None) -> Any:
        """One uniform, or a float64 array of the given size."""
        if size is None:
            return next(self)
        return np.array([next(self) for _ in range(math.prod(np.atleast_1d(size).tolist()))]).reshape(size)

    def uniform(self, purpose: str) -> float:
        """One uniform, whatever for."""
        return next(self)

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        """u < probability."""
        return bool((next(self) if u is None else u) < probability)

    def draw(self, weights: Array | Weights, purpose: str, u: Any = None) -> int:
        """By inverse transform of u."""
        return inverse_transform(weights, next(self) if u is None else u)


Run = Callable[[Script], Sequence[int]]
OnUniforms = Callable[[Array, Array, Text, Script], Sequence[int]]


def _bits(dtype: Any) -> int:
    """Uniforms of a float type are multiples of 2 ** -bits: 53 for float64, 24 for float32."""
    return int(np.finfo(dtype).nmant) + 1


@cache
def _tails(bits: int) -> tuple[tuple[float, ...], ...]:
    """Uniforms for what comes behind: the same on every call, since two runs are compared.

    All small, all large and the two in turn go where few random ones do: behind a block that is accepted whole, say.
    """
    steps = np.random.default_rng(2).integers(0, 2**bits, (CHECKS, 64)) * 2.0**-bits
    small, large = 2.0**-10, 1 - 2.0**-10
    steps[1], steps[2], steps[4, ::2], steps[4, 1::2], steps[5, ::2], steps[5, 1::2] = small, large, small, large, large, small
    return tuple(map(tuple, steps.tolist()))


# ---- the law, from the cells' lengths ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """What one uniform decides, given those of ``head``: child i from ``edges[i]`` to ``edges[i + 1]``, as seen at ``inside[i]``.

    A child is the cells of the next uniform, or the emitted tokens where no further one matters.
    """

    head: tuple[float, ...]
    edges: tuple[Fraction, ...]
    inside: tuple[float, ...]
    children: "tuple[Cells | Text, ...]"

    def law(self) -> Law:
        """{tokens: probability}: lengths of cells, multiplied along each path."""
        law: Law = defaultdict(Fraction)
        for (low, high), child in zip(pairwise(self.edges), self.children, strict=True):
            for tokens, weight in law_of_cells(child).items():
                law[tokens] += (high - low) * weight
        return dict(law)

    def foretell(self, uniforms: Sequence[float]) -> Text:
        """The tokens of the cell that holds these uniforms."""
        last = sum(uniforms[0] >= edge for edge in self.edges[1:-1])
        child = self.children[last]
        return child.foretell(uniforms[1:]) if isinstance(child, Cells) else child

    def __str__(self) -> str:
        cells = zip(pairwise(self.edges), self.children, strict=True)
        return ", ".join(f"[{_edge(low)}, {_edge(high)}) gives {_either(child)}" for (low, high), child in cells)

    def all(self) -> "Iterator[Cells]":
        """These cells and all those behind them."""
        yield self
        for child in self.children:
            if isinstance(child, Cells):
                yield from child.all()

    def settled(self) -> list[tuple[float, ...]]:
        """The uniforms behind which the tokens are settled, one for each cell that ends in tokens."""
        found = []
        for cells in self.all():
            pairs = zip(cells.inside, cells.children, strict=True)
            found += [(*cells.head, u) for u, child in pairs if not isinstance(child, Cells)]
        return found


def law_of_cells(found: Cells | Text) -> Law:
    """{tokens: probability} of what ``recover`` found."""
    return found.law() if isinstance(found, Cells) else {found: Fraction(1)}


def _either(child: Cells | Text) -> str:
    """The tokens that may follow."""
    return " or ".join(" ".join(map(str, tokens)) for tokens in sorted(law_of_cells(child)))


def _edge(edge: Fraction) -> str:
    """As a fraction where that is short."""
    return str(edge) if edge.denominator <= 10_000 else f"{float(edge):.10f}"


def recover(run: Run, thresholds: Sequence[Any], vocab_size: int, dtype: Any = np.float64) -> Cells | Text:
    """The cells of a run; ``.law()`` of them is its law {tokens: Fraction}. Tokens alone if it takes no uniform.

    Each uniform in turn is looked at between all ``thresholds`` (numbers in (0, 1) at which it may decide, see ``thresholds``)
    and in 16 equal steps, and bisected to the last bit of ``dtype`` where two neighbours differ. They differ if the tokens do, or
    the number of uniforms taken, for one of 4 sets of later uniforms. So a cell can be missed if it ends at no threshold and is
    narrower than 1/16, or if only a later decision that none of the 4 sets reaches tells it from its neighbour. The cells must
    then foretell the tokens of 64 scripts; if they don't, it starts again with 128 steps and 16 sets.

    A breakpoint within SNAP steps of a threshold is read as it. Else it is read as a fraction with a denominator of at most
    10,000 (22 for float32) where one is as near, which by chance fewer than one number in 1,000 is; either moves it by less than
    rounding may. Other breakpoints stay multiples of the last bit.

    Raises ``BrokenError`` if the run raises or returns no tokens below ``vocab_size``, and ``OutOfReachError`` if the tokens are
    not constant on boxes (a race on uniforms, say) or take more than RUNS runs.
    """
    for steps, sets in EFFORTS:
        search = _Search(run, thresholds, vocab_size, _bits(dtype), steps, sets)
        found = search.below(())
        if all(search.agrees(found, script) for script in _tails(search.bits)[:CHECKS]):
            return found
    raise OutOfReachError("the cells of a uniform move with an earlier one, or are too thin")


class _Search:
    """One attempt at the cells of a run. Places of a uniform are counted in steps of its grid."""

    def __init__(self, run: Run, thresholds: Sequence[Any], vocab_size: int, bits: int, steps: int, sets: int) -> None:
        self.run, self.vocab_size, self.bits, self.runs = run, vocab_size, bits, 0
        self.tails = _tails(bits)[:sets]
        self.thresholds = sorted({Fraction(t) for t in thresholds if 0 < t < 1})
        edges = sorted({0, 2**bits, *map(self.place, self.thresholds), *(2**bits * i // steps for i in range(1, steps))})
        self.places = [(low + high) // 2 for low, high in pairwise(edges) if high - low > 2 * SNAP]
        self.denominator = min(10_000, math.isqrt(2 ** (bits - 15)))

    def place(self, number: Fraction) -> int:
        return int(number * 2**self.bits)

    def uniform(self, place: int) -> float:
        return place * 2.0**-self.bits

    def below(self, head: tuple[float, ...]) -> Cells | Text:
        """What is decided behind the uniforms of ``head``."""
        tokens, used = self.outcome(head, self.tails[0])
        if used <= len(head) or self.settled(head, tokens):
            return tokens
        edges = (Fraction(0), *self.breakpoints(head), Fraction(1))
        inside = tuple(self.uniform(self.place(low + (high - low) * Fraction(3, 8))) for low, high in pairwise(edges))
        return Cells(head, edges, inside, tuple(self.below((*head, u)) for u in inside))

    def settled(self, head: tuple[float, ...], tokens: Text) -> bool:
        """Whether all later uniforms are idle: put on each place together, and on each set, they give the same tokens."""
        rest = (*self.tails[1:], *((self.uniform(place),) for place in self.places))
        return all(self.outcome(head, tail)[0] == tokens for tail in rest)

    def outcome(self, head: tuple[float, ...], tail: Sequence[float]) -> tuple[Text, int]:
        self.runs += 1
        if self.runs > RUNS:
            raise OutOfReachError(f"the cells of its uniforms are not found in {RUNS} runs")
        return _outcome(self.run, Script(head, tail), self.vocab_size)

    def agrees(self, found: Cells | Text, uniforms: Sequence[float]) -> bool:
        foretold = found.foretell(uniforms) if isinstance(found, Cells) else found
        return foretold == self.outcome((), uniforms)[0]

    def signature(self, head: tuple[float, ...], place: int) -> tuple[Text, ...]:
        """The tokens with each set of later uniforms; a single one where no later uniform is taken."""
        head = (*head, self.uniform(place))
        first, used = self.outcome(head, self.tails[0])
        return (first,) if used <= len(head) else (first, *(self.outcome(head, tail)[0] for tail in self.tails[1:]))

    def breakpoints(self, head: tuple[float, ...]) -> list[Fraction]:
        """Where the signature changes, in order."""
        seen = [(place, self.signature(head, place)) for place in self.places]
        found: list[Fraction] = []
        for left, right in pairwise(seen):
            for edge in self.between(partial(self.signature, head), left, right):
                if (edge - (found[-1] if found else 0)) * 2**self.bits > 4 * SNAP:  # a sliver is rounding
                    found.append(edge)
        return found

    def between(self, signature: Callable[[int], Any], left: tuple[int, Any], right: tuple[int, Any]) -> list[Fraction]:
        """The breakpoints between two places with their signatures: the threshold there, or by bisection."""
        if left[1] == right[1]:
            return []
        for threshold in self.thresholds:
            low, high = self.place(threshold) - SNAP, self.place(threshold) + SNAP
            if left[0] <= low and high <= right[0] and (signature(low), signature(high)) == (left[1], right[1]):
                return [threshold]
        if right[0] - left[0] == 1:
            exactly = Fraction(right[0], 2**self.bits)
            simple = exactly.limit_denominator(self.denominator)
            return [simple if abs(simple - exactly) * 2**self.bits <= SNAP else exactly]
        middle = (left[0] + right[0]) // 2
        halfway = middle, signature(middle)
        return self.between(signature, left, halfway) + self.between(signature, halfway, right)


def _outcome(run: Run, script: Script, vocab_size: int) -> tuple[Text, int]:
    """The tokens and the number of uniforms taken; ``BrokenError`` with the uniforms if the run raised or returned no tokens."""
    try:
        with blamed():
            tokens = run(script)
    except BrokenError as error:
        raise BrokenError(f"{error}{_with(script)}") from error
    fault = token_fault(tokens, vocab_size) or (None if len(tokens) else "no token")
    if fault:
        raise BrokenError(f"it emitted {fault}{_with(script)}")
    return tuple(map(int, tokens)), script.used


def _with(script: Script) -> str:
    """The uniforms that were taken, unless they never end."""
    return f", with uniforms {list(script.taken)}" if script.used < UNIFORMS else ""


# ---- the boundaries -----------------------------------------------------------------------------------------------------------


def thresholds(target: Array, draft: Array, proposals: Sequence[int]) -> list[Any]:
    """The numbers in (0, 1) at which a uniform may decide, in any of the rules; exact or float, as the rows are.

    p/q, r and h at the proposals, and the running sums of every row of p, of q and of (r p - q)+, strict's r = 1 included.
    """
    r = block.ratios(target, draft, proposals)
    found = [p[x] / q[x] for p, q, x in zip(target, draft, proposals, strict=False)]
    found += [*r, *block.acceptances(target, draft, r)]
    for weights in _drawn_from(target, draft, r):
        sums = np.add.accumulate(weights)
        found += [t for s in sums if sums[-1] for t in (s, s / sums[-1])]
    return sorted({t for t in found if 0 < t < 1})


def _drawn_from(target: Array, draft: Array, r: Sequence[Any]) -> list[Array]:
    """The weights from which any of the rules may draw."""
    rows = zip(target, draft, r, strict=False)
    return [*target, *draft, *(positive_part(scale * p, q) for p, q, ratio in rows for scale in {1, ratio})]


def boundaries(numbers: Sequence[Any], dtype: Any = np.float64) -> list[float]:
    """0, the largest uniforms of ``dtype`` and of float32 below 1, and each number with its two neighbours in ``dtype``."""
    kind, least = np.dtype(dtype).type, 2.0 ** -_bits(dtype)
    at = {kind(float(t)) for t in (*numbers, 0, 1, 1 - 2.0**-24)}
    around = {float(u) for t in at for u in (t, np.nextafter(t, kind(0)), np.nextafter(t, kind(1)))}
    return sorted(u for u in around if u == 0 or least <= u < 1)


@dataclass(frozen=True)
class Fault:
    """What went wrong at a boundary, with which uniforms, and the tokens up to an impossible one (none: it is no text at all)."""

    says: str
    uniforms: tuple[float, ...]
    tokens: Text = ()


def probe(
    run: Run,
    numbers: Sequence[Any],
    vocab_size: int,
    impossible: Callable[[Text], bool],
    found: Cells | Text | None = None,
    dtype: Any = np.float64,
) -> list[Fault]:
    """Put each uniform on each of ``boundaries(numbers)`` in turn and list what can't be right there.

    That is a token of target probability 0 (``impossible(tokens)`` says whether the last of some tokens is), an index outside
    the vocabulary, no token, or an exception. To which side a threshold belongs is a convention where both sides are possible:
    no fault. ``found`` by ``recover`` says which uniforms to put before each decision; where the tokens are settled, all later
    uniforms go to the boundary together. Without it 6 scripts are taken as they come.
    """
    tails = _tails(_bits(dtype))
    if found is None:
        places = [(tail[:i], tail[i + 1 :]) for tail in tails[:6] for i in range(_used(run, tail))]
    else:
        places = [(cells.head, tails[0]) for cells in found.all()] if isinstance(found, Cells) else []
        settled = found.settled() if isinstance(found, Cells) else [()]
        places += [(head, ()) for head in settled if _used(run, (*head, 0.5)) > len(head)]
    scripts = [Script((*head, u), tail or (u,)) for head, tail in places for u in boundaries(numbers, dtype)]
    faults = [_fault_at(run, script, vocab_size, impossible) for script in scripts]
    return [fault for fault in faults if fault]


def _used(run: Run, uniforms: Sequence[float]) -> int:
    """How many of these a run takes, an exception or not."""
    script = Script((), uniforms)
    with suppress(Exception):
        run(script)
    return script.used


def _fault_at(run: Run, script: Script, vocab_size: int, impossible: Callable[[Text], bool]) -> Fault | None:
    try:
        tokens, _ = _outcome(run, script, vocab_size)
    except BrokenError as error:
        return Fault(str(error), script.taken)
    for length in range(1, len(tokens) + 1):
        if impossible(tokens[:length]):
            says = f"uniforms {list(script.taken)} it emitted {tokens}: token {tokens[length - 1]} has target probability 0 there"
            return Fault(says, script.taken, tokens[:length])
    return None


# ---- races --------------------------------------------------------------------------------------------------------------------

Winner = Callable[[Array], int]


def race(winner: Winner, vocab_size: int, kind: str = "exponential") -> Law:
    """The law by which a race draws, {(token,): probability}, from the noise at which its winner flips.

    ``winner(noise (V,))`` returns the token that wins on this noise: the least e/p for ``kind="exponential"``, the greatest
    g + log p for ``"gumbel"`` (Gumbel 1954; the two are one race, g = -log e). Two tokens tie at e_i/e_j = p_i/p_j, which is
    bisected with the others far behind. A token without weight must not win with any noise; one that does has a weight here.

    Raises ``BrokenError`` if the winner is no token, and ``OutOfReachError`` if weights alone don't explain who wins on 64
    noises: then it is no such race.
    """
    if kind not in _NOISE:
        raise ValueError(f"kind is {kind!r}: it must be one of {', '.join(_NOISE)}")
    wins = partial(_winner, winner, _NOISE[kind], vocab_size)
    level = np.zeros(vocab_size)
    runners = [token for token in range(vocab_size) if wins(_set(level.copy(), token, AHEAD)) == token]
    if not runners:
        raise OutOfReachError("no token wins, however far ahead its noise is")
    weights = {token: _weight(wins, vocab_size, runners[0], token) for token in runners}
    total = sum(weights.values())
    for gumbels in np.random.default_rng(4).gumbel(size=(CHECKS, vocab_size)):
        due = max(runners, key=lambda token: gumbels[token] + math.log(weights[token]))
        if wins(gumbels) != due:
            raise OutOfReachError(f"no race of weights: token {wins(gumbels)} wins where {due} is due, at {gumbels.tolist()}")
    return {(token,): weight / total for token, weight in weights.items()}


AHEAD, BEHIND = 40.0, -600.0
"""In g = -log e: a weight below exp(-40) of another counts as none, and noise so far behind never wins."""


def _weight(wins: Winner, vocab_size: int, base: int, token: int) -> Fraction:
    """The weight of a token, as a multiple of that of ``base``: where the two tie, with the others far behind."""
    if token == base:
        return Fraction(1)
    low, high = -AHEAD, AHEAD
    for _ in range(60):  # 80 halved so often is below the rounding of a log
        middle = (low + high) / 2
        noise = _set(_set(np.full(vocab_size, BEHIND), base, 0.0), token, middle)
        low, high = (low, middle) if wins(noise) == token else (middle, high)
    return _simple(math.exp(-high))


_NOISE: dict[str, Callable[[Array], Array]] = {"exponential": lambda g: np.exp(-g), "gumbel": lambda g: g.copy()}
"""What a race is given, as a function of g."""


def _set(noise: Array, token: int, value: float) -> Array:
    noise[token] = value
    return noise


def _simple(weight: float) -> Fraction:
    """A ratio of two weights as a fraction of small integers, where one is as near as rounding."""
    simple = Fraction(weight).limit_denominator(10_000)
    return simple if abs(float(simple) - weight) <= 1e-14 * weight else Fraction(weight)


def _winner(winner: Winner, noise: Callable[[Array], Array], vocab_size: int, gumbels: Array) -> int:
    with blamed(lambda: f"on the noise {noise(gumbels).tolist()}"):
        token = winner(noise(gumbels))
    fault = token_fault([token], vocab_size)
    if fault:
        raise BrokenError(f"it returned {fault}, on the noise {noise(gumbels).tolist()}")
    return int(token)


# ---- a round in some situations ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A situation of one round: two exact tables and how many proposals there are."""

    name: str
    target: Table
    draft: Table
    gamma: int = 1


ROWS = (
    Rows("F1: p = (5, 3, 2)/10, q = (2, 2, 6)/10, γ = 1", *forgetful([5, 3, 2], [2, 2, 6])),
    Rows("the remembering ABC machine, γ = 2", *abc_machine.remembering(), gamma=2),
    Rows("F2, γ = 2", *CHAIN, gamma=2),
    Rows("p = (1, 2)/3, q = (2, 1)/3, γ = 2", *forgetful([1, 2], [2, 1], 3), gamma=2),
    Rows("halves: p = (4, 4, 2)/10, q = (8, 2, 0)/10, γ = 2", *forgetful([4, 4, 2], [8, 2, 0]), gamma=2),
    Rows("no weight first: p = (0, 4, 6)/10, q = (5, 3, 2)/10", *forgetful([0, 4, 6], [5, 3, 2])),
    Rows("no weight amid: p = (5, 0, 5)/10, q = (2, 6, 2)/10", *forgetful([5, 0, 5], [2, 6, 2])),
    Rows("float sums end below 1: p = (2, 8, 4, 0)/14, q = (1, 7, 2, 4)/14", *forgetful([2, 8, 4, 0], [1, 7, 2, 4], 14)),
    Rows("p = q = (4, 3, 3)/10", *forgetful([4, 3, 3], [4, 3, 3])),
    Rows("one-hot draft: p = (3, 7)/10, q = (1, 0)", *forgetful([3, 7], [10, 0])),
    Rows("one-hot target: p = (0, 1), q = (6, 4)/10", *forgetful([0, 10], [6, 4])),
    Rows("disjoint: p = (0, 6, 4)/10, q = (1, 0, 0)", *forgetful([0, 6, 4], [10, 0, 0])),
)
"""The default situations: ties, zeros in either law, p = q, one-hot and disjoint laws, and where float sums end below 1."""

BY_NAME = {rows.name: rows for rows in ROWS}


def check_rule(verify: Verify, situations: Sequence[Rows] = ROWS) -> Iterator[Finding]:
    """``check`` for a rule that asks a chance object: the script is one."""
    return check(lambda target, draft, proposals, script: verify(target, draft, proposals, script).tokens, situations)


def check(round_: OnUniforms, situations: Sequence[Rows] = ROWS, dtype: Any = np.float64) -> Iterator[Finding]:
    """Is a round lossless, and safe at its boundaries? One finding for the law of each situation, one more for a fault.

    They come one situation after the other, so that a reader may stop at the first accusation.

    ``round_(target (γ+1, V), draft (γ, V), proposals, uniforms)`` returns the emitted tokens. Rows are float64 and its own to
    change. ``uniforms`` is a ``Script`` of numbers that ``dtype`` holds: what the sampler's generator makes.

    For all proposals x that the draft can make the law L(t | x) of the emitted tokens is recovered. Continued by the target it
    must be the target's own: for every text s of length γ + 1, the sum of q(x) L(t | x) p(s behind t) over x and all prefixes
    t of s is p(s). It is exact but for the cells that ``recover`` may miss, so that nothing better than NOT REFUTED comes out.
    Where a later decision's cells move with an earlier uniform, 4,096 scripts are sampled instead; then LOSSY has a false alarm
    in fewer than 1e-9 of such situations.
    """
    reason = None
    for situation in situations:
        examined = _Examined(round_, situation, dtype, reason)
        yield from examined.findings()
        reason = examined.reason


class _Examined:
    """One situation: the cells of each tuple of proposals, and what they say. ``reason`` is why there are none."""

    def __init__(self, round_: OnUniforms, situation: Rows, dtype: Any, reason: str | None) -> None:
        self.round, self.situation, self.dtype, self.reason = round_, situation, dtype, reason
        self.target, self.vocab_size = situation.target, situation.target.vocab_size
        self.proposals = text_law(situation.draft, situation.gamma)
        self.tolerance = max(TOLERANCE, 64 * 2.0 ** -_bits(dtype))
        self.cells: dict[Text, Cells | Text] = {}

    def findings(self) -> Iterator[Finding]:
        """On the law, then on a fault; the search for faults waits until it is asked for. What breaks is the last finding."""
        for part in (lambda: [self.judge(self.found_law())], self.faults):
            started = perf_counter()
            try:
                with time_limit():
                    found = part()
            except BrokenError as error:
                found = [self.finding(Verdict.BROKEN, str(error))]
            yield from (replace(finding, seconds=perf_counter() - started) for finding in found)
            if any(finding.verdict is Verdict.BROKEN for finding in found):
                return

    def finding(self, verdict: Verdict, says: str, witness: Witness | None = None, gap: Any = None) -> Finding:
        return Finding("scripted", self.situation.name, verdict, says, witness, gap)

    def rows(self, proposals: Text) -> tuple[Array, Array]:
        """Target (γ+1, V) and draft (γ, V), exact."""
        before = [proposals[:i] for i in range(len(proposals) + 1)]
        p, q = ([model.law_after(text) for text in before] for model in (self.target, self.situation.draft))
        return np.array(p), np.array(q[:-1]).reshape(-1, self.vocab_size)

    def run(self, proposals: Text) -> Run:
        """The round with these proposals, on rows of its own."""
        target, draft = (rows.astype(float) for rows in self.rows(proposals))
        return lambda uniforms: self.round(target.copy(), draft.copy(), proposals, uniforms)

    def with_input(self, says: str, proposals: Text) -> str:
        """A fault with the rows and the proposals behind it, which a ``rule`` has named itself."""
        if "proposals [" in says:
            return says
        target, draft = (rows.astype(float).tolist() for rows in self.rows(proposals))
        return f"{says}; target {target}, draft {draft}, proposals {list(proposals)}"

    @contextmanager
    def named(self, proposals: Text) -> Iterator[None]:
        """What breaks inside is named with its input."""
        try:
            yield
        except BrokenError as error:
            raise BrokenError(self.with_input(str(error), proposals)) from error

    def found_law(self) -> Law:
        """The law of the emitted tokens, over all proposals: from the cells, or else from samples."""
        law: Law = defaultdict(Fraction)
        try:
            if self.reason is None:
                for proposals, weight in self.proposals.items():
                    at = thresholds(*self.rows(proposals), proposals)
                    with self.named(proposals):
                        self.cells[proposals] = cells = recover(self.run(proposals), at, self.vocab_size, self.dtype)
                    for tokens, length in law_of_cells(cells).items():
                        law[tokens] += weight * length
                return law
        except OutOfReachError as error:
            self.reason, self.cells = str(error), {}
        return self.sampled_law()

    def sampled_law(self) -> Law:
        """The frequencies of the emitted tokens."""
        generator, bits = np.random.default_rng(3), _bits(self.dtype)
        numbers = generator.multinomial(SAMPLES, [float(weight) for weight in self.proposals.values()])
        law: Law = defaultdict(Fraction)
        for proposals, number in zip(self.proposals, numbers, strict=True):
            run = self.run(proposals)
            with self.named(proposals):
                for uniforms in generator.integers(0, 2**bits, (number, 64)) * 2.0**-bits:
                    law[_outcome(run, Script((), uniforms.tolist()), self.vocab_size)[0]] += Fraction(1, SAMPLES)
        return law

    def judge(self, law: Law) -> Finding:
        """The law of the emitted tokens, continued by the target, against the target's own."""
        length = max(self.situation.gamma + 1, *map(len, law))
        found: Law = defaultdict(Fraction)
        for tokens, weight in law.items():
            for rest, more in text_law(self.target, length - len(tokens), tokens).items():
                found[tokens + rest] += weight * more
        due: Law = dict(text_law(self.target, length))
        gap = distance(found, due)
        slack = self.tolerance if self.reason is None else _sampling_error(len(due))
        if gap > slack:
            witness = find_witness(found, due, slack)
            return self.finding(Verdict.LOSSY, "; ".join(filter(None, [in_words(witness), self.double_use()])), witness, gap)
        if self.reason is None:
            says = f"the law of a round, from the cells found, is the target's, over {len(self.proposals)} blocks of proposals"
            return self.finding(Verdict.NOT_REFUTED, says + (f", to {float(gap):.1e}" if gap else ""), None, gap)
        bound = f"by {SAMPLES} scripts the law is no further than {float(gap) + slack:.2f} from the target's"
        return self.finding(Verdict.NOT_REFUTED, f"no cells: {self.reason}; {bound}")

    def double_use(self) -> str | None:
        """The first uniform that seems to decide two things, with its cells, if there is any."""
        for proposals, found in self.cells.items():
            target, draft = self.rows(proposals)
            laws = _drawn_from(target, draft, block.ratios(target, draft, proposals))
            for cells in found.all() if isinstance(found, Cells) else ():
                if _decides_twice(cells, laws):
                    return f"with proposals {list(proposals)} uniform {len(cells.head)} decides more than one thing: {cells}"
        scripts = _tails(_bits(self.dtype))
        most, due = max(_used(self.run(x), u) for x in self.proposals for u in scripts), self.situation.gamma + 1
        return f"it takes {most} uniforms at most, where up to {due} decisions are due" if most < due else None

    def faults(self) -> list[Finding]:
        """The first fault at a boundary, if there is any, as a finding."""
        impossible = cache(lambda tokens: self.target.law_after(tokens[:-1])[tokens[-1]] == 0)
        for proposals in self.proposals:
            target, draft = self.rows(proposals)
            at = thresholds(target, draft, proposals) + thresholds(target.astype(float), draft.astype(float), proposals)
            faults = probe(self.run(proposals), at, self.vocab_size, impossible, self.cells.get(proposals), self.dtype)
            if faults:
                return [self.at_boundary(faults[0], proposals)]
        return []

    def at_boundary(self, fault: Fault, proposals: Text) -> Finding:
        """A fault as a finding."""
        if not fault.tokens:
            return self.finding(Verdict.BROKEN, self.with_input(f"at a boundary {fault.says}", proposals))
        says = f"with proposals {list(proposals)} and {fault.says}"
        path, token = fault.tokens[:-1], fault.tokens[-1]
        weight = text_law(self.target, len(path)).get(path, 0)
        return self.finding(Verdict.LOSSY, says, Witness(path, token, 0, Fraction(1, 2 ** _bits(self.dtype)), weight))


def _decides_twice(cells: Cells, laws: Sequence[Array]) -> bool:
    """Whether a uniform chooses among three ways to go on that differ in the number of tokens, and is no draw from one law."""
    lengths = {frozenset(map(len, law_of_cells(child))) for child in cells.children}
    inner = set(cells.edges[1:-1])
    plain = any(inner <= {s / sums[-1] for s in sums} for sums in map(np.add.accumulate, laws) if sums[-1])
    return len(cells.children) > 2 and len(lengths) > 1 and not plain


def _sampling_error(texts: int) -> float:
    """How far the frequencies of that many texts may be from their law, but for FALSE_ALARM.

    The mean of the total variation is at most half the root of texts/SAMPLES. One script moves it by 1/SAMPLES at most, so it
    is further from its mean with the probability of McDiarmid's inequality (1989) only.
    """
    return math.sqrt(texts / SAMPLES) / 2 + math.sqrt(-math.log(FALSE_ALARM) / (2 * SAMPLES))
