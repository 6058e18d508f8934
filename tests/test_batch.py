"""Texts side by side: each has the law, the tokens and the ledger that it has alone, whatever its neighbours do."""

import time
from fractions import Fraction

import numpy as np
import pytest

import tiny
from specdec import batch
from specdec.benchmark.passes import random_transformer
from specdec.chance import Random, Scripted, law_of, law_of_process
from specdec.conformance import loop_mutants
from specdec.decoding import Speculative, Stop, copy_state, generate, state_key
from specdec.law import Temperature, Transforms, exact, to_law
from specdec.models import abc_machine
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table, text_law
from specdec.models.transformer import Transformer
from specdec.verification import block, strict

A, B, C = 0, 1, 2
F = Fraction
PROMPTS = [[A], [C, B]]
TWO_SYMBOLS = Table(exact([[1, 4], [4, 1], [2, 3]], 5)), Table(exact([[3, 2], [2, 3], [1, 4]], 5))
RULES = {"strict": strict.verify, "block": block.verify}


def product(one, other):
    return {(a, b): weight * more for a, weight in one.items() for b, more in other.items()}


def distance(one, other):
    return sum(abs(one.get(outcome, 0) - other.get(outcome, 0)) for outcome in {*one, *other}) / 2


def alone(target, length, prompts=PROMPTS):
    """The joint law of texts that know nothing of each other: the chain rule on the target's rows, and a product."""
    return product(*(text_law(target, length, prefix=tuple(prompt)) for prompt in prompts))


def joint_law(decoder, prompts=PROMPTS, chances=lambda chance: [chance, chance]):
    """The joint law of the texts of ``batch.generate``, which makes all its choices along every branch."""
    return law_of(lambda chance: tuple(made.tokens for made in batch.generate(decoder, prompts, chances(chance))))


# ---- the law -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
def test_two_texts_have_the_product_of_their_own_laws(verify):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 1, stop=Stop(length=2), verify=verify)
    assert joint_law(decoder) == alone(target, 2)


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
def test_two_texts_of_three_tokens_at_gamma_two(verify):
    """Rounds of one, two and three tokens meet: the texts run apart, and one stops while the other goes on."""
    target, draft = TWO_SYMBOLS
    decoder = Speculative(target, draft, 2, stop=Stop(length=3), verify=verify)
    assert joint_law(decoder, [[A], [B, B]]) == alone(target, 3, [[A], [B, B]])


def test_a_round_of_three_symbols_at_gamma_two_composed_until_both_have_three_tokens():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(length=3))

    def step(states, chance):
        states = [copy_state(decoder, state) for state in states]
        running = [state for state in states if state.stop is None]
        batch.step(decoder, running, [chance] * len(running))
        return states

    law = law_of_process(
        step,
        [decoder.start(prompt) for prompt in PROMPTS],
        done=lambda states: all(state.stop for state in states),
        key=lambda states: tuple(state_key(decoder, state) for state in states),
        outcome=lambda states: tuple(tuple(state.generated) for state in states),
    )
    assert law == alone(target, 3)


def test_a_draft_with_named_rows_and_texts_that_stop_at_a_token():
    target = abc_machine.remembering()[0]
    stop = Stop(length=2, tokens=frozenset({B}))
    decoder = Speculative(target, PromptLookup(3, exact=True), 1, stop=stop)
    prompts = [[A, C, A], [C, C]]

    def cut(law):
        out = {}
        for text, weight in law.items():
            kept = text[:1] if text[0] == B else text
            out[kept] = out.get(kept, 0) + weight
        return out

    assert joint_law(decoder, prompts) == product(*(cut(text_law(target, 2, prefix=tuple(prompt))) for prompt in prompts))


# ---- wrong twins ---------------------------------------------------------------------------------------------------


def test_twin_the_same_seed_for_every_text():
    """Each text alone has the right law, and the two are far from independent."""
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 1, stop=Stop(length=2))
    law = joint_law(decoder, chances=lambda chance: loop_mutants.one_seed_for_all(chance, 2))
    for i, prompt in enumerate(PROMPTS):
        marginal = {}
        for texts, weight in law.items():
            marginal[texts[i]] = marginal.get(texts[i], 0) + weight
        assert marginal == text_law(target, 2, prefix=tuple(prompt))
    assert distance(law, alone(target, 2)) == F(3461, 15000)


def test_twin_the_neighbours_rows():
    target, draft = abc_machine.remembering()
    decoder = Speculative(loop_mutants.NeighboursRows(target), draft, 1, stop=Stop(length=2))
    law = joint_law(decoder)
    assert distance(law, alone(target, 2)) == F(3663, 5000)
    # A text that has no neighbour does not show it, nor do texts whose rows are the same.
    assert law_of(lambda chance: batch.generate(decoder, [[A]], [chance])[0].tokens) == text_law(target, 2, prefix=(A,))
    forgetful = abc_machine.forgetful()
    decoder = Speculative(loop_mutants.NeighboursRows(forgetful[0]), forgetful[1], 1, stop=Stop(length=2))
    assert joint_law(decoder) == alone(forgetful[0], 2)


# ---- the same tokens -----------------------------------------------------------------------------------------------


class Spy:
    """Passes everything on and notes how many texts each batched pass had, and how many rows each of them."""

    def __init__(self, model):
        self._model, self.passes = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def append_batch(self, states, tokens):
        self.passes.append([len(fed) for fed in tokens])
        return batch.append_all(self._model, states, tokens)


def transformers():
    """A target and a draft of random weights, of no use but for their arithmetic."""
    return [Transformer(tiny.random_weights(seed), tiny.HEADS, tiny.VOCABULARY) for seed in (0, 1)]


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
@pytest.mark.parametrize("gamma", [0, 3])
def test_the_same_seeds_give_the_same_tokens_in_a_batch_and_alone(gamma, verify):
    target, draft = transformers()
    decoder = Speculative(target, draft, gamma, Transforms((Temperature(0.7),)), Stop(tokens=frozenset({4})), verify)
    prompts = [[seed % 10] * (1 + seed % 5) for seed in range(7)]
    together = batch.generate(decoder, prompts, [Random(seed) for seed in range(7)])
    for seed, made in enumerate(together):
        single = generate(decoder, prompts[seed], Random(seed))
        assert (made.tokens, made.origins) == (single.tokens, single.origins)
        assert made.ledger.records == single.ledger.records  # seconds aside
    assert len({len(made.tokens) for made in together}) > 2
    assert {made.ledger.records[-1].stop for made in together} == {"stop token", "context"}


@pytest.mark.parametrize("model", [transformers()[0], random_transformer(2, 32, 4, window=64)], ids=["tiny", "wider"])
def test_rows_of_a_batched_pass_are_those_of_single_passes(model):
    generator = np.random.default_rng(0)
    together, single = ([model.start() for _ in range(4)] for _ in range(2))
    largest = 0.0
    for numbers in ([3, 1, 2, 5], [1, 1, 1, 1], [4, 2, 1, 3], [1, 6, 2, 2]):
        feeds = [generator.integers(0, model.vocab_size, number).tolist() for number in numbers]
        rows = batch.append_all(model, together, feeds)
        for state, fed, its_rows in zip(single, feeds, rows, strict=True):
            expected = model.append(state, fed)
            assert its_rows.shape == expected.shape
            largest = max(largest, abs(its_rows - expected).max(), abs(to_law(its_rows) - to_law(expected)).max())
    assert largest < 1e-4


def test_models_without_a_batched_pass_are_asked_one_by_one():
    model = abc_machine.remembering()[0]
    states = [model.start(), model.start()]
    rows = batch.append_all(model, states, [[3, A], [3]])
    assert [its.tolist() for its in rows] == [model.rows[[3, A]].tolist(), model.rows[[3]].tolist()]
    assert states == [[3, A], [3]]
    with pytest.raises(ValueError, match="zip"):
        batch.append_all(model, states, [[A]])


# ---- ragged rounds and stops ---------------------------------------------------------------------------------------

YES, NO, LATE = 0, F(99, 100), F(99, 100)


def test_each_text_keeps_what_its_own_verification_accepts():
    target, draft = abc_machine.remembering()
    spy = Spy(target)
    decoder = Speculative(spy, draft, 2)
    states = [decoder.start([C]), decoder.start([C])]
    propose = [LATE, 0]  # C, whose ratio after C is 3 and counts as accepted, then A, whose ratio is 1/3
    chances = [Scripted([*propose, YES, YES, LATE, 0, 0, 0, 0, 0]), Scripted([*propose, YES, NO, LATE, 0, 0, 0, 0, 0])]
    records = batch.step(decoder, states, chances)
    assert [record.accepted for record in records] == [2, 1]
    assert [record.round.origins[-1] for record in records] == ["bonus", "correction"]
    assert [len(state.tokens) for state in states] == [5, 4]
    assert states[0].tokens[:4] == [3, C, C, A] and states[1].tokens == [3, C, C, C]
    assert [state.caches["target"] for state in states] == [state.tokens[:-1] for state in states]
    records = batch.step(decoder, states, chances)
    assert spy.passes == [[4, 4], [3, 3]]  # the prompt and two proposals; then the pending token and two
    for state in states:
        assert state.caches["target"] == state.tokens[: len(state.caches["target"])]
        assert state.history[0][0] == 2


def test_a_text_that_stops_leaves_the_batch():
    target, draft = abc_machine.remembering()
    spy = Spy(target)
    decoder = Speculative(spy, draft, 0, stop=Stop(length=4, tokens=frozenset({B})))
    # Without proposals every token is one draw: after C, B lies from 2/10 to 4/10; after A, from 1/10 to 7/10.
    scripts = [[LATE] * 4, [0, F(2, 10)], [LATE, LATE, F(3, 10)]]
    made = batch.generate(decoder, [[C], [C], [C]], [Scripted(script) for script in scripts])
    assert [len(text.tokens) for text in made] == [4, 2, 3]
    assert made[0].tokens == (C, C, C, C) and made[1].tokens == (A, B)
    assert [len(numbers) for numbers in spy.passes] == [3, 3, 2, 1]
    assert [text.ledger.records[-1].stop for text in made] == ["length", "stop token", "stop token"]
    assert [len(text.ledger.records) for text in made] == [4, 2, 3]


def test_no_prompts_give_no_texts():
    assert batch.generate(Speculative(*abc_machine.remembering(), 2, stop=Stop(length=2)), [], []) == []


# ---- errors --------------------------------------------------------------------------------------------------------


def test_a_stopped_text_is_named_and_nothing_is_touched():
    decoder = Speculative(*abc_machine.remembering(), 2, stop=Stop(length=3))
    states = [decoder.start(), decoder.start([A]), decoder.start()]
    batch.step(decoder, states[1:2], [Random(0)])
    while states[1].stop is None:
        batch.step(decoder, states[1:2], [Random(1)])
    before = [copy_state(decoder, state) for state in states]
    chances = [Scripted([0] * 9) for _ in states]
    with pytest.raises(ValueError, match=r"text 1 has stopped \(length\): leave it out of the batch"):
        batch.step(decoder, states, chances)
    assert states == before and [chance.used for chance in chances] == [0, 0, 0]


def test_an_endless_batch_is_refused():
    with pytest.raises(ValueError, match="generate needs a stop rule"):
        batch.generate(Speculative(*abc_machine.remembering(), 2), [[A]], [Random(0)])


# ---- seconds -------------------------------------------------------------------------------------------------------


class Slow:
    """A model whose passes take a given time on a clock of ours."""

    def __init__(self, model, clock, seconds):
        self._model, self._clock, self._seconds = model, clock, seconds

    def __getattr__(self, name):
        return getattr(self._model, name)

    def append(self, state, tokens):
        self._clock[0] += self._seconds
        return self._model.append(state, tokens)

    def append_batch(self, states, tokens):
        self._clock[0] += self._seconds
        return [self._model.append(state, fed) for state, fed in zip(states, tokens, strict=True)]


def test_the_seconds_of_the_shared_pass_are_divided(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    target, draft = abc_machine.remembering()

    def slow_rule(*args):
        clock[0] += 0.5
        return strict.verify(*args)

    decoder = Speculative(Slow(target, clock, 6.0), Slow(draft, clock, 1.0), 2, verify=slow_rule)
    states = [decoder.start() for _ in range(3)]
    records = batch.step(decoder, states, [Random(seed) for seed in range(3)])
    for record in records:
        assert record.seconds == {"drafting": 2.0, "verifying": 2.0, "choosing": 0.5, "state": 0.0}
    assert sum(sum(record.seconds.values()) for record in records) == clock[0] - 100  # nothing twice, nothing lost
