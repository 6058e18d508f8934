"""Drafts whose rows have names, laws that are summed once, and the end of a model's context: shortcuts that change no law."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec import decoding
from specdec.chance import Random, Recorded, Scripted, Weights, inverse_transform, law_of
from specdec.decoding import Autoregressive, Speculative, Stop, generate, law_of_text
from specdec.law import RepetitionPenalty, Temperature, TopK, TopP, Transforms, exact
from specdec.models import abc_machine
from specdec.models.ngram import NGram
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table, text_law
from specdec.models.text import Vocabulary
from specdec.models.window import Window
from specdec.verification import block, strict
from strategies import exact_laws, float_laws

A, B, C = 0, 1, 2
F = Fraction
RULES = {"strict": strict.verify, "block": block.verify}
TARGET = abc_machine.remembering()[0]
TEXT = "ABACABBACCABABCBBAC"
STEPS = {
    "none": (),
    "temperature": (Temperature(F(1, 2)),),
    "top-k": (TopK(2),),
    "top-p, temperature": (TopP(F(9, 10)), Temperature(F(1, 2))),
}
PENALISED = Transforms((TopK(2), RepetitionPenalty(2)))


def ngram(exact_=True, order=3):
    return NGram(TEXT, Vocabulary("ABC"), order, exact=exact_)


class Watched:
    """A draft with named rows that counts how it is asked."""

    def __init__(self, model):
        self._model, self.fed, self.rows, self.appended = model, 0, [], 0

    def __getattr__(self, name):
        return getattr(self._model, name)

    def feed(self, state, tokens):
        self.fed += 1
        return self._model.feed(state, tokens)

    def row(self, name):
        self.rows.append(name)
        return self._model.row(name)

    def append(self, state, tokens):
        self.appended += 1
        return self._model.append(state, tokens)


class Nameless:
    """The same draft without names."""

    def __init__(self, model):
        self._model = model
        for name in ("vocab_size", "start_token", "exact", "reach", "capacity", "start", "append", "rewind", "copy", "key"):
            setattr(self, name, getattr(model, name))


DRAFTS = {"n-gram": ngram(), "prompt lookup": PromptLookup(3, exact=True)}

# ---- named rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_draft_with_names_leaves_the_law_as_it_is(draft, gamma, verify):
    decoder = Speculative(TARGET, DRAFTS[draft], gamma, stop=Stop(length=4), verify=verify)
    assert law_of_text(decoder, [A, B, A]) == text_law(TARGET, 4, prefix=(A, B, A))
    assert decoder._known


@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("steps", STEPS)
def test_a_draft_with_names_under_transforms(steps, gamma):
    transforms, stop = Transforms(STEPS[steps]), Stop(length=3)
    expected = law_of_text(Autoregressive(TARGET, transforms, stop), [C])
    decoder = Speculative(TARGET, Watched(ngram()), gamma, transforms, stop)
    assert law_of_text(decoder, [C]) == expected
    assert decoder.draft.fed and not decoder.draft.appended
    assert len(decoder.draft.rows) == len(set(decoder.draft.rows)) == len(decoder._known)  # each is made once


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_transforms_that_read_the_prefix_do_without_names(gamma):
    """The same row then has other laws after other prefixes, so nothing may be kept under its name."""
    stop = Stop(length=3)
    decoder = Speculative(TARGET, Watched(ngram()), gamma, PENALISED, stop)
    assert law_of_text(decoder, [C]) == law_of_text(Autoregressive(TARGET, PENALISED, stop), [C])
    assert decoder.draft.appended and not decoder.draft.fed and not decoder.draft.rows and not decoder._known


class KeepsEveryLaw(Speculative):
    """Wrong in its q: keeps laws by name also where a transform reads the prefix."""

    @property
    def _named(self):
        return True


def recomputed(model, transforms, prefix):
    return transforms.law(model.append(model.start(), [model.start_token, *prefix])[-1], prefix)


def laws_used(decoder, prompt, seed):
    """Whether every q of a text is the draft's own law after its prefix."""
    seen = []

    def verify(target, draft, proposals, chance):
        seen.append((draft, list(proposals)))
        return strict.verify(target, draft, proposals, chance)

    watched = type(decoder)(decoder.target, decoder.draft, decoder.gamma, decoder.transforms, decoder.stop, verify)
    state, chance, right = watched.start(prompt), Random(seed), True
    while state.stop is None:
        before = state.tokens[1:]
        watched.step(state, chance)
        q, proposals = seen.pop()
        for i, row in enumerate(q):
            right &= (row == recomputed(decoder.draft, decoder.transforms, [*before, *proposals[:i]])).all()
    return right


@pytest.mark.parametrize("transforms", [Transforms(), Transforms((TopK(2),)), PENALISED], ids=["none", "top-k", "penalty"])
def test_every_q_is_the_drafts_own_law_after_its_prefix(transforms):
    decoder = Speculative(TARGET, ngram(), 3, transforms, Stop(length=30))
    assert all(laws_used(decoder, [A, B], seed) for seed in range(5))


def test_twin_names_under_a_transform_that_reads_the_prefix():
    """The text's law stays right, as any q is a legal draft that its proposals are really drawn from; q itself is wrong."""
    twin = KeepsEveryLaw(TARGET, ngram(), 2, PENALISED, Stop(length=3))
    assert law_of_text(twin, [C]) == law_of_text(Autoregressive(TARGET, PENALISED, Stop(length=3)), [C])
    assert not all(laws_used(KeepsEveryLaw(TARGET, ngram(), 3, PENALISED, Stop(length=30)), [A, B], s) for s in range(5))


@pytest.mark.parametrize("make", [ngram, lambda kind: PromptLookup(3, exact=kind)], ids=["n-gram", "prompt lookup"])
@pytest.mark.parametrize("kind", [True, False], ids=["exact", "float"])
def test_names_lead_to_the_rows_that_append_gives(make, kind):
    model = make(kind)
    tokens = [3, A, B, A, C, A, B, B, A]
    together, single = model.start(), model.start()
    rows = model.append(together, tokens)
    for token, row in zip(tokens, rows, strict=True):
        assert (model.row(model.feed(single, [token])) == row).all()
    assert model.key(together) == model.key(single)
    state = model.start()
    assert (model.row(model.feed(state, tokens)) == rows[-1]).all() and model.key(state) == model.key(together)
    with pytest.raises(ValueError, match="token 1 is 7"):
        model.feed(state, [A, 7])
    assert model.key(state) == model.key(together)


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("kind", [True, False], ids=["exact", "float"])
def test_with_and_without_names_texts_are_the_same_to_the_last_decision(gamma, kind):
    target = TARGET if kind else Table(TARGET.rows.astype(float))
    for seed in range(10):
        tapes = []
        for draft in (ngram(kind), Nameless(ngram(kind))):
            recorded = Recorded(Random(seed))
            made = generate(Speculative(target, draft, gamma, Transforms((TopK(2),)), Stop(length=40)), [B], recorded)
            tapes.append((made, recorded.tape))
        assert tapes[0] == tapes[1]


def test_the_laws_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(decoding, "LAWS_KEPT", 3)
    draft = Watched(ngram())
    decoder = Speculative(TARGET, draft, 2, stop=Stop(length=4))
    sizes = []
    chance = Random(0)
    for turn in range(50):
        decoder.step(decoder.start([turn % 3, turn // 3 % 3]), chance)
        sizes.append(len(decoder._known))
    assert max(sizes) == 3 and min(sizes[5:]) == 1  # emptied when full, and filled again
    assert law_of_text(decoder) == text_law(TARGET, 4)
    assert len(draft.rows) > len(set(draft.rows))  # what was thrown away was made again


def test_each_decoder_keeps_laws_of_its_own():
    decoder = Speculative(TARGET, ngram(), 2, stop=Stop(length=3))
    generate(decoder, [], Random(0))
    other = replace(decoder, transforms=Transforms((TopK(1),)))
    assert decoder._known and not other._known and other == replace(other)
    assert law_of_text(other) == law_of_text(Autoregressive(TARGET, other.transforms, Stop(length=3)))


# ---- weights summed once -------------------------------------------------------------------------------------------


def boundaries(cumulative):
    """Uniforms at each boundary of a law's running sums, and a little to both sides."""
    points = [u for c in cumulative for u in (c / cumulative[-1],)]
    if isinstance(cumulative[-1], float):
        around = [v for u in points for v in (np.nextafter(u, 0), u, np.nextafter(u, 2))]
        return [float(u) for u in [0.0, *around, 1 - 2**-53] if 0 <= u < 1]
    return [u for p in points for u in (p - F(1, 10**9), p, p + F(1, 10**9)) if 0 <= u < 1] + [F(0)]


@given(exact_laws() | float_laws())
def test_draws_from_weights_are_draws_from_their_array(law):
    weights = Weights(law)
    for u in boundaries(np.cumsum(law)):
        index = inverse_transform(law, u)
        assert inverse_transform(weights, u) == Scripted([u]).draw(weights, "propose") == index
        assert Scripted([0]).draw(weights, "propose", u=u) == index
        assert law[index] > 0
        if law.dtype == object:  # the definition, term by term
            running = [sum(law[: i + 1]) for i in range(len(law))]
            assert index == next(i for i, c in enumerate(running) if u < c)


def test_weights_under_enumeration_and_on_tape():
    law = exact([0, 1, 2, 0], 3)
    assert law_of(lambda chance: chance.draw(Weights(law), "propose")) == {1: F(1, 3), 2: F(2, 3)}
    twice = law_of(lambda chance: (lambda u: (chance.draw(Weights(law), "propose", u=u), u < F(1, 2)))(chance.uniform("propose")))
    assert twice == {(1, True): F(1, 3), (2, True): F(1, 6), (2, False): F(1, 2)}
    recorded = Recorded(Scripted([F(1, 3)]))
    assert recorded.draw(Weights(law), "propose") == 2
    assert recorded.tape[0].asked == (0, F(1, 3), F(2, 3), 0)


def test_weights_are_an_array_to_numpy():
    law = np.array([0.25, 0.75])
    weights = Weights(law)
    assert weights.values is law and np.asarray(weights).tolist() == [0.25, 0.75]
    assert np.argmax(weights) == 1 and np.asarray(Weights(exact([1, 1], 2))).dtype == object
    assert np.array(weights, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    "values",
    [np.array([]), np.ones((2, 2)), np.array([0.0, 0.0]), np.array([1.0, -0.5]), np.array([np.nan, 1]), np.array([np.inf, 1]),
     exact([0, 0]), exact([2, -1])],
    ids=str,
)  # fmt: skip
def test_bad_weights_are_refused_when_they_are_made(values):
    with pytest.raises(ValueError, match="weights"):
        Weights(values)


# ---- the end of a context ------------------------------------------------------------------------------------------


class Bounded(Window):
    """A model that holds ``capacity`` tokens, the start token included, and refuses one more."""

    def __init__(self, model, capacity):
        self.vocab_size, self.start_token, self.exact = model.vocab_size, model.start_token, model.exact
        self._model, self.capacity, self.longest = model, capacity, 0

    def append(self, state, tokens):
        assert len(state) + len(tokens) <= self.capacity, "fed beyond its context"
        self.longest = max(self.longest, len(state) + len(tokens))
        return self._model.append(state, tokens)


@pytest.mark.parametrize("capacity", [2, 3, 5])
def test_a_text_ends_where_the_context_does(capacity):
    """The last token needs no place: ``capacity`` tokens are held, the start token and all generated ones but the last."""
    target = Bounded(TARGET, capacity)
    law = law_of_text(Autoregressive(target, stop=Stop(tokens=frozenset())), length=99)
    assert law == text_law(TARGET, capacity)
    made = generate(Autoregressive(target), [], Random(0))
    assert made.ledger.records[-1].stop == "context" and len(made.tokens) == capacity


@pytest.mark.parametrize("verify", RULES.values(), ids=RULES)
@pytest.mark.parametrize(("gamma", "capacities"), [(1, (4, 4)), (2, (4, 4)), (3, (4, 9)), (2, (4, 2)), (3, (4, 1)), (2, (4, 3))])
def test_speculation_ends_there_with_the_same_law(gamma, capacities, verify):
    target, draft = (Bounded(model, capacity) for model, capacity in zip(abc_machine.remembering(), capacities, strict=True))
    decoder = Speculative(target, draft, gamma, verify=verify)
    assert law_of_text(decoder, length=99) == text_law(TARGET, 4)
    assert target.longest == 4 and draft.longest <= min(capacities)


def test_gamma_is_cut_to_what_the_contexts_leave_room_for():
    models = abc_machine.remembering()

    def gammas(target, draft, prompt, length=None):
        decoder = Speculative(Bounded(models[0], target), Bounded(models[1], draft), 4, stop=Stop(length))
        return decoder.round_gamma(decoder.start([A] * prompt))

    # With h tokens held, the target's pass ends at h + γ, and the draft's last at h + γ - 1.
    assert [gammas(8, math.inf, prompt) for prompt in range(8)] == [4, 4, 4, 4, 3, 2, 1, 0]
    assert [gammas(math.inf, 5, prompt) for prompt in range(8)] == [4, 4, 3, 2, 1, 0, 0, 0]
    assert [gammas(8, 5, prompt, 3) for prompt in range(8)] == [2, 2, 2, 2, 1, 0, 0, 0]


def test_records_near_the_end():
    """Whatever is accepted, no round reaches beyond the context, and the last one says why the text ends."""
    same = abc_machine.remembering()[0]
    decoder = Speculative(Bounded(same, 12), Bounded(same, 12), 4)
    records = generate(decoder, [], Random(0)).ledger.records
    assert [(r.gamma, r.emitted, r.committed, r.stop) for r in records] == [
        (4, 5, 5, None), (4, 5, 5, None), (1, 2, 2, "context"),
    ]  # fmt: skip
    apart = Speculative(Bounded(Table(exact([1, 0])), 5), Bounded(Table(exact([0, 1])), 5), 4)
    assert [(r.gamma, r.stop) for r in generate(apart, [], Random(0)).ledger.records] == [
        (4, None), (3, None), (2, None), (1, None), (0, "context"),
    ]  # fmt: skip


def test_a_stop_rule_on_the_last_place_names_the_reason():
    for stop, reason in [(Stop(length=4), "length"), (Stop(tokens=frozenset({0})), "stop token")]:
        decoder = Autoregressive(Bounded(Table(exact([0, 1]) if reason == "length" else exact([1, 0])), 4), stop=stop)
        state = decoder.start([1, 1, 1] if reason == "stop token" else [])
        while state.stop is None:
            record, state = decoder.step(state, Random(0))
        assert record.stop == reason


@pytest.mark.parametrize("make", [Autoregressive, lambda model: Speculative(model, TARGET, 2)], ids=["alone", "speculative"])
def test_a_prompt_that_exceeds_the_context(make):
    decoder = make(Bounded(TARGET, 4))
    with pytest.raises(ValueError, match="a prompt of 4 tokens and the start token exceed the target's context of 4"):
        decoder.start([A] * 4)
    record, _ = decoder.step(decoder.start([A] * 3), Random(0))
    assert (record.committed, record.stop) == (1, "context")


def test_a_context_ends_a_text_without_any_rule_and_nothing_else_does():
    assert len(generate(Speculative(Bounded(TARGET, 6), TARGET, 2), [], Random(0)).tokens) == 6
    for decoder in (Autoregressive(TARGET), Speculative(TARGET, Bounded(TARGET, 6), 2)):
        with pytest.raises(ValueError, match="generate needs a stop rule"):
            generate(decoder, [], Random(0))


class BeyondTheContext(Speculative):
    """Wrong: cuts γ by the length cap alone."""

    def round_gamma(self, state):
        return self.gamma


def test_twin_a_gamma_that_is_not_cut_feeds_beyond_the_context():
    models = [Bounded(model, 4) for model in abc_machine.remembering()]
    with pytest.raises(AssertionError, match="fed beyond its context"):
        law_of_text(BeyondTheContext(*models, 2), length=99)


# ---- stop rules that only count ------------------------------------------------------------------------------------


def slow_first(stop, generated, new):
    """``Stop.first`` token by token, as for any other rule."""
    text = list(generated)
    for kept, token in enumerate(new, start=1):
        text.append(token)
        reason = stop.reason(text)
        if reason:
            return kept, reason
    return len(new), None


@given(
    st.none() | st.integers(1, 12),
    st.lists(st.integers(0, 2), max_size=11),
    st.lists(st.integers(0, 2), min_size=1, max_size=8),
    st.frozensets(st.integers(0, 2), max_size=1),
)
def test_counting_at_once_is_counting_token_by_token(length, generated, new, tokens):
    """For every text that has not ended yet: the decoders ask after no other."""
    stop = Stop(length=length, tokens=tokens)
    if length is not None:
        generated = generated[: length - 1]
    assert stop.first(generated, new) == slow_first(stop, generated, new)


def test_clock_laps_and_shares(monkeypatch):
    times = iter([10.0, 11.0, 13.0, 20.0, 21.5])
    monkeypatch.setattr(decoding.time, "perf_counter", lambda: next(times))
    clock = decoding.Clock()
    clock.lap("drafting")
    clock.lap("drafting")
    clock.take_up(0.25, "verifying")  # the seven seconds until now were counted by someone else
    clock.lap("verifying")
    assert clock.seconds == {"drafting": 3.0, "verifying": 1.75}
