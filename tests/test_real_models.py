"""The shipped models under the decoder: the law to 1e-9 on rows computed once, the kernels against each other, greedy texts.

A float row depends a little on the pass that computes it. So exactness is tried in two parts: the rule on *canonical* rows,
each computed once by one-token passes and remembered, and the kernels by how far their rows lie from these.
"""

import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from specdec import batch
from specdec.benchmark import paired
from specdec.chance import Random
from specdec.conformance import mutants
from specdec.decoding import Autoregressive, Speculative, State, Stop, generate, law_of_text
from specdec.law import Temperature, TopK, Transforms, softmax, total_variation
from specdec.models import shipped
from specdec.models.ngram import NGram
from specdec.models.text import docstrings
from specdec.models.window import Window
from specdec.verification import block, strict

TARGETS = ("small", "base", "draft")
PAIRS = (("small", "small-ngram"), ("base", "base-ngram"), ("small", "draft"))
RULES = {"strict": strict.verify, "block": block.verify}
CLOSE = 1e-4
"""The largest distance, in TV, that kernels may put between two rows of one context; below it, two logits are a near-tie."""


load = cache(shipped.load)


@cache
def held_out():
    """Text that no shipped model was trained on, all of it from numpy.fft."""
    return "\n\n".join(docstrings(Path(np.__file__).parent / "fft").values())


def prompts(model, number, length=24):
    """Prompts from the beginnings of lines, spread over the text."""
    text = held_out()
    begins = [text.index("\n", place) + 1 for place in np.linspace(0, len(text) - 1000, number).astype(int)]
    return [model.vocabulary.encode(text[begin : begin + length]) for begin in begins]


@pytest.fixture
def report(capsys):
    def show(line):
        with capsys.disabled():
            print(f"\n    {line}", end="")

    return show


# ---- the rule ------------------------------------------------------------------------------------------------------


class Canonical(Window):
    """A model whose row of a context is computed once, by one-token passes, and remembered."""

    exact = False

    def __init__(self, model):
        self.vocab_size, self.start_token, self.vocabulary = model.vocab_size, model.start_token, model.vocabulary
        self.capacity, self._model, self._rows, self._cache = model.capacity, model, {}, model.start()

    def append(self, state, tokens):
        rows = []
        for token in tokens:
            state.append(int(token))
            rows.append(self._row(tuple(state)))
        return np.array(rows)

    def _row(self, tokens):
        if tokens not in self._rows:
            same = [one == other for one, other in zip(self._cache.tokens, tokens[:-1], strict=False)]
            common = [*same, False].index(False)
            self._model.rewind(self._cache, common)
            for token in tokens[common:]:
                self._rows[tokens] = self._model.append(self._cache, [token])[0]
        return self._rows[tokens]


def chain_rule(model, transforms, prompt, length):
    """The law of the next tokens, by the product of the model's own rows: no decoding code."""
    law = {(): 1.0}
    for _ in range(length):
        longer = {}
        for text, weight in law.items():
            context = [model.start_token, *prompt, *text]
            row = transforms.law(model.append(model.start(), context)[-1])
            longer |= {(*text, token): weight * row[token] for token in np.flatnonzero(row).tolist()}
        law = longer
    return law


def distance(one, other):
    return sum(abs(one.get(text, 0) - other.get(text, 0)) for text in {*one, *other}) / 2


TOP5 = Transforms((TopK(5),))


@cache
def canonical(name):
    return Canonical(load(name)) if shipped.card(name)["kind"] == "transformer" else load(name)


@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
def test_three_characters_have_the_targets_own_law(pair, report):
    for name in pair:
        load(name)
    target, draft = map(canonical, pair)
    prompt = prompts(target, 3)[1]
    expected = chain_rule(target, TOP5, prompt, 3)
    assert len(expected) == 125 and abs(sum(expected.values()) - 1) < 1e-12
    for rule, verify in RULES.items():
        for gamma in (1, 2):
            law = law_of_text(Speculative(target, draft, gamma, TOP5, Stop(length=3), verify), prompt)
            found = distance(law, expected)
            report(f"{'/'.join(pair)}, {rule}, gamma {gamma}: TV {found:.1e} over {len(expected)} texts")
            assert found < 1e-9
    twin = distance(
        law_of_text(Speculative(target, draft, 2, TOP5, Stop(length=3), mutants.residual_is_p), prompt), expected
    )
    report(f"{'/'.join(pair)}, residual_is_p, gamma 2: TV {twin:.4f}")
    assert twin > 1e-3


# ---- the kernels ---------------------------------------------------------------------------------------------------


def one_by_one(model, tokens):
    state = model.start()
    return softmax(np.concatenate([model.append(state, [token]) for token in tokens]))


@pytest.mark.parametrize("name", TARGETS)
def test_rows_of_several_positions_are_those_of_single_passes(name, report):
    model = load(name)
    tokens = [model.start_token, *model.vocabulary.encode(held_out()[:191])]
    single = one_by_one(model, tokens)
    distances = []
    for n in range(2, 17):
        state = model.start()
        rows = np.concatenate([model.append(state, tokens[i : i + n]) for i in range(0, len(tokens), n)])
        distances.append(total_variation(single, softmax(rows)))
    found = np.array(distances)
    report(f"{name}, passes over 2 to 16 rows: TV median {np.median(found):.1e}, largest {found.max():.1e} of {found.size}")
    assert found.max() < CLOSE


@pytest.mark.parametrize("name", TARGETS)
def test_rows_of_a_batch_are_those_of_single_passes(name, report):
    model = load(name)
    texts = [[model.start_token, *model.vocabulary.encode(held_out()[i : i + 119])] for i in range(0, 2000, 500)]
    states, fed, distances = [model.start() for _ in texts], [0] * len(texts), []
    single = [one_by_one(model, text) for text in texts]
    generator = np.random.default_rng(0)
    while max(fed) <= 120 - 8:
        numbers = generator.integers(1, 9, len(texts)).tolist()
        feeds = [text[begin : begin + n] for text, begin, n in zip(texts, fed, numbers, strict=True)]
        for i, rows in enumerate(batch.append_all(model, states, feeds)):
            distances += total_variation(single[i][fed[i] : fed[i] + numbers[i]], softmax(rows)).tolist()
            fed[i] += numbers[i]
    report(f"{name}, batches of {len(texts)}: TV median {np.median(distances):.1e}, largest {max(distances):.1e}")
    assert len(distances) > 250 and max(distances) < CLOSE


# ---- greedy texts --------------------------------------------------------------------------------------------------

GREEDY = Transforms((Temperature(0),))


@pytest.mark.parametrize(("pair", "number"), list(zip(PAIRS, (16, 3, 2), strict=True)), ids=["/".join(pair) for pair in PAIRS])
def test_greedy_texts_are_the_same(pair, number, report):
    """Until two logits lie so near each other that the kernels order them differently: such a place is counted, and ends it."""
    target, draft = map(load, pair)
    same, ties = 0, []
    for i, prompt in enumerate(prompts(target, number)):
        stop, verify = Stop(length=200), list(RULES.values())[i % 2]
        plain = generate(Autoregressive(target, GREEDY, stop), prompt, Random(0)).tokens
        quick = generate(Speculative(target, draft, 5, GREEDY, stop, verify), prompt, Random(0)).tokens
        differ = [place for place, (one, other) in enumerate(zip(plain, quick, strict=True)) if one != other]
        same += differ[0] if differ else 200
        if differ:
            row = target.append(target.start(), [target.start_token, *prompt, *plain[: differ[0]]])[-1]
            top = np.sort(row)[-2:]
            ties.append(float(top[1] - top[0]))
            assert set(np.argsort(row)[-2:].tolist()) == {plain[differ[0]], quick[differ[0]]}
            assert ties[-1] < CLOSE, f"text {i} differs at {differ[0]} where the logits are {ties[-1]} apart"
    report(f"{'/'.join(pair)}: {same} of {200 * number} characters equal; near-ties: {len(ties)} {ties or ''}")
    assert same >= 200 * number * 0.8


# ---- caches --------------------------------------------------------------------------------------------------------


def rows_off(target, draft, length, seed=0, gamma=5):
    """The largest TV between the rows that a text was verified with and recomputed ones, and the accepted lengths."""
    used = []

    def verify(p, q, proposals, chance):
        used.append((p, list(proposals)))
        return strict.verify(p, q, proposals, chance)

    decoder = Speculative(target, draft, gamma, stop=Stop(length=length), verify=verify)
    state, chance, worst, accepted = decoder.start(prompts(target, 2)[0]), Random(seed), 0.0, set()
    while state.stop is None:
        before = list(state.tokens)
        record, state = decoder.step(state, chance)
        accepted |= {record.accepted} if record.gamma == gamma else set()
        p, proposals = used.pop()
        fresh = target.append(target.start(), before + proposals)[len(before) - 1 :]
        worst = max(worst, total_variation(p, softmax(fresh)).max())
    return worst, accepted


@pytest.mark.parametrize("pair", PAIRS, ids="/".join)
def test_cached_rows_are_recomputed_rows_whatever_was_accepted(pair, report):
    worst, accepted = rows_off(*map(load, pair), length=190)
    report(f"{'/'.join(pair)}: largest TV of a cached row {worst:.1e}; accepted lengths {sorted(accepted)}")
    assert worst < CLOSE and accepted == {0, 1, 2, 3, 4, 5}


class BlanksAKey:
    """Wrong: each rewind loses the keys of the last place that it keeps."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def rewind(self, state, length):
        self._model.rewind(state, length)
        state.keys[..., state.cached - 1] = 0


def test_twin_a_rewind_that_loses_a_key():
    worst, _ = rows_off(BlanksAKey(load("small")), load("small-ngram"), length=40)
    assert worst > 100 * CLOSE


# ---- samples -------------------------------------------------------------------------------------------------------

SAMPLES = 1000
FALSE_ALARM = 1e-3
SMALLEST = 0.19
"""TV of two pair laws that the comparison would catch with 99 of 100 seeds.

The statistic's non-centrality is at least 2 N TV² = 72, by Cauchy and Schwarz. At 24 degrees of freedom, those of 5 · 5 pairs,
the critical value at 1e-3 is 51.2, and a χ² of mean 24 + 72 exceeds it in 99.7 % of cases.
"""


def pairs_drawn(decoder, prompt, seed):
    """How often each pair of characters follows the prompt, in SAMPLES independent texts."""
    chance, start, counts = Random(seed), decoder.start(prompt), {}
    for _ in range(SAMPLES):
        state = State(list(start.tokens), start.prompt, start.caches)  # a step begins by rewinding the caches
        while state.stop is None:
            decoder.step(state, chance)
        pair = tuple(state.generated)
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def p_value(one, other, seed=0, permutations=5000):
    """Of the χ² of homogeneity, by permutation: exact at any counts. Pairs drawn less than ten times count as one."""
    keys = {*one, *other}
    table = np.array([[counts.get(key, 0) for key in keys] for counts in (one, other)])
    rare = table.sum(axis=0) < 10
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    both = table.sum(axis=0)

    def statistic(first):
        return ((first - both / 2) ** 2 / both).sum(axis=-1)  # up to a factor, as both samples have one size

    generator = np.random.default_rng(seed)
    shuffled = generator.multivariate_hypergeometric(both, int(table[0].sum()), permutations, method="marginals")
    return (1 + int((statistic(shuffled) >= statistic(table[0]) - 1e-9).sum())) / (1 + permutations)


def test_pairs_of_characters_do_not_tell_speculation_from_the_target(report):
    """False alarm: 1e-3 for each rule, at seeds that are fixed. The twin shows that the comparison sees what it should."""
    target = load("small")
    draft = NGram(held_out(), target.vocabulary, 1)  # a poor one: it knows no context
    prompt = target.vocabulary.encode("    Parameters\n    ")
    stop = Stop(length=2)
    plain = pairs_drawn(Autoregressive(target, TOP5, stop), prompt, seed=1)
    for seed, (rule, verify) in enumerate(RULES.items(), start=2):
        found = p_value(plain, pairs_drawn(Speculative(target, draft, 1, TOP5, stop, verify), prompt, seed))
        report(f"pairs of characters, {rule}: p = {found:.3f}")
        assert found > FALSE_ALARM
    twin = Speculative(target, draft, 1, TOP5, stop, mutants.residual_is_p)
    exactly = distance(
        law_of_text(Speculative(canonical("small"), draft, 1, TOP5, stop, mutants.residual_is_p), prompt),
        chain_rule(canonical("small"), TOP5, prompt, 2),
    )
    caught = p_value(plain, pairs_drawn(twin, prompt, 4))
    report(f"pairs of characters, residual_is_p: TV {exactly:.3f}, p = {caught:.4f}")
    assert exactly > SMALLEST and caught <= FALSE_ALARM


# ---- speed ---------------------------------------------------------------------------------------------------------


def test_speculation_on_small_is_faster_than_its_target_alone(report):
    """The suite's only bound on a time, far below what is measured: a machine may be slow, but it is slow for both."""
    target, draft = load("small"), load("small-ngram")
    starts, stop = prompts(target, 5), Stop(length=192)

    def arm(decoder):
        return lambda turn: len(generate(decoder, starts[turn % 5], Random(turn)).tokens)

    arms = {"plain": arm(Autoregressive(target, stop=stop)), "speculative": arm(Speculative(target, draft, 5, stop=stop))}
    for _ in range(2):
        begin = time.perf_counter()
        speedup = paired.run(arms, turns=5).speedup("speculative", "plain")
        report(f"speedup on small at gamma 5: {speedup['median']:.2f} ({time.perf_counter() - begin:.1f} s)")
        if speedup["median"] > 1.0:
            return
    pytest.fail(f"speculation is slower than the target alone: {speedup}")
