"""The theorem, executed: over several rounds the emitted text follows the target's own law, exactly, as Fractions.

The right sides never touch the decoder: ``text_law`` multiplies rows, and ``chain`` below does the same with stop rules and
transforms written out in plain Python.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec import accounting
from specdec.chance import Random, law_of
from specdec.decoding import (
    Autoregressive,
    Speculative,
    Stop,
    copy_state,
    generate,
    law_of_count,
    law_of_text,
    state_key,
)
from specdec.law import RepetitionPenalty, Temperature, TopK, TopP, Transforms, exact, overlap
from specdec.models import abc_machine
from specdec.models.automaton import Automaton
from specdec.models.table import Table, text_law
from specdec.verification import sample_match, strict

RULES = [strict.verify, sample_match.verify]
A, B, C = 0, 1, 2
CAP4 = Stop(length=4)


# ---- the right sides ----------------------------------------------------------------------------------------------


def chain(row, ends, text=()):
    """{text: probability} by the chain rule: ``row(text)`` is the next law, and a text is over when ``ends(text)``."""
    if text and ends(text):
        return {text: 1}
    law = {}
    for token, weight in enumerate(row(text)):
        if weight:
            law |= {longer: weight * rest for longer, rest in chain(row, ends, (*text, token)).items()}
    return law


def total(law):
    return sum(law.values())


def rows_of(model):
    """The next law after a text, recomputed from the start of text: no cache that could be stale."""
    return lambda text: model.append(model.start(), [model.start_token, *text])[-1]


def random_row(rng, size):
    weights = rng.integers(0, 4, size)  # zeros are common
    weights[rng.integers(size)] += 1
    return exact(weights.tolist(), int(weights.sum()))


def random_table(seed, order, size=2):
    rng = np.random.default_rng(seed)
    contexts = (size + 1,) * order
    rows = [random_row(rng, size) for _ in range(int(np.prod(contexts, dtype=int)))]
    return Table(np.array(rows, dtype=object).reshape(*contexts, size))


def random_automaton(seed, states=4, size=2, reach=4):
    rng = np.random.default_rng(seed)
    laws = np.array([random_row(rng, size) for _ in range(states)], dtype=object)
    return Automaton(rng.integers(0, states, (states, size + 1)), laws, reach)


class Wrapped:
    """A model whose rows are changed on their way out: ``change(row, tokens held, start token included)``."""

    def __init__(self, model, change):
        self._model, self._change = model, change

    def __getattr__(self, name):
        return getattr(self._model, name)

    def append(self, state, tokens):
        rows = []
        for token in tokens:
            row = self._model.append(state, [token])[-1]
            rows.append(self._change(row, list(state)))
        return np.array(rows, dtype=object).reshape(len(tokens), self.vocab_size)


# ---- the running example ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", range(4))
@pytest.mark.parametrize("verify", RULES)
def test_four_tokens_of_the_remembering_machine(verify, gamma):
    target, draft = abc_machine.remembering()
    law = law_of_text(Speculative(target, draft, gamma, stop=CAP4, verify=verify))
    assert law == text_law(target, 4)
    assert total(law) == 1 and all(isinstance(weight, Fraction) for weight in law.values())


@pytest.mark.parametrize(
    ("verify", "gamma", "length"),
    [(strict.verify, gamma, 4) for gamma in range(4)]
    + [
        (sample_match.verify, 1, 4),
        (sample_match.verify, 2, 4),
        (sample_match.verify, 3, 2),  # four tokens take 14 s here; under a cap they are checked above
    ],
)
def test_a_text_that_goes_on_beyond_the_tokens_looked_at(verify, gamma, length):
    target, draft = abc_machine.remembering()
    assert law_of_text(Speculative(target, draft, gamma, verify=verify), length=length) == text_law(target, length)


@pytest.mark.parametrize(
    ("verify", "gamma", "cap"),
    [(strict.verify, 0, 4), (strict.verify, 1, 4), (strict.verify, 2, 4), (sample_match.verify, 1, 3)],
)
def test_plain_enumeration_of_generate_agrees_with_the_composition(verify, gamma, cap):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, gamma, stop=Stop(length=cap), verify=verify)
    plain = law_of(lambda chance: generate(decoder, (), chance).tokens)
    assert plain == law_of_text(decoder) == text_law(target, cap)


def test_plain_enumeration_without_a_cap_agrees_too():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 1)

    def three_tokens(chance):
        state = decoder.start()
        while len(state.generated) < 3:
            decoder.step(state, chance)
        return tuple(state.generated[:3])

    assert law_of(three_tokens) == law_of_text(decoder, length=3) == text_law(target, 3)


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize("verify", RULES)
def test_the_forgetful_machine_and_exchanged_roles(verify, gamma):
    for one, other in [abc_machine.forgetful(), abc_machine.remembering()]:
        for target, draft in [(one, other), (other, one), (one, one)]:
            law = law_of_text(Speculative(target, draft, gamma, stop=Stop(length=3), verify=verify))
            assert law == text_law(target, 3)


@pytest.mark.parametrize("prompt", [[A], [C, B], [B, B, C, A]])
def test_after_a_prompt(prompt):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(length=3))
    assert law_of_text(decoder, prompt) == text_law(target, 3, prefix=tuple(prompt))
    assert law_of_text(Autoregressive(target, stop=Stop(length=3)), prompt) == text_law(target, 3, prefix=tuple(prompt))


# ---- models with a longer memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", RULES)
@pytest.mark.parametrize("orders", [(2, 2), (2, 1), (1, 2), (2, 0), (0, 2), (3, 2)])
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_random_tables_of_any_order(orders, gamma, verify):
    target, draft = (random_table(100 * gamma + i, order) for i, order in enumerate(orders))
    decoder = Speculative(target, draft, gamma, stop=Stop(length=5), verify=verify)
    assert law_of_text(decoder) == text_law(target, 5)
    assert law_of_text(decoder, [1, 0]) == text_law(target, 5, prefix=(1, 0))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_cumulative_state_as_target_as_draft_and_as_both(seed, gamma):
    automata = random_automaton(seed), random_automaton(seed + 50)
    table = random_table(seed, 2)
    for target, draft in [automata, (automata[0], table), (table, automata[1])]:
        decoder = Speculative(target, draft, gamma, stop=CAP4)
        assert law_of_text(decoder) == chain(rows_of(target), lambda text: len(text) == 4)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_any_small_machines_from_any_prompt(data):
    size = data.draw(st.integers(2, 3))
    order = st.integers(0, 2)
    seed = st.integers(0, 10**6)
    target, draft = (random_table(data.draw(seed), data.draw(order), size) for _ in range(2))
    prompt = data.draw(st.lists(st.integers(0, size - 1), max_size=3))
    gamma, verify = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(RULES))
    law = law_of_text(Speculative(target, draft, gamma, stop=Stop(length=3), verify=verify), prompt)
    assert law == text_law(target, 3, prefix=tuple(prompt))


# ---- the law of the output count ----------------------------------------------------------------------------------


def mean(law):
    return sum(k * weight for k, weight in enumerate(law, start=1))


def count_by_enumeration(decoder, state):
    def count(chance):
        return decoder.step(copy_state(decoder, state), chance)[0].emitted

    law = law_of(count)
    return [law.get(k, 0) for k in range(1, decoder.round_gamma(state) + 2)]


@pytest.mark.parametrize("gamma", range(5))
def test_iid_counts_are_a_theorem_of_the_forgetful_machine(gamma):
    target, draft = abc_machine.forgetful()
    decoder = Speculative(target, draft, gamma)
    for prompt in [(), (A,), (C, B)]:
        assert law_of_count(decoder, decoder.start(prompt)) == (
            accounting.count_law(Fraction(3, 5), gamma),
            0,
        )


def test_iid_counts_fail_on_the_remembering_machine():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2)
    law, lost = law_of_count(decoder, decoder.start())
    assert law == count_by_enumeration(decoder, decoder.start()) == [Fraction(2, 5), Fraction(7, 25), Fraction(8, 25)]
    assert lost == 0
    assert mean(law) == Fraction(48, 25)
    assert accounting.expected_count(Fraction(3, 5), 2) == Fraction(49, 25)


def test_alpha_has_mean_three_fifths_over_the_first_two_positions_of_the_targets_own_text():
    target, draft = abc_machine.remembering()
    alphas = [overlap(p, q) for p, q in zip(target.rows, draft.rows, strict=True)]
    assert alphas == [Fraction(7, 10), Fraction(2, 5), Fraction(3, 5), Fraction(3, 5)]
    means = [
        sum(weight * alphas[symbols[-1]] for symbols, weight in text_law(target, place).items()) for place in (1, 2, 3)
    ]
    assert [alphas[3], *means] == [Fraction(3, 5), Fraction(3, 5), Fraction(547, 1000), Fraction(2913, 5000)]


@pytest.mark.parametrize(
    ("verify", "first_round"),
    [(strict.verify, Fraction(48, 25)), (sample_match.verify, Fraction(2671, 2000))],
)
def test_the_first_rounds_mean_by_rule(verify, first_round):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, verify=verify)
    assert mean(count_by_enumeration(decoder, decoder.start())) == first_round


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_law_of_count_equals_enumeration_of_step(data):
    size = data.draw(st.integers(2, 3))
    target, draft = (random_table(data.draw(st.integers(0, 10**6)), data.draw(st.integers(0, 2)), size) for _ in range(2))
    prompt = data.draw(st.lists(st.integers(0, size - 1), max_size=2))
    steps = data.draw(st.sampled_from([(), (TopK(2),), (Temperature(Fraction(1, 2)), RepetitionPenalty(2))]))
    stop = data.draw(st.sampled_from([Stop(), Stop(length=6), Stop(length=2)]))
    decoder = Speculative(target, draft, data.draw(st.integers(0, 3 if size == 2 else 2)), Transforms(steps), stop)
    state = decoder.start(prompt)
    if data.draw(st.booleans()):  # a state in the middle of a text, with caches that hold something
        decoder.step(state, Random(data.draw(st.integers(0, 99))))
    if state.stop is None:
        before = state_key(decoder, state), state.history
        law, lost = law_of_count(decoder, state)
        assert law == count_by_enumeration(decoder, state) and lost == 0 and sum(law) == 1
        assert (state_key(decoder, state), state.history) == before


def test_cumulative_state_and_a_declining_draft_are_counted_too():
    target, draft = random_automaton(1, size=3), random_automaton(2, size=3)
    declining = Wrapped(abc_machine.remembering()[1], lambda row, held: row * (held[-1] != B))
    for decoder in [Speculative(target, draft, 2), Speculative(abc_machine.remembering()[0], declining, 2)]:
        for prompt in [(), (B,), (A, C)]:
            state = decoder.start(prompt)
            assert law_of_count(decoder, state)[0] == count_by_enumeration(decoder, state)


@pytest.mark.parametrize("floor", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 20), Fraction(3, 20), Fraction(1)])
def test_pruning_states_its_error(floor):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 4)
    full, _ = law_of_count(decoder, decoder.start())
    pruned, lost = law_of_count(decoder, decoder.start(), floor=floor)
    assert sum(pruned) == 1
    errors = [sum(full[j:]) - sum(pruned[j:]) for j in range(5)]  # of P(K > j)
    assert all(0 <= error <= lost for error in errors)
    if floor == Fraction(1, 10**6):  # smaller than any path
        assert lost == 0 and pruned == full
    if floor == 1:  # every path is dropped after its first token, whose overlap is all that could be lost
        assert lost == Fraction(3, 5) and pruned == [Fraction(2, 5), Fraction(3, 5), 0, 0, 0]


def test_what_pruning_loses_is_the_weight_of_the_dropped_paths():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2)
    # Accepted first tokens weigh (2, 3, 1)/10: C is dropped, and the rest goes on with alpha .7 after A and .4 after B.
    pruned, lost = law_of_count(decoder, decoder.start(), floor=Fraction(1, 5))
    assert (pruned, lost) == ([Fraction(2, 5), Fraction(17, 50), Fraction(13, 50)], Fraction(1, 10))


# ---- stop rules and caps ------------------------------------------------------------------------------------------


def letters(tokens):
    return "".join("ABC"[token] for token in tokens)


def overlapping(tokens):
    """A tokeniser whose tokens share characters, so that a stop string can begin and end inside a token."""
    return "".join(("ab", "ba", "c")[token] for token in tokens)


STOPS = {
    "stop token": (Stop(length=4, tokens=frozenset({B})), lambda text: text[-1] == B or len(text) == 4),
    "two stop tokens": (
        Stop(length=4, tokens=frozenset({A, C})),
        lambda text: text[-1] in (A, C) or len(text) == 4,
    ),
    "stop string": (
        Stop(length=4, strings=("AB",), decode=letters),
        lambda text: letters(text).endswith("AB") or len(text) == 4,
    ),
    "overlapping strings": (
        Stop(length=4, strings=("bb", "cc", "bc"), decode=overlapping),
        lambda text: any(string in overlapping(text) for string in ("bb", "cc", "bc")) or len(text) == 4,
    ),
    "all at once": (
        Stop(length=4, tokens=frozenset({C}), strings=("BA", "AAA"), decode=letters),
        lambda text: text[-1] == C or letters(text).endswith(("BA", "AAA")) or len(text) == 4,
    ),
}


@pytest.mark.parametrize("gamma", range(4))
@pytest.mark.parametrize("name", STOPS)
def test_finished_texts_have_the_targets_law(name, gamma):
    target, draft = abc_machine.remembering()
    stop, ends = STOPS[name]
    expected = chain(rows_of(target), ends)
    assert total(expected) == 1
    assert law_of_text(Speculative(target, draft, gamma, stop=stop)) == expected


@pytest.mark.parametrize("name", STOPS)
def test_finished_texts_of_the_autoregressive_loop_and_of_sample_and_match(name):
    target, draft = abc_machine.remembering()
    stop, ends = STOPS[name]
    prompted = chain(lambda text: target.law_after((A, *text)), ends)  # the prompt's A begins no stop string
    assert law_of_text(Autoregressive(target, stop=stop), [A]) == prompted
    assert law_of_text(Speculative(target, draft, 2, stop=stop, verify=sample_match.verify), [A]) == prompted


def test_a_text_ended_by_stop_rules_alone():
    """No cap: this automaton must emit token 1 by its third token."""
    laws = exact([[1, 1], [1, 2], [0, 1]], 1) / exact([2, 3, 1])[:, None]
    target = Automaton(np.array([[1, 0, 0], [2, 0, 0], [2, 2, 0]]), laws, reach=4)
    draft = Table(exact([2, 1], 3))
    law = law_of_text(Speculative(target, draft, 3, stop=Stop(tokens=frozenset({1}))))
    assert law == {(1,): Fraction(1, 2), (0, 1): Fraction(1, 3), (0, 0, 1): Fraction(1, 6)}


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
def test_caps(cap):
    target, draft = random_table(7, 2), random_table(8, 1)
    for gamma in (0, 2, 6):
        law = law_of_text(Speculative(target, draft, gamma, stop=Stop(length=cap)))
        assert law == text_law(target, cap)


# ---- transforms ---------------------------------------------------------------------------------------------------


def ranked(row):
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


def normalised(row):
    return [weight / sum(row) for weight in row]


def by_hand(step):
    """A transform of one row of exact weights, in plain Python, for comparison."""
    if isinstance(step, TopK):
        return lambda row, prefix: [w if i in ranked(row)[: step.k] else 0 for i, w in enumerate(row)]
    if isinstance(step, TopP):

        def nucleus(row, prefix):
            law, kept = normalised(row), []
            for token in ranked(row):
                kept.append(token)
                if sum(law[i] for i in kept) >= step.p:
                    break
            return [w if i in kept else 0 for i, w in enumerate(row)]

        return nucleus
    if isinstance(step, RepetitionPenalty):
        return lambda row, prefix: [w**step.theta if i in prefix else w for i, w in enumerate(row)]
    if step.value == 0:
        return lambda row, prefix: [int(i == ranked(row)[0]) for i in range(len(row))]
    return lambda row, prefix: [w ** int(1 / step.value) for w in row]


def processed(model, steps, prompt=()):
    def row(text):
        weights, prefix = list(rows_of(model)((*prompt, *text))), (*prompt, *text)
        for step in steps:
            weights = by_hand(step)(weights, prefix)
        return normalised([Fraction(weight) for weight in weights])

    return row


HALF = Temperature(Fraction(1, 2))
STEPS = {
    "top-k": (TopK(2),),
    "top-p": (TopP(Fraction(7, 10)),),
    "temperature": (HALF,),
    "greedy": (Temperature(0),),
    "penalty": (RepetitionPenalty(2),),
    "temperature, top-p": (HALF, TopP(Fraction(7, 10))),
    "top-p, temperature": (TopP(Fraction(7, 10)), HALF),
    "penalty, top-k": (RepetitionPenalty(3), TopK(2)),
    "top-k, penalty": (TopK(2), RepetitionPenalty(3)),
    "all": (RepetitionPenalty(2), HALF, TopK(2), TopP(Fraction(9, 10))),
}


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize("name", STEPS)
def test_processed_laws(name, gamma):
    target, draft = abc_machine.remembering()
    for prompt in [(), (C, A)]:
        expected = chain(processed(target, STEPS[name], prompt), lambda text: len(text) == 3)
        decoder = Speculative(target, draft, gamma, Transforms(STEPS[name]), Stop(length=3))
        assert law_of_text(decoder, prompt) == expected
        assert law_of_text(Autoregressive(target, Transforms(STEPS[name]), Stop(length=3)), prompt) == expected


@pytest.mark.parametrize("pair", [("temperature, top-p", "top-p, temperature"), ("penalty, top-k", "top-k, penalty")])
def test_the_order_of_transforms_matters(pair):
    target, _ = abc_machine.remembering()
    one, other = (chain(processed(target, STEPS[name]), lambda text: len(text) == 3) for name in pair)
    assert one != other


def test_sample_and_match_with_transforms_and_stops():
    target, draft = abc_machine.remembering()
    steps = STEPS["all"]
    stop, ends = STOPS["stop string"]
    decoder = Speculative(target, draft, 2, Transforms(steps), stop, sample_match.verify)
    assert law_of_text(decoder) == chain(processed(target, steps), ends)


# ---- innocents: unusual, and exact --------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [STEPS["all"], STEPS["greedy"], STEPS["penalty"]])
def test_a_transform_on_the_target_only(steps):
    """Any q is a legal draft of the processed target."""
    target, draft = abc_machine.remembering()
    transforms = Transforms(steps)
    only = Wrapped(target, lambda row, held: transforms.scores(row, held[1:]))
    law = law_of_text(Speculative(only, draft, 2, stop=CAP4))
    assert law == chain(processed(target, steps), lambda text: len(text) == 4)


@pytest.mark.parametrize("verify", RULES)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_a_one_hot_draft(verify, gamma):
    target, _ = abc_machine.remembering()
    draft = Table(exact([[0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0]]))
    assert law_of_text(Speculative(target, draft, gamma, stop=CAP4, verify=verify)) == text_law(target, 4)


def test_with_a_one_hot_draft_both_rules_count_alike():
    target, _ = abc_machine.remembering()
    draft = Table(exact([[0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0]]))
    one, other = (Speculative(target, draft, 2, verify=verify) for verify in RULES)
    counts = count_by_enumeration(one, one.start())
    assert counts == count_by_enumeration(other, other.start())
    assert counts == [Fraction(2, 5), Fraction(6, 10) * Fraction(2, 5), Fraction(6, 10) * Fraction(3, 5)]


@pytest.mark.parametrize(
    "declines",
    [
        lambda held: True,
        lambda held: held[-1] == B,
        lambda held: len(held) % 2 == 0,
        lambda held: len(held) > 2,
    ],
    ids=["always", "after B", "every other time", "later on"],
)
@pytest.mark.parametrize("steps", [(), (TopP(Fraction(9, 10)),), (HALF, TopK(2)), (RepetitionPenalty(2), TopP(Fraction(1, 2)))])
def test_a_draft_that_declines(declines, steps):
    """A row without weight means "nothing to propose"; no transform may stumble over it."""
    target, draft = abc_machine.remembering()
    declining = Wrapped(draft, lambda row, held: row * 0 if declines(held) else row)
    decoder = Speculative(target, declining, 3, Transforms(steps), Stop(length=3))
    assert law_of_text(decoder) == chain(processed(target, steps), lambda text: len(text) == 3)


def test_a_transform_that_leaves_the_draft_nothing():
    """The last step forbids A; where the draft proposes only A it then has no proposal, and the round is shorter."""
    target, _ = abc_machine.remembering()
    draft = Table(exact([[0, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]))

    def no_a(scores, prefix):
        return scores * exact([0, 1, 1])

    law = law_of_text(Speculative(target, draft, 2, Transforms((no_a,)), Stop(length=3)))
    assert law == chain(lambda text: normalised(target.law_after(text) * exact([0, 1, 1])), lambda text: len(text) == 3)


def test_zeros_in_either():
    target = Table(exact([[0, 10, 0], [5, 0, 5], [1, 0, 9], [0, 4, 6]], 10))
    draft = Table(exact([[5, 5, 0], [0, 10, 0], [9, 1, 0], [7, 0, 3]], 10))
    for one, other in [(target, draft), (draft, target)]:
        for verify in RULES:
            assert law_of_text(Speculative(one, other, 3, stop=CAP4, verify=verify)) == text_law(one, 4)


ADAPTIVE = {
    "by the last round": lambda state: 2 if not state.history or state.history[-1] == (2, 2) else 1,
    "by the sum of rounds": lambda state: sum(accepted for _, accepted in state.history) % 3,
    "by the last token": lambda state: {A: 3, B: 0}.get(state.tokens[-1], 1),
    "by position": lambda state: len(state.generated) % 3,
    "by the draft's cache": lambda state: 1 + (len(state.caches["draft"]) == len(state.tokens) - 1),
}


@pytest.mark.parametrize("name", ADAPTIVE)
def test_gamma_may_follow_what_is_verified(name):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, ADAPTIVE[name], stop=CAP4)
    assert law_of_text(decoder) == text_law(target, 4)


class CutAtUnsure(Speculative):
    """Cuts a round's proposals at the first with q(x) < 3/10 and keeps that one: decided before anything that it drops."""

    kept = 1

    def propose(self, state, gamma, chance):
        proposals, laws = super().propose(state, gamma, chance)
        sure = next((i for i, token in enumerate(proposals) if laws[i, token] < Fraction(3, 10)), len(proposals))
        return proposals[: sure + self.kept], laws[: sure + self.kept]


class DropsUnsure(CutAtUnsure):
    """Its wrong twin: gamma peeks at the proposal that it then leaves out."""

    kept = 0


def test_gamma_may_look_at_proposals_that_it_keeps_but_not_at_the_one_it_drops():
    target, draft = abc_machine.remembering()
    keeps, drops = CutAtUnsure(target, draft, 2), DropsUnsure(target, draft, 2)
    expected = text_law(target, 4)
    assert law_of_text(replace(keeps, stop=CAP4)) == expected
    counts = law_of(lambda chance: keeps.step(keeps.start(), chance)[0].emitted)
    assert sum(count * weight for count, weight in counts.items()) == Fraction(178, 100)
    wrong = law_of_text(drops, length=4)
    assert sum(abs(wrong[text] - weight) for text, weight in expected.items()) / 2 == Fraction(3128463, 25000000)


class PeeksAtVerdict(Speculative):
    """Another: when the coming verdict would be a rejection, it starts the round again without proposals."""

    def step(self, state, chance):
        trial = copy_state(self, state)
        record, after = super().step(trial, chance)
        if record.gamma == 0 or record.accepted == record.gamma:
            return record, after
        return Speculative(self.target, self.draft, 0, stop=self.stop).step(state, chance)


def test_gamma_must_not_look_at_the_verdict_of_its_own_round():
    target, draft = abc_machine.remembering()
    wrong = law_of_text(PeeksAtVerdict(target, draft, 1), length=1)
    # accepted mass (2,3,1)/10, and 4/10 of the time a plain target draw (6,3,1)/10 instead of the residual
    assert wrong == {(A,): Fraction(44, 100), (B,): Fraction(42, 100), (C,): Fraction(14, 100)}
