"""The black-box tier: its false alarms and its coverage are computed, not sampled, where the alphabet is small enough."""

import functools
import itertools
import math
import os
import threading
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specdec.conformance import classic, guard, mutants
from specdec.conformance.blackbox import CONCENTRATIONS, SUSPICION, Chain, check, power, tv_bound
from specdec.conformance.samplers import rule
from specdec.conformance.specimens import four_tokens
from specdec.conformance.verdicts import Verdict
from specdec.models import abc_machine
from specdec.models.table import text_law

F = Fraction
COIN = {(0,): F(1, 3), (1,): F(2, 3)}
PAIRS = {(0, 0): F(1, 2), (0, 1): F(1, 6), (1, 0): F(1, 12), (1, 1): F(1, 4)}
RAGGED = {(0,): F(1, 4), (1, 0): F(1, 2), (1, 1): F(1, 4)}  # token 0 stops a text


@functools.cache
def machine_law(length=4):
    return text_law(abc_machine.remembering()[0], length)


@functools.cache
def law_of(verify):
    """Four tokens of a rule on that machine at γ = 2."""
    return {text: weight for (text,), weight in four_tokens(rule("wrong", verify)).items()}


def first(law, length):
    out = Counter()
    for text, weight in law.items():
        out[text[:length]] += weight
    return dict(out)


def mixed(law, wrong, distance):
    """A share of ``wrong`` in ``law`` such that their total variation is ``distance``."""
    share = distance / (sum(abs(wrong.get(text, 0) - weight) for text, weight in law.items()) / 2)
    return {text: (1 - share) * weight + share * wrong.get(text, 0) for text, weight in law.items()}


def draws(law):
    """A sampler with exactly this law. It is local, so that other processes get a copy of it."""
    texts, weights = list(law), np.array([float(weight) for weight in law.values()])

    def sample(number, seed):
        return [texts[i] for i in np.random.default_rng(seed).choice(len(texts), number, p=weights / weights.sum())]

    return sample


# ---- the e-process: a martingale with mean 1 ------------------------------------------------------------------------


def e_value(chain, counts):
    return math.exp(chain.log_e(chain.cell_counts(chain.text_counts(counts))).sum())


def mean_under_the_law(law, n, e):
    """E[E_n] under H0, over all sequences of n texts. Right to 1e-10: lgamma(8192) takes four digits."""
    sequences = itertools.product(law, repeat=n)
    return sum(math.prod(law[text] for text in drawn) * e(Counter(drawn)) for drawn in sequences)


def largest_of(chain):
    """A wrong twin: the most favourable of the concentrations, picked after the data."""

    def e(counts):
        cells = chain.cell_counts(chain.text_counts(counts))
        with pytest.MonkeyPatch.context() as patch:
            found = []
            for prior in chain._priors:
                patch.setattr(chain, "_priors", [prior])
                found.append(chain.log_e(cells).sum())
        return math.exp(max(found))

    return e


def plugged_in(law):
    """Another: the likelihood ratio of the frequencies in the very data that it judges."""

    def e(counts):
        n = counts.total()
        return math.prod((count / n / float(law[text])) ** count for text, count in counts.items())

    return e


@pytest.mark.parametrize("law", [COIN, PAIRS, RAGGED], ids=["coin", "pairs", "ragged"])
def test_the_e_process_has_mean_one_under_the_law(law):
    chain = Chain(law)
    for n in (1, 2, 3, 4):
        assert mean_under_the_law(law, n, functools.partial(e_value, chain)) == pytest.approx(1, abs=1e-10)


def test_the_mean_tells_an_e_process_that_peeks():
    assert mean_under_the_law(COIN, 4, plugged_in(COIN)) > 2
    assert mean_under_the_law(PAIRS, 3, largest_of(Chain(PAIRS))) > 1.05


def rising(start, steps):
    return math.prod((start + i for i in range(steps)), start=F(1))


def exact_e(law, counts):
    """E_n in Fractions, from the formula of the module's docstring."""
    chain, out = Chain(law), F(1)
    for prefix in chain.prefixes:
        row = chain.rows[prefix]
        seen = Counter()
        for text, count in counts.items():
            if text[: len(prefix)] == prefix:
                seen[(*text, None)[len(prefix)]] += count
        priors = [{x: c * row[x] for x in row} for c in CONCENTRATIONS] + [dict.fromkeys(row, F(1, 2))]
        bets = [
            math.prod(rising(a[x], seen[x]) / row[x] ** seen[x] for x in row) / rising(sum(a.values()), seen.total())
            for a in priors
        ]
        out *= 1 - F(SUSPICION) + F(SUSPICION) * sum(bets) / len(bets)
    return out


@pytest.mark.parametrize("law", [COIN, PAIRS, RAGGED], ids=["coin", "pairs", "ragged"])
def test_the_e_process_is_the_formula_in_fractions(law):
    chain = Chain(law)
    assert sum(math.prod(law[t] for t in drawn) * exact_e(law, Counter(drawn)) for drawn in itertools.product(law, repeat=3)) == 1
    for drawn in itertools.combinations_with_replacement(law, 6):
        assert e_value(chain, Counter(drawn)) == pytest.approx(float(exact_e(law, Counter(drawn))), rel=1e-10)


def probability_of_ever(p, horizon, event):
    """P(event(hits, n) for some n ≤ horizon) for n draws with P(hit) = p: exact but for rounding, by counting on."""
    alive, gone = {0: 1.0}, 0.0
    for n in range(1, horizon + 1):
        moved = Counter()
        for hits, weight in alive.items():
            moved[hits + 1] += weight * p
            moved[hits] += weight * (1 - p)
        gone += sum(weight for hits, weight in moved.items() if event(hits, n))
        alive = {hits: weight for hits, weight in moved.items() if not event(hits, n)}
    return gone


def test_looking_after_every_text_refutes_the_law_with_the_stated_probability_at_most():
    chain = Chain(COIN)
    e = functools.cache(lambda hits, n: e_value(chain, Counter({(1,): hits, (0,): n - hits})))
    rate = 0.05
    assert 0.001 < probability_of_ever(2 / 3, 100, lambda hits, n: e(hits, n) >= 1 / rate) <= rate
    peeking = plugged_in(COIN)
    wrong = functools.cache(lambda hits, n: peeking(Counter({(1,): hits, (0,): n - hits})))
    assert probability_of_ever(2 / 3, 100, lambda hits, n: wrong(hits, n) >= 1 / rate) > 2 * rate


def test_large_counts_and_tiny_probabilities_stay_finite():
    """And what should happen once in 1e200 texts refutes when it happens: that takes the flat prior."""
    chain = Chain({(0,): 1 - F(1, 10**200), (1,): F(1, 10**200)})
    calm, once = chain.log_e(chain.cell_counts(np.array([[1e9, 0.0], [1e9, 1.0]]))).sum(axis=-1)
    assert -3 < calm < 0 and 400 < once < 460
    never = {(0,): 1 - F(1, 10**400), (1,): F(1, 10**400)}  # below the least float
    assert check(lambda number, seed: [(1,)] * number, never).verdict is Verdict.LOSSY


# ---- the bound on the distance --------------------------------------------------------------------------------------


def test_the_bound_fails_with_the_stated_probability_at_most_though_it_is_looked_at_after_every_text():
    p, true, rate, horizon = 0.5, 0.6, 0.3, 800  # TV .1 = true - p, attained at a hit
    bound = functools.cache(lambda hits, n: tv_bound(abs(hits / n - p), n, rate, horizon))
    assert 0.005 < probability_of_ever(true, horizon, lambda hits, n: bound(hits, n) < true - p) <= rate
    # A wrong twin: Hoeffding's bound, which is right for one n and is looked at for all.
    once = functools.cache(lambda hits, n: abs(hits / n - p) + math.sqrt(math.log(1 / rate) / (2 * n)))
    assert probability_of_ever(true, horizon, lambda hits, n: once(hits, n) < true - p) > rate


def test_at_the_bound_the_mixture_is_as_large_as_ville_allows():
    """By the trapezoidal rule over λ, instead of the closed form."""
    for n, rate, horizon in [(100, 0.01, 100), (1000, 1e-9, 10_000), (100_000, 1e-3, 10_000)]:
        s, v = n * tv_bound(0.0, n, rate, horizon), n / 4
        surprise = 2 * math.log(1 / rate)
        rho = horizon / 4 / (surprise + math.log(1 + surprise))
        peak, width = s / (v + rho), 12 / math.sqrt(v + rho)
        grid = np.linspace(peak - width, peak + width, 4001)
        mixture = np.trapezoid(np.exp(grid * s - grid**2 * (v + rho) / 2) * math.sqrt(rho / (2 * math.pi)), grid)
        assert mixture == pytest.approx(1 / rate, rel=1e-9)


def test_the_bound_covers_the_distance_of_a_wrong_sampler():
    """40 runs at an error rate of 1e-3: one failure would have probability .04 at most, two 8e-4."""
    wrong, true = law_of(mutants.bonus_from_previous_row), 21 / 125
    chain, failures = Chain(machine_law()), 0
    weights = np.array([float(wrong[text]) for text in chain.law])
    for run in range(40):
        counts = np.cumsum(np.random.default_rng(run).multinomial(250, weights, size=20), axis=0)
        bounds = [tv_bound(chain.distance(row), row.sum(), 1e-3, 5000) for row in counts]
        failures += min(bounds) < true
        assert bounds[-1] < true + 0.06
    assert failures <= 1


def test_the_bound_shrinks_as_stated():
    """On the 81 texts: .062 at n = 1e4 and .020 at n = 1e5; the range covers all but one run in 1e6."""
    for n, low, high in [(10_000, 0.055, 0.070), (100_000, 0.0175, 0.0225)]:
        found = check(draws(machine_law()), machine_law(), limit=n, batch=n // 10)
        assert found.verdict is Verdict.NOT_REFUTED and "lossless" not in found.says.lower()
        assert low < float(found.says.split("at most ")[1].split(",")[0]) < high
    assert tv_bound(0.0, 1, 1e-9, 10_000) == 1


# ---- power ------------------------------------------------------------------------------------------------------------


def test_power_of_the_previous_row_bonus():
    """Fixed seeds. 1,080 texts were needed with one Dirichlet law for all texts."""
    expected = power(machine_law(), law_of(mutants.bonus_from_previous_row))
    assert expected.distance == pytest.approx(21 / 125)
    assert expected.known == pytest.approx(166.8, abs=0.1)
    assert 300 < expected.texts < 500 and expected.tokens == pytest.approx(4 * expected.texts)
    # The test itself, in steps of ten texts, agrees: both means have a standard error of about 25.
    sample = draws(law_of(mutants.bonus_from_previous_row))
    stops = []
    for seed in range(20):
        found = check(sample, machine_law(), seed=seed, batch=10)
        stops.append(int(found.says.split()[2]))
    assert np.mean(stops) == pytest.approx(expected.texts, rel=0.25)


@pytest.mark.parametrize(
    ("verify", "least", "most"),
    [(mutants.residual_is_p, 250, 420), (mutants.keeps_discarded_branch, 90, 160), (mutants.one_uniform_for_two, 2500, 5500)],
    ids=["residual_is_p", "keeps_branch", "one_uniform"],
)
def test_power_of_other_mutants(verify, least, most):
    found = power(machine_law(), law_of(verify), runs=10)
    assert least < found.texts < most and found.known < found.texts


def test_a_distance_of_one_percent_takes_a_hundred_thousand_texts():
    near = mixed(machine_law(), law_of(mutants.bonus_from_previous_row), F(1, 100))
    found = power(machine_law(), near, runs=4)
    assert found.distance == pytest.approx(0.01) and 7e4 < found.texts < 2e5
    assert power(machine_law(), near, runs=2, limit=1000).texts == math.inf


def test_power_of_impossible_texts():
    """The first one ends the test, after 1/.02 texts on average; the mean of 100 runs has a standard error of 5."""
    found = power(COIN, {(0,): F(1, 3), (1,): F(2, 3) - F(1, 50), (2,): F(1, 50)}, runs=100)
    assert found.known == pytest.approx(50) and found.texts == pytest.approx(50, abs=20)


def test_one_prior_a_prefix_beats_one_for_all_texts():
    """At the mean counts of 700 texts: the reason for the choice of the prior."""
    chain, wrong = Chain(machine_law()), law_of(mutants.bonus_from_previous_row)
    p = np.array([float(weight) for weight in chain.law.values()])
    counts = 700 * np.array([float(wrong[text]) for text in chain.law])
    lgamma = np.vectorize(math.lgamma)
    joint = lgamma(81) - lgamma(81 + 700) + (lgamma(81 * p + counts) - lgamma(81 * p) - counts * np.log(p)).sum()
    assert chain.log_e(chain.cell_counts(counts)).sum() > joint + 10


# ---- the test ---------------------------------------------------------------------------------------------------------


def test_a_lossless_sampler_is_not_refuted():
    found = check(draws(machine_law()), machine_law(), limit=4000)
    assert found.verdict is Verdict.NOT_REFUTED and found.tier == "black-box" and not found.accused
    assert "4000 texts" in found.says and "total variation is at most" in found.says and found.distance is None


def test_the_previous_row_bonus_is_refuted_with_its_place():
    found = check(draws(law_of(mutants.bonus_from_previous_row)), machine_law())
    assert found.verdict is Verdict.LOSSY
    witness = found.witness
    assert len(witness.path) == 2  # the first two tokens are right: the bonus is the third
    row = {(0,): [1, 6, 3], (1,): [7, 1, 2], (2,): [2, 2, 6]}[witness.path[1:]]
    assert witness.expected == F(row[witness.token], 10) and witness.weight == first(machine_law(), 2)[witness.path]
    assert abs(witness.found - witness.expected) > 0.05


def test_a_residual_that_is_p_is_wrong_from_the_start():
    """Later tokens are wrong too, and 20,000 texts show both: the shortest path counts."""
    witness = check(draws(law_of(mutants.residual_is_p)), machine_law(), batch=20_000, limit=20_000).witness
    assert witness.path == () and (witness.token, witness.expected, witness.weight) == (0, F(3, 5), 1)
    assert witness.found == pytest.approx(0.44, abs=0.02)


def test_two_tokens_are_not_enough():
    """A wrong twin of the tier: the previous-row bonus leaves the first two tokens' law alone, and the third's nearly."""
    sample = draws(first(law_of(mutants.bonus_from_previous_row), 2))
    assert check(sample, first(machine_law(), 2)).verdict is Verdict.NOT_REFUTED


def test_an_impossible_text_refutes_at_once():
    never = dict.fromkeys([(0, 0), (1, 1)], F(1, 2))
    found = check(draws({(0, 0): F(1, 2), (1, 1): F(49, 100), (1, 0): F(1, 100)}), never)
    assert found.verdict is Verdict.LOSSY and (found.witness.path, found.witness.token) == ((1,), 0)
    assert found.witness.expected == 0 and found.witness.found > 0 and "inf" in found.says


def test_a_text_that_goes_on_after_its_stop_or_ends_before_it_is_lossy():
    on = check(draws({(0, 1): F(1, 4), (1, 0): F(1, 2), (1, 1): F(1, 4)}), RAGGED)
    assert on.verdict is Verdict.LOSSY and (on.witness.path, on.witness.token, on.witness.expected) == ((0,), 1, 0)
    early = check(draws({(0,): F(1, 4), (1,): F(3, 4)}), RAGGED)
    assert early.verdict is Verdict.LOSSY and (early.witness.path, early.witness.token) == ((1,), None)
    assert check(draws(RAGGED), RAGGED, limit=2000).verdict is Verdict.NOT_REFUTED


def test_a_certain_text_is_checked_too():
    greedy = {(0, 1, 2, 0): 1}
    assert check(lambda number, seed: [(0, 1, 2, 0)] * number, greedy, limit=1000).verdict is Verdict.NOT_REFUTED
    assert check(lambda number, seed: [(0, 1, 1, 0)] * number, greedy).witness.path == (0, 1)


def test_float_laws_and_arrays_of_texts_do():
    law = {text: float(weight) for text, weight in machine_law().items()}
    sample = draws(machine_law())
    found = check(lambda number, seed: np.array(sample(number, seed)), law, limit=1000)
    assert found.says == check(sample, machine_law(), limit=1000).says


def test_the_result_does_not_depend_on_the_number_of_processes():
    """Runs that end early and runs that end at the limit, a batch short."""
    for law, limit in [(law_of(mutants.bonus_from_previous_row), 10_000), (machine_law(), 1100)]:
        one, two = (replace(check(draws(law), machine_law(), limit=limit, jobs=jobs), seconds=0) for jobs in (1, 2))
        assert one == two


def test_seeds_differ_from_batch_to_batch_and_repeat_from_run_to_run():
    def seeds_of(seed):
        seen = []
        sample = draws(COIN)
        check(lambda number, s: seen.append((number, s)) or sample(number, s), COIN, limit=450, seed=seed)
        return seen

    assert [number for number, _ in seeds_of(0)] == [200, 200, 50]
    assert len({seed for _, seed in seeds_of(0) + seeds_of(1)}) == 6 and seeds_of(0) == seeds_of(0)
    assert all(0 <= seed < 2**63 for _, seed in seeds_of(2))


def test_progress_is_told_after_each_batch():
    told = []
    check(draws(machine_law()), machine_law(), limit=1000, batch=10, progress=lambda *state: told.append(state))
    assert [n for n, _, _ in told] == list(range(10, 1001, 10))
    bounds = [bound for _, _, bound in told]
    assert bounds == sorted(bounds, reverse=True) and all(e < math.log(1e9) for _, e, _ in told)


# ---- what is no sampler -----------------------------------------------------------------------------------------------


def raises(number, seed):
    raise RuntimeError("out of memory")


def exits(number, seed):
    raise SystemExit(3)


def endless(number, seed):
    return iter(lambda: (0, 1, 2, 0), None)


RUBBISH = {
    "raises": (raises, "RuntimeError: out of memory"),
    "exits": (exits, "SystemExit: 3"),
    "nothing": (lambda number, seed: None, "NoneType"),
    "a number": (lambda number, seed: 5, "int"),
    "texts of nothing": (lambda number, seed: [None] * number, "NoneType"),
    "strings": (lambda number, seed: ["abca"] * number, "str"),
    "floats": (lambda number, seed: [(0.0, 1.0, 2.0, 0.0)] * number, "float"),
    "too few": (lambda number, seed: [(0, 1, 2, 0)] * (number - 1), "199 texts, where 200"),
    "texts without end": (endless, "more texts, where 200"),
    "short": (lambda number, seed: [(0, 1, 2)] * number, "3 tokens, where 4"),
    "long": (lambda number, seed: [(0, 1, 2, 0, 1)] * number, "more than 4 tokens, where 4"),
    "a text without end": (lambda number, seed: [iter(int, 1)] * number, "more than 4 tokens"),
    "negative": (lambda number, seed: [(0, 1, 2, -1)] * number, "below 0"),
    "outside": (lambda number, seed: [(0, 1, 2, 3)] * number, "a vocabulary of 3"),
    "one text again and again": (lambda number, seed: draws(machine_law())(number, 7), "not independent"),
}


@pytest.mark.parametrize(("sample", "fault"), RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_a_finding_with_its_input(sample, fault):
    found = check(sample, machine_law(), vocab_size=3)
    assert found.verdict is Verdict.BROKEN and fault in found.says and found.witness is None
    assert found.says.startswith("sample(200, ")


def test_a_sampler_that_never_stops_is_a_finding(monkeypatch):
    def stuck(number, seed):
        while True:
            pass

    monkeypatch.setattr(guard, "SECONDS", 0.2)
    found = check(stuck, machine_law())
    assert found.verdict is Verdict.BROKEN and "did not end within 0.2 s" in found.says


def test_a_worker_that_dies_is_a_finding_and_one_that_cannot_be_sent_an_error():
    def dies(number, seed):
        os._exit(1)

    found = check(dies, machine_law(), jobs=2)
    assert found.verdict is Verdict.BROKEN and "worker process died" in found.says
    lock = threading.Lock()
    with pytest.raises(ValueError, match="jobs=1"):
        check(lambda number, seed: [lock], machine_law(), jobs=2)


@pytest.mark.parametrize(
    ("law", "options", "message"),
    [
        ({}, {}, "no texts"),
        ({(0,): F(1, 2)}, {}, r"sums to 0\.5"),
        ({(0,): math.nan}, {}, "sums to nan"),
        ({(0,): F(3, 2), (1,): F(-1, 2)}, {}, "smallest probability is -0.5"),
        ({"ab": 1}, {}, "no tuple"),
        (COIN, {"false_alarm": 0}, "false_alarm is 0"),
        (COIN, {"limit": 0}, "limit 0"),
        (COIN, {"jobs": 0}, "jobs 0"),
    ],
)
def test_bad_arguments_are_errors(law, options, message):
    with pytest.raises(ValueError, match=message):
        check(lambda number, seed: [(0,)] * number, law, **options)


def test_equal_laws_have_no_power():
    with pytest.raises(ValueError, match="the same"):
        power(COIN, dict(COIN))


# ---- three classic tests ----------------------------------------------------------------------------------------------

CLASSIC = [classic.first_token_distance, classic.support_and_order, classic.chi_square]


def passed(law, wrong, seed=0, number=classic.TEXTS):
    texts = draws(wrong)(number, seed)
    return [passes(texts, law) for passes in CLASSIC]


@pytest.mark.parametrize(
    ("x", "degrees", "tail"),
    [(3.841459, 1, 0.05), (5.991465, 2, 0.05), (7.814728, 3, 0.05), (18.42068, 2, 1e-4), (124.3421, 100, 0.05)],
)
def test_the_chi_square_tail_is_the_published_table(x, degrees, tail):
    assert classic.chi_square_tail(x, degrees) == pytest.approx(tail, rel=1e-5)
    assert classic.chi_square_tail(0, degrees) == 1


def test_classic_tests_pass_the_right_law_and_fail_a_coarse_mistake():
    assert passed(machine_law(), machine_law()) == [True, True, True]
    reversed_ = {(2 - text[0], *text[1:]): weight for text, weight in machine_law().items()}
    assert passed(machine_law(), reversed_) == [False, False, False]


def test_an_impossible_first_token_fails_what_looks_at_the_support():
    wrong = {(0,): F(1, 3), (1,): F(2, 3) - F(1, 50), (2,): F(1, 50)}
    assert passed(COIN, wrong)[1:] == [False, False]


def test_classic_false_alarms_are_as_stated():
    """400 samples of 1,000 texts. Of .0016 a sample, more than 6 have probability 5e-6; of 4e-4, more than 3 2e-5."""
    runs = np.array([passed(machine_law(), machine_law(), seed) for seed in range(400)])
    failed = (~runs).sum(axis=0)
    assert failed[0] <= 6 and failed[1] == 0 and failed[2] <= 3


def test_the_smallest_law_that_no_marginal_tells():
    """Two fair bits, drawn as one bit twice: TV 1/2, and every position's law is right."""
    fair = dict.fromkeys(itertools.product((0, 1), repeat=2), F(1, 4))
    twice = {(0, 0): F(1, 2), (1, 1): F(1, 2)}
    assert passed(fair, twice)[::2] == passed(fair, twice, number=50_000)[::2] == [True, True]
    found = check(draws(twice), fair)
    assert found.verdict is Verdict.LOSSY and len(found.witness.path) == 1


def test_support_and_order_pass_a_sampler_that_ignores_the_residual():
    """p = (5, 3, 2)/10, q = (2, 2, 6)/10, the correction drawn from p: (40, 32, 28)/100, in the right order. TV is .1."""
    p = {(0,): F(5, 10), (1,): F(3, 10), (2,): F(2, 10)}
    wrong = {(0,): F(40, 100), (1,): F(32, 100), (2,): F(28, 100)}
    assert passed(p, wrong, number=10_000) == [False, True, False]
    assert check(draws(wrong), p).verdict is Verdict.LOSSY


def test_first_token_tests_are_blind_to_the_previous_row_bonus():
    """Chi-square at every position sees it in 7 of 100 samples of 1,000 texts (TV .03 at the third and the fourth)."""
    runs = np.array([passed(machine_law(), law_of(mutants.bonus_from_previous_row), seed) for seed in range(100)])
    assert runs[:, :2].sum(axis=0).min() >= 97 and runs[:, 2].sum() > 75
