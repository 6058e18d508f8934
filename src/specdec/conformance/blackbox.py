"""The black-box tier: only prompts in, tokens out. The joint law of short texts is tested while they are drawn.

**Theorem** (Lindon & Malek, Anytime-Valid Inference for Multinomial Count Data, NeurIPS 2022, arXiv 2011.03567, section 2;
Robbins' method of mixtures). Outcomes are drawn independently from a law θ, n_i of them are the i-th, and under H0 θ = p. Let

    E_n = ∫ Π (θ_i / p_i)^n_i dΠ(θ),    for Π = Dirichlet(α):    E_n = [B(α + n) / B(α)] / Π p_i^n_i,

B the multivariate beta function. For every Π that was chosen before the data, E_n is under H0 a non-negative martingale with
mean 1, so by Ville's inequality P(E_n ≥ 1/a for some n ≥ 1) ≤ a. Whoever stops as soon as E_n ≥ 1/a, or looks whenever they
like, wrongly refutes with probability at most a.

Here Π is a prior over the conditional laws, one a prefix, so that E_n is a product over prefixes (see ``Chain.log_e``). A
text that H0 makes impossible refutes at once: E_n is infinite.

**A bound on the distance** (``tv_bound``), valid at every n at once. It rests on one sentence: the total variation is attained
on one set of texts, which is unknown but does not depend on the data, so the bound for a single frequency is enough.
"""

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from operator import index
from pickle import PicklingError
from typing import Any

import numpy as np

from specdec.conformance.exact import END, in_words
from specdec.conformance.guard import BrokenError, blamed, described, time_limit
from specdec.conformance.situations import Text
from specdec.conformance.verdicts import Finding, Verdict, Witness
from specdec.law import SUM_TOLERANCE, Array

Law = Mapping[Any, Any]
Sample = Callable[[int, int], Sequence[Sequence[int]]]
Progress = Callable[[int, float, float], None]
Found = tuple[Verdict, str, Witness | None]

FALSE_ALARM = 1e-9
"""The default probability with which a lossless sampler is refuted, ever."""
SUSPICION = 0.5
CONCENTRATIONS = (2, 8, 32, 128, 512, 2048, 8192)
FLAT = 0.5
"""The prior of each prefix's conditional law: with SUSPICION it is Dirichlet(c p) for one c or Dirichlet(FLAT, …, FLAT), all as
likely; else it is p itself.

Chosen by measurement: mean number of four-token texts until refutation (a = 1e-9, ABC machine, 40 to 60 runs)::

                          bonus from the   residual   lenience   block, ratios    that bonus mixed in,
                          previous row     is p       1.1        tokenwise        TV .01
    law known             167              124        6,236      2,911            37,909
    this prior            409              342        19,911     6,185            125,259
    without the flat law  384              317        19,372     6,150            111,816
    and with c ≤ 512      392              301        22,651     6,725            128,411
    SUSPICION 1, c ≤ 512  409              295        32,580     11,120
    all texts at once: Dirichlet(c p) of 81 entries
        c = 81            719              580        84,519     34,866
        c = 300           445              392        65,822     23,571
        c = 1,000         528              472        45,776     14,103
        uniform           1,051            574        86,141     36,119

A mistake sits at some prefixes and spares others: a prefix that is right costs at most ln 2 here, and one that is wrong finds
its own c. The flat law costs little, and with it a token of tiny probability that comes all the same refutes by itself.
"""
NAMED = 1e-3
"""A witness names a prefix whose conditional law is right with at most this probability, if its own evidence suffices."""


# ---- the law as a chain of conditional laws -------------------------------------------------------------------------


class Chain:
    """A law of texts, as one conditional law a prefix; texts may have different lengths, and END follows each.

    ``rows[prefix][token]`` is the conditional probability, of the law's own kind of numbers, and ``weight[prefix]`` the
    prefix's own. A cell is one (prefix, token) where more than one token is possible.
    """

    def __init__(self, law: Law) -> None:
        self.law = {text: weight for text, weight in _checked(law).items() if float(weight)}  # 1e-400 is as good as never
        self.lengths = {len(text) for text in self.law}
        masses: dict[Text, dict[int | None, Any]] = {}
        for text, weight in self.law.items():
            for i, token in enumerate((*text, END)):
                row = masses.setdefault(text[:i], {})
                row[token] = row.get(token, 0) + weight
        self.weight = {prefix: sum(row.values()) for prefix, row in masses.items()}
        self.rows = {prefix: {x: m / self.weight[prefix] for x, m in row.items()} for prefix, row in masses.items()}
        self.prefixes = sorted((prefix for prefix, row in self.rows.items() if len(row) > 1), key=len)
        self.cells = [(prefix, token) for prefix in self.prefixes for token in self.rows[prefix]]
        sizes = [len(self.rows[prefix]) for prefix in self.prefixes]
        self._first = np.cumsum([0, *sizes])[:-1].astype(int)
        p = np.array([float(self.rows[prefix][token]) for prefix, token in self.cells])
        self._log_p = np.log(p)
        self._priors = [self._prior(alpha) for alpha in (*(c * p for c in CONCENTRATIONS), np.full(len(p), FLAT))]
        self._texts = np.array([float(weight) for weight in self.law.values()])
        self._order = {text: i for i, text in enumerate(self.law)}
        self._paths = self._cells_on_paths()

    def _prior(self, alpha: Array) -> tuple[Array, Array, Array, Array]:
        """What ``log_e`` needs of a Dirichlet law: alpha, a prefix's sum of it, and the logarithms of their gamma functions."""
        whole = self.totals(alpha)
        return alpha, whole, _lgamma(alpha), _lgamma(whole)

    def _cells_on_paths(self) -> Array:
        """(texts, steps): the cells that a text passes, filled up with one cell too many."""
        number = {cell: i for i, cell in enumerate(self.cells)}
        paths = np.full((len(self.law), max(self.lengths) + 1), len(self.cells))
        for row, text in zip(paths, self.law, strict=True):
            for i, token in enumerate((*text, END)):
                row[i] = number.get((text[:i], token), len(self.cells))
        return paths

    def described(self) -> str:
        """The lengths and the number of the texts, in words."""
        steps = "-".join(str(length) for length in sorted({min(self.lengths), max(self.lengths)}))
        return f"joint law of {steps} tokens, {len(self.law)} texts"

    def text_counts(self, texts: Counter[Text]) -> Array:
        """(texts,) how often each text of the law was drawn."""
        counts = np.zeros(len(self.law))
        for text, count in texts.items():
            counts[self._order[text]] = count
        return counts

    def cell_counts(self, text_counts: Array) -> Array:
        """(..., cells) how often each cell was passed, from (..., texts)."""
        counts = np.zeros((len(self.cells) + 1, *text_counts.shape[:-1]))
        for step in self._paths.T:
            np.add.at(counts, step, np.moveaxis(text_counts, -1, 0))
        return np.moveaxis(counts[:-1], 0, -1)

    def totals(self, cell_counts: Array) -> Array:
        """(..., prefixes) how often each prefix was passed."""
        return np.add.reduceat(cell_counts, self._first, axis=-1)

    def log_e(self, cell_counts: Array) -> Array:
        """(..., prefixes) the logarithm of each prefix's own e-process; their sum is log E_n.

        At one prefix the tokens are draws from its conditional law, so the theorem holds there. The product is again ∫ Π
        (θ/p) dΠ, for the law whose conditional laws are independent under Π, and so it holds for the texts.
        """
        if not self.prefixes:
            return np.zeros((*cell_counts.shape[:-1], 0))
        totals, bets = self.totals(cell_counts), []
        for alpha, whole, at_alpha, at_whole in self._priors:
            gained = _lgamma(alpha + cell_counts) - at_alpha - cell_counts * self._log_p
            bets.append(at_whole - _lgamma(whole + totals) + np.add.reduceat(gained, self._first, axis=-1))
        bet = np.logaddexp.reduce(bets, axis=0) - math.log(len(bets))
        return np.logaddexp(math.log(1 - SUSPICION), math.log(SUSPICION) + bet)

    def distance(self, text_counts: Array) -> float:
        """The total variation between the texts drawn and the law."""
        return float(abs(text_counts / text_counts.sum() - self._texts).sum() / 2)

    def impossible(self, text: Sequence[int]) -> tuple[Text, int | None] | None:
        """The prefix and the token behind it at which a text leaves the law's support, or None."""
        if tuple(text) in self.law:
            return None
        steps = ((tuple(text[:i]), token) for i, token in enumerate((*text, END)))
        return next(step for step in steps if step[1] not in self.rows[step[0]])

    def same_twice(self, number: int) -> float:
        """The logarithm of the probability that two samples of so many texts are equal, text by text."""
        return number * math.log(min(1.0, float(self._texts @ self._texts)))


_each_lgamma = np.frompyfunc(math.lgamma, 1, 1)


def _lgamma(values: Array) -> Array:
    return np.asarray(_each_lgamma(values), dtype=float)


def _checked(law: Law) -> Law:
    """The law, or ``ValueError``: no texts, keys that are no tuples, negative weights, or another sum than 1."""
    if not law:
        raise ValueError("the law has no texts: give {tokens: probability}, such as law_of_text returns")
    wrong = next((text for text in law if not isinstance(text, tuple)), None)
    if wrong is not None:
        raise ValueError(f"the law's text {wrong!r} is no tuple of token ids")
    total, least = sum(law.values()), min(law.values())
    if not (abs(total - 1) <= SUM_TOLERANCE and least >= 0):  # written so that NaN is bad
        raise ValueError(f"the law of texts sums to {float(total)}, its smallest probability is {float(least)}")
    return law


# ---- how far from the law can the sampler be? -------------------------------------------------------------------------


def tv_bound(observed: float, n: int, false_alarm: float, horizon: int) -> float:
    """An upper bound on TV(θ, p), from the total variation ``observed`` between n texts and p; valid at every n at once.

    Let A be the set with TV(θ, p) = θ(A) - p(A). Then ``observed`` ≥ n(A)/n - p(A), where n(A) counts the texts in A, and A
    was fixed before the draws. S = n θ(A) - n(A) is a sum of n independent terms of mean 0 and range 1. By Hoeffding's lemma
    (1963) exp(λS - λ²V/2), V = n/4, is a supermartingale for each λ, and so is its mixture over λ ~ N(0, 1/ρ),
    √(ρ/(V+ρ)) exp(S²/(2(V+ρ))). Ville's inequality then gives, with probability 1 - a and for all n,
    S² < (V+ρ) (ln((V+ρ)/ρ) + 2 ln(1/a)): the normal mixture of Robbins (1970), in Howard, Ramdas, McAuliffe & Sekhon (2021,
    Annals of Statistics 49(2), section 3). ρ is set so that the bound is nearly the least possible at n = ``horizon``.

    Hence TV(θ, p) ≤ observed + S/n. The number of texts in the law enters by ``observed`` alone, which is about
    √(texts/(2πn)) at most for a lossless sampler. On the ABC machine's 81 texts, a = 1e-9, the bound is .062 at n = 1e4 and
    .020 at n = 1e5. Bounds for all sets at once are wider: .090 and .029 by Bretagnolle, Huber & Carol, .095 and .030 by
    McDiarmid, both for one n alone; .106 and .041 by the mixture's confidence sequence and Pinsker's inequality.
    """
    v, surprise = n / 4, 2 * math.log(1 / false_alarm)
    rho = horizon / 4 / (surprise + math.log1p(surprise))
    deviation = math.sqrt((v + rho) * (math.log((v + rho) / rho) + surprise))
    return min(1.0, observed + deviation / n)


# ---- the test ---------------------------------------------------------------------------------------------------------


def check(
    sample: Sample,
    law: Law,
    *,
    false_alarm: float = FALSE_ALARM,
    limit: int = 10_000,
    batch: int = 200,
    jobs: int = 1,
    seed: int = 0,
    vocab_size: int | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Draw texts until the law is refuted or ``limit`` is reached: LOSSY, NOT REFUTED with a bound on the TV, or BROKEN.

    ``sample(number, seed)`` returns that many independent texts, each a sequence of token ids; equal seeds may give equal
    texts, different seeds must not. ``law`` is {text: probability}, exact or float: all that a text of the sampler is.
    A lossless sampler is called LOSSY with probability ``false_alarm`` at most, whatever the limit. The bound holds with
    probability 1 - ``false_alarm`` wherever the test stops.

    ``batch`` texts are drawn at a time, each batch with a seed of its own below 2**63, in ``jobs`` processes. Batches are read
    in their order, so the result does not depend on ``jobs``. ``progress(n, log E_n, bound)`` is called after each.
    Impossible texts refute at once; ids from ``vocab_size`` on, negative ones, and lengths that no text of the law has are
    BROKEN. Bad arguments raise ``ValueError``.
    """
    chain, started = Chain(law), time.perf_counter()
    _check_options(false_alarm, limit, batch, jobs)
    run = _Run(chain, false_alarm, limit, vocab_size)
    with closing(_batches(sample, max(chain.lengths), _plan(limit, batch, seed), jobs)) as drawn:
        verdict, says, witness = run.read_all(drawn, progress) or run.not_refuted()
    return Finding("black-box", chain.described(), verdict, says, witness, None, time.perf_counter() - started)


class _Run:
    """What was drawn so far, and what it shows."""

    def __init__(self, chain: Chain, false_alarm: float, limit: int, vocab_size: int | None) -> None:
        self.chain, self.false_alarm, self.limit = chain, false_alarm, limit
        self.vocab_size = math.inf if vocab_size is None else vocab_size
        self.counts = np.zeros(len(chain.law))
        self.n, self.log_e, self.bound = 0, 0.0, 1.0
        self._seeds: dict[int, int] = {}

    def read_all(self, drawn: Iterable[tuple[int, int, list[Text] | str]], progress: Progress | None) -> Found | None:
        """The finding that the first batches lead to, or None behind the last one."""
        for batch in drawn:
            found = self.read(*batch)
            if progress is not None and (found is None or found[0] is not Verdict.BROKEN):
                progress(self.n, self.log_e, self.bound)
            if found is not None:
                return found
        return None

    def read(self, number: int, seed: int, texts: list[Text] | str) -> Found | None:
        """The finding that one batch leads to, or None."""
        if isinstance(texts, str):
            return self._broken(number, seed, texts)
        fault = self._fault(texts) or self._repeats(seed, texts)
        if fault is not None:
            return self._broken(number, seed, fault)
        drawn = Counter(texts)
        self.n += number
        if not drawn.keys() <= self.chain.law.keys():
            return self._impossible(drawn)
        self.counts += self.chain.text_counts(drawn)
        cells = self.chain.cell_counts(self.counts)
        evidence = self.chain.log_e(cells)
        self.log_e = float(evidence.sum())
        observed = self.chain.distance(self.counts)
        self.bound = min(self.bound, tv_bound(observed, self.n, self.false_alarm, self.limit))
        return self._refuted(cells, evidence) if self.log_e >= math.log(1 / self.false_alarm) else None

    @staticmethod
    def _broken(number: int, seed: int, fault: str) -> Found:
        return Verdict.BROKEN, f"sample({number}, {seed}): {fault}", None

    def _fault(self, texts: list[Text]) -> str | None:
        """What makes a text no text at all."""
        for text in texts:
            if not all(0 <= token < self.vocab_size for token in text):
                return f"text {text} has an id below 0" if min(text) < 0 else f"text {text} in a vocabulary of {self.vocab_size}"
            if len(text) not in self.chain.lengths:
                due = ", ".join(map(str, sorted(self.chain.lengths)))
                size = len(text) if len(text) < max(self.chain.lengths) else f"more than {max(self.chain.lengths)}"
                return f"text {text} has {size} tokens, where {due} are due"
        return None

    def _repeats(self, seed: int, texts: list[Text]) -> str | None:
        """Two seeds with the same texts, where chance is no explanation: the e-process would count them twice."""
        batches = self.limit / len(texts) + 1
        if self.chain.same_twice(len(texts)) > math.log(self.false_alarm / 100 / batches**2):
            return None
        twin = self._seeds.setdefault(hash(tuple(texts)), seed)
        return None if twin == seed else f"the same {len(texts)} texts as with seed {twin}: the draws are not independent"

    def _impossible(self, drawn: Counter[Text]) -> Found:
        outside = {text: step for text in drawn if (step := self.chain.impossible(text)) is not None}
        prefix, token = min(outside.values(), key=lambda step: len(step[0]))
        total = sum(count for text, count in drawn.items() if text[: len(prefix)] == prefix)
        hits = sum(drawn[text] for text, step in outside.items() if step == (prefix, token))
        self.log_e = math.inf
        return self._lossy(prefix, token, hits, total, "of the last batch")

    def _refuted(self, cells: Array, evidence: Array) -> Found:
        """The shortest prefix with evidence enough of its own, else the one with most; and its most deviating token."""
        chain, lengths = self.chain, np.array([len(prefix) for prefix in self.chain.prefixes])
        strong = evidence >= math.log(len(evidence) / NAMED)
        if strong.any():
            evidence = np.where(strong & (lengths == lengths[strong].min()), evidence, -np.inf)
        prefix = chain.prefixes[int(np.argmax(evidence))]
        counts = {token: cells[i] for i, (at, token) in enumerate(chain.cells) if at == prefix}
        total = sum(counts.values())
        row = {token: float(p) for token, p in chain.rows[prefix].items()}
        token = max(row, key=lambda x: abs(counts[x] - total * row[x]) / math.sqrt(row[x] * (1 - row[x])))
        return self._lossy(prefix, token, int(counts[token]), int(total), "drawn")

    def _lossy(self, prefix: Text, token: int | None, hits: int, total: int, which: str) -> Found:
        expected = self.chain.rows[prefix].get(token, 0)
        witness = Witness(prefix, token, expected, hits / total, self.chain.weight[prefix])
        how = f"log e-value {self.log_e:.1f}, false-alarm rate {self.false_alarm:g}"
        says = f"refuted by {self.n} texts ({how}): {in_words(witness)}, in {hits} of {total} texts {which}"
        return Verdict.LOSSY, says, witness

    def not_refuted(self) -> Found:
        """The verdict of a whole run."""
        says = (
            f"not refuted by {self.n} texts (log e-value {self.log_e:.1f} of {math.log(1 / self.false_alarm):.1f}):"
            f" the total variation is at most {self.bound:.4f}, at an error rate of {self.false_alarm:g}"
        )
        return Verdict.NOT_REFUTED, says, None


def _check_options(false_alarm: float, limit: int, batch: int, jobs: int) -> None:
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm is {false_alarm}: a probability between 0 and 1 is needed, such as {FALSE_ALARM:g}")
    if min(limit, batch, jobs) < 1:
        raise ValueError(f"limit {limit}, batch {batch} and jobs {jobs} must each be at least 1")


def _plan(limit: int, batch: int, seed: int) -> list[tuple[int, int]]:
    """(number, seed) of each batch."""
    numbers = [batch] * (limit // batch) + [limit % batch] * (limit % batch > 0)
    seeds = (int(child.generate_state(1, np.uint64)[0]) >> 1 for child in np.random.SeedSequence(seed).spawn(len(numbers)))
    return list(zip(numbers, seeds, strict=True))


def _batches(
    sample: Sample, longest: int, plan: list[tuple[int, int]], jobs: int
) -> Generator[tuple[int, int, list[Text] | str]]:
    """(number, seed, texts or fault) of each batch in order, drawn in ``jobs`` processes; closing it stops them."""
    from joblib import Parallel, delayed  # a third of a second, which the other tiers needn't wait

    drawn = Parallel(n_jobs=jobs, return_as="generator")(delayed(_draw)(sample, *task, longest) for task in plan)
    place = iter(plan)
    try:
        for task, texts in zip(place, drawn, strict=False):
            yield (*task, texts)
    except PicklingError as error:
        raise ValueError("the sampler can't be sent to other processes: define it in a module, or use jobs=1") from error
    except BrokenProcessPool as error:
        yield (*next(place, plan[-1]), f"a worker process died here or a little later: {described(error)}")
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that batches were drawn for nothing: the price of stopping early
            drawn.close()


def _draw(sample: Sample, number: int, seed: int, longest: int) -> list[Text] | str:
    """The texts of one batch, or what is wrong with it; no more is read of them than shows a fault."""
    try:
        with time_limit(), blamed():
            texts = sample(number, seed)
            read = [tuple(map(index, islice(text, longest + 1))) for text in islice(texts, number + 1)]
    except BrokenError as error:
        return str(error)
    if len(read) == number:
        return read
    return f"{'more' if len(read) > number else len(read)} texts, where {number} were asked for"


# ---- how many texts does a claim need? --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Power:
    """What it takes to refute one wrong law: its ``distance`` (TV) from the law, and mean numbers of texts.

    ``known`` is ln(1/a) / KL(wrong, law), what Wald's test of this one alternative needs; ``texts`` is what ``check`` needs,
    which knows none, and ``spread`` the standard deviation of that over runs. ``tokens`` is ``texts`` times the mean length.
    """

    distance: float
    known: float
    texts: float
    spread: float
    tokens: float


def power(
    law: Law,
    wrong: Law,
    *,
    false_alarm: float = FALSE_ALARM,
    runs: int = 20,
    seed: int = 0,
    limit: int = 10_000_000,
) -> Power:
    """How many texts ``check`` needs, on average, to refute a sampler with the law ``wrong``: by simulation, 5 % apart.

    Nothing is decoded. ``texts`` is infinite if some run of ``limit`` texts did not refute. Equal laws raise ``ValueError``.
    """
    chain, other = Chain(law), Chain(wrong).law
    q = np.array([*(float(other.get(text, 0)) for text in chain.law), 0.0])
    q[-1] = max(0.0, float(sum(weight for text, weight in other.items() if text not in chain.law)))  # impossible texts
    p = np.array([*map(float, chain.law.values()), 0.0])
    kept = q > 0
    divergence = math.inf if q[-1] > 0 else float(q[kept] @ np.log(q[kept] / p[kept]))
    if not divergence > 1e-15:
        raise ValueError("the two laws are the same: no number of texts tells them apart")
    ends = [_texts_until_refuted(chain, q / q.sum(), false_alarm, child, limit) for child in _generators(seed, runs)]
    mean, length = float(np.mean(ends)), float(sum(len(text) * weight for text, weight in other.items()))
    spread = float(np.std(ends)) if math.isfinite(mean) else math.inf
    known = 1 / q[-1] if q[-1] > 0 else math.log(1 / false_alarm) / divergence
    return Power(float(abs(p - q).sum() / 2), float(known), mean, spread, mean * length)


def _generators(seed: int, runs: int) -> list[np.random.Generator]:
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(runs)]


def _texts_until_refuted(chain: Chain, q: Array, false_alarm: float, generator: np.random.Generator, limit: int) -> float:
    """The first n on a grid of steps of 5 % at which texts drawn from q refute the law."""
    counts, n, threshold = np.zeros(len(q)), 0, math.log(1 / false_alarm)
    while n < limit:
        step = min(limit - n, 1 + n // 20)
        counts += generator.multinomial(step, q)
        n += step
        if counts[-1] or chain.log_e(chain.cell_counts(counts[:-1])).sum() >= threshold:
            return n
    return math.inf
