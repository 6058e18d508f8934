"""Block verification: the target's law, exactly; what it accepts; float edges; wrong twins and where each of them shows.

``by_the_paper`` below is algorithm 2 of Sun et al. word for word, one test a prefix; ``kept_law`` is a closed form without the
recursion. Neither uses the module under test.
"""

from collections import defaultdict
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.chance import Random, Recorded, Scripted, law_of
from specdec.conformance import mutants
from specdec.decoding import Speculative, Stop, copy_state, generate, law_of_count, law_of_text
from specdec.law import RepetitionPenalty, TopK, Transforms, exact
from specdec.models import abc_machine
from specdec.models.table import Table, text_law
from specdec.verification import Round, block, strict
from strategies import exact_laws, exact_pairs, float_pairs, frozen, prefix_laws

A, B, C = 0, 1, 2
CAP4 = Stop(length=4)
BELOW_ONE = np.nextafter(1.0, 0.0)
HALF = exact([4, 4, 2], 10), exact([8, 2, 0], 10)
"""p and q: A has ratio 1/2, and half of p exceeds q at C alone, where p itself exceeds it at B and C."""


def by_the_paper(target, draft, proposals, chance):
    gamma, size = len(proposals), target.shape[1]
    ratio, tau, tau_ratio = 1, 0, 1
    for i in range(1, gamma + 1):
        x = proposals[i - 1]
        ratio = min(ratio * target[i - 1][x] / draft[i - 1][x], 1)
        if i == gamma:
            h = ratio
        else:
            s = sum(max(ratio * target[i][x] - draft[i][x], 0) for x in range(size))
            h = F(1) if s + 1 - ratio == 0 else s / (s + 1 - ratio)
        if chance.accept(h, "accept"):
            tau, tau_ratio = i, ratio
    if tau == gamma:
        return Round((*proposals, chance.draw(target[gamma], "bonus")), ("accepted",) * gamma + ("bonus",))
    weights = np.array([max(tau_ratio * target[tau][x] - draft[tau][x], 0) for x in range(size)])
    return Round((*proposals[:tau], chance.draw(weights, "correct")), ("accepted",) * tau + ("correction",))


def rows(laws):
    return frozen(np.array(laws))


def at(model, path):
    return rows([model[tuple(path[:i])] for i in range(len(path) + 1)])


def models(data, gamma, size):
    """Two models {prefix: law} that share nothing."""
    return data.draw(prefix_laws(gamma, size)), data.draw(prefix_laws(max(0, gamma - 1), size))


def paths(model, length):
    """{path: its weight} for the paths that a model {prefix: law} can take."""
    size = len(model[()])
    weights = {x: path_weight(model, x, 0) for x in product(range(size), repeat=length)}
    return {x: weight for x, weight in weights.items() if weight}


def path_weight(model, path, start):
    """The weight of path[start:] after path[:start]."""
    weight = F(1)
    for i in range(start, len(path)):
        weight *= model[path[:i]][path[i]]
    return weight


def round_law(verify, p, q, gamma):
    """The law of (proposals, round), the proposals from q and the rows from p and q."""
    law = defaultdict(int)
    for x, weight in (paths(q, gamma) if gamma else {(): F(1)}).items():
        draft = at(q, x[:-1]) if gamma else np.empty((0, len(p[()])), dtype=object)
        for round_, probability in law_of(lambda chance, x=x, d=draft: verify(at(p, x), d, list(x), chance)).items():
            law[x, round_] += weight * probability
    return law


def at_least(law, gamma):
    """[P(accepted >= i) for i in 1 … γ]."""
    return [sum(w for (_, round_), w in law.items() if round_.accepted >= i) for i in range(1, gamma + 1)]


def kept_law(p, q, gamma):
    """P(accepted >= i) = Σ over x^i of min over j ≤ i of q(x^j) p(x_{j+1} … x_i after x^j)."""
    return [
        sum(min(path_weight(q, x[:j], 0) * path_weight(p, x, j) for j in range(i + 1)) for x in paths(q, i))
        for i in range(1, gamma + 1)
    ]


def mean(decoder):
    """E[accepted] of the first round."""
    start = decoder.start()
    law = law_of(lambda chance: decoder.step(copy_state(decoder, start), chance)[0].accepted)
    return sum(count * weight for count, weight in law.items())


# ---- the theorem, executed ----------------------------------------------------------------------------------------


def machine_pairs():
    target, draft = abc_machine.remembering()
    return [(target, draft), (draft, target), (target, target), abc_machine.forgetful(), (Table(HALF[0]), Table(HALF[1]))]


@pytest.mark.parametrize("gamma", range(5))
@pytest.mark.parametrize("pair", range(5), ids=["remembering", "exchanged", "itself", "forgetful", "half"])
def test_four_tokens_under_a_cap(pair, gamma):
    target, draft = machine_pairs()[pair]
    law = law_of_text(Speculative(target, draft, gamma, stop=CAP4, verify=block.verify))
    assert law == text_law(target, 4)
    assert sum(law.values()) == 1 and all(isinstance(weight, F) for weight in law.values())


@pytest.mark.parametrize("gamma", range(4))
def test_four_tokens_of_a_text_that_goes_on(gamma):
    target, draft = abc_machine.remembering()
    assert law_of_text(Speculative(target, draft, gamma, verify=block.verify), length=4) == text_law(target, 4)


def test_plain_enumeration_of_generate_agrees_with_the_composition():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(length=3), verify=block.verify)
    assert law_of(lambda chance: generate(decoder, (), chance).tokens) == text_law(target, 3)


STOPS = {
    "stop token": (Stop(length=4, tokens=frozenset({B})), lambda text: text[-1] == B or len(text) == 4),
    "stop string": (
        Stop(length=4, strings=("AB",), decode=lambda tokens: "".join("ABC"[token] for token in tokens)),
        lambda text: text[-2:] == (A, B) or len(text) == 4,
    ),
    "cap": (Stop(length=3), lambda text: len(text) == 3),
}


def chain(target, ends, text=()):
    """{text: probability} by the chain rule, each text as far as ``ends(text)``."""
    if text and ends(text):
        return {text: 1}
    law = {}
    for token, weight in enumerate(target.law_after(text)):
        if weight:
            law |= {longer: weight * rest for longer, rest in chain(target, ends, (*text, token)).items()}
    return law


@pytest.mark.parametrize("gamma", range(4))
@pytest.mark.parametrize("name", STOPS)
def test_finished_texts(name, gamma):
    target, draft = abc_machine.remembering()
    stop, ends = STOPS[name]
    assert law_of_text(Speculative(target, draft, gamma, stop=stop, verify=block.verify)) == chain(target, ends)


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_processed_laws_after_a_prompt(gamma):
    """Ratios and residuals of the laws behind the transforms; the penalty sees the proposals before its row."""
    target, draft = abc_machine.remembering()
    steps = Transforms((RepetitionPenalty(2), TopK(2)))
    one, other = (
        law_of_text(Speculative(target, draft, g, steps, Stop(length=3), verify), [C])
        for g, verify in [(gamma, block.verify), (0, strict.verify)]
    )
    assert one == other


@st.composite
def tables(draw, size):
    """A machine of order 0 to 2; zeros, ties and one-hots recur."""
    context = (size + 1,) * draw(st.integers(0, 2))
    laws = [draw(exact_laws(size)) for _ in range(int(np.prod(context, dtype=int)))]
    return Table(np.array(laws).reshape(*context, size))


@settings(max_examples=40)
@given(st.data())
def test_any_small_machines_from_any_prompt(data):
    size = data.draw(st.integers(2, 3))
    target, draft = data.draw(tables(size)), data.draw(tables(size))
    prompt = data.draw(st.lists(st.integers(0, size - 1), max_size=2))
    gamma = data.draw(st.integers(0, 4 if size == 2 else 3))
    law = law_of_text(Speculative(target, draft, gamma, stop=CAP4, verify=block.verify), prompt)
    assert law == text_law(target, 4, prefix=tuple(prompt))


@given(exact_pairs(), st.integers(1, 3))
def test_pairs_with_ties_and_disjoint_supports(pair, gamma):
    target, draft = (Table(law) for law in pair)
    law = law_of_text(Speculative(target, draft, gamma, stop=Stop(length=2), verify=block.verify))
    assert law == text_law(target, 2)


@settings(max_examples=25)
@given(st.data(), st.integers(0, 3))
def test_it_is_the_papers_algorithm(data, gamma):
    """Tests for all prefixes and the largest that passes, or from the back to the first that passes: one law of rounds."""
    p, q = models(data, gamma, 2)
    assert round_law(block.verify, p, q, gamma) == round_law(by_the_paper, p, q, gamma)


# ---- what is accepted ---------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.data(), st.integers(1, 3), st.integers(2, 3))
def test_accepted_counts_by_a_closed_form_and_against_strict(data, gamma, size):
    p, q = models(data, gamma, size)
    law = round_law(block.verify, p, q, gamma)
    found = at_least(law, gamma)
    assert found == kept_law(p, q, gamma)
    tokenwise = at_least(round_law(strict.verify, p, q, gamma), gamma)
    assert all(ours >= theirs for ours, theirs in zip(found, tokenwise, strict=True)) and found[0] == tokenwise[0]
    # The texts' own overlap, which a rule with all joint laws at hand would reach, is not passed.
    for i, ours in enumerate(found, start=1):
        assert ours <= sum(min(path_weight(p, x, 0), weight) for x, weight in paths(q, i).items())


@settings(max_examples=25)
@given(st.data(), st.integers(1, 3))
def test_a_prefix_is_kept_with_its_ratio(data, gamma):
    """P(accepted >= i | the first i proposals) = r_i, for every prefix that the draft can propose."""
    p, q = models(data, gamma, 2)
    law = round_law(block.verify, p, q, gamma)
    for x in paths(q, gamma):
        r = block.ratios(at(p, x), at(q, x[:-1]), x)
        for i in range(1, gamma + 1):
            kept = sum(w for (y, round_), w in law.items() if y[:i] == x[:i] and round_.accepted >= i)
            assert kept == r[i] * path_weight(q, x[:i], 0)


@given(float_pairs() | exact_pairs(), st.data())
def test_one_proposal_is_the_strict_rule_decision_for_decision(pair, data):
    p, q = pair
    token = data.draw(st.sampled_from(np.flatnonzero(q).tolist()))
    uniforms = [data.draw(st.floats(0, 1, exclude_max=True)) for _ in range(2)]
    tapes = []
    for verify in (block.verify, strict.verify):
        recorded = Recorded(Scripted(uniforms))
        tapes.append((verify(rows([p, p]), rows([q]), [token], recorded), recorded.tape))
    assert tapes[0] == tapes[1]


def test_the_papers_example():
    """p = (1, 2)/3, q = (2, 1)/3, γ = 2: 11/9 accepted, strict 10/9, and 12/9 with the joint laws at hand."""
    target, draft = Table(exact([1, 2], 3)), Table(exact([2, 1], 3))
    assert mean(Speculative(target, draft, 2, verify=block.verify)) == F(11, 9)
    assert mean(Speculative(target, draft, 2)) == F(10, 9)
    both = [(F(1, 9), F(4, 9)), (F(2, 9), F(2, 9)), (F(2, 9), F(2, 9)), (F(4, 9), F(1, 9))]  # p and q of AA, AB, BA, BB
    assert F(2, 3) + sum(min(pair) for pair in both) == F(12, 9)


F2 = (  # the second fixture of the public reports
    Table(exact([[1, 6, 3], [7, 1, 2], [2, 2, 6], [5, 3, 2]], 10)),
    Table(exact([[10, 5, 5], [6, 6, 8], [12, 6, 2], [4, 4, 12]], 20)),
)


@pytest.mark.parametrize(
    ("pair", "gamma", "accepted", "tokenwise"),
    [
        (abc_machine.remembering(), 1, F(3, 5), F(3, 5)),
        (abc_machine.remembering(), 2, F(24, 25), F(23, 25)),
        (F2, 2, F(49, 50), F(47, 50)),
    ],
)
def test_first_rounds(pair, gamma, accepted, tokenwise):
    assert mean(Speculative(*pair, gamma, verify=block.verify)) == accepted
    assert mean(Speculative(*pair, gamma)) == tokenwise


def test_law_of_count_refuses_it():
    decoder = Speculative(*abc_machine.remembering(), 2, verify=block.verify)
    with pytest.raises(ValueError, match="strict rule on plain proposals only"):
        law_of_count(decoder, decoder.start())


# ---- by hand ------------------------------------------------------------------------------------------------------


def test_ratios_and_acceptances_by_hand():
    """A A: 1/2, then 1/4. A B: the second p/q is 2, and makes up for the first. A ratio of 0 stays 0."""
    p, q = HALF
    target, draft = rows([p, p, p]), rows([q, q])
    # Half of p is (2, 2, 1)/10: it exceeds q by 1/10, and h_1 = (1/10) / (1/10 + 1/2).
    for proposals, r, h1 in [
        ((A, A), [1, F(1, 2), F(1, 4)], F(1, 6)),
        ((A, B), [1, F(1, 2), 1], F(1, 6)),
        ((B, A), [1, 1, F(1, 2)], 1),
    ]:
        assert block.ratios(target, draft, proposals) == r
        assert block.acceptances(target, draft, r) == [1, h1, r[2]]
    never, sure = exact([0, 1, 0]), exact([0, 0, 1])
    assert block.ratios(rows([never, p, p]), rows([sure, q]), (C, B)) == [1, 0, 0]
    assert block.acceptances(rows([never, p, p]), rows([sure, q]), [1, 0, 0]) == [1, 0, 0]


def test_a_later_proposal_saves_one_that_strict_rejects():
    target, draft = rows([HALF[0]] * 3), rows([HALF[1]] * 2)
    high = F(99, 100)
    assert strict.verify(target, draft, [A, B], Scripted([high, 0])) == Round((B,), ("correction",))
    assert block.verify(target, draft, [A, B], Scripted([high, 0])) == Round((A, B, A), ("accepted", "accepted", "bonus"))


@pytest.mark.parametrize(
    ("uniforms", "expected", "purposes"),
    [
        ([F(1, 4) - F(1, 10**9), F(1, 2)], Round((A, A, B), ("accepted",) * 2 + ("bonus",)), ["accept", "bonus"]),
        ([F(1, 4), 0, 0], Round((A, C), ("accepted", "correction")), ["accept", "accept", "correct"]),
        ([F(1, 4), F(1, 6) - F(1, 10**9), BELOW_ONE], Round((A, C), ("accepted", "correction")), ["accept", "accept", "correct"]),
        ([F(1, 4), F(1, 6), F(1, 2) - F(1, 10**9)], Round((B,), ("correction",)), ["accept", "accept", "correct"]),
        ([F(1, 4), F(1, 6), F(1, 2)], Round((C,), ("correction",)), ["accept", "accept", "correct"]),
    ],
)
def test_a_script_for_every_outcome_of_two_proposals(uniforms, expected, purposes):
    recorded = Recorded(script := Scripted(uniforms))
    assert block.verify(rows([HALF[0]] * 3), rows([HALF[1]] * 2), [A, A], recorded) == expected
    assert script.left == 0 and [decision.purpose for decision in recorded.tape] == purposes


def test_the_last_acceptance_is_the_inner_one_with_no_draft_behind():
    """h_γ = r_γ is S/(S + 1 - r) where q is 0: S is then r times the sum of p."""
    for pair in (HALF, (abc_machine.P, abc_machine.Q)):
        target, draft = rows([pair[0]] * 3), rows([pair[1]] * 2)
        r = block.ratios(target, draft, [A, A])
        padded = np.vstack([draft, exact([0, 0, 0])])
        assert block.acceptances(np.vstack([target, target[:1]]), padded, [*r, 1])[:3] == block.acceptances(target, draft, r)


def test_inputs_are_left_alone_and_kinds_kept():
    for kind in (object, float):
        target, draft = rows([HALF[0]] * 3).astype(kind), rows([HALF[1]] * 2).astype(kind)
        before = target.copy(), draft.copy()
        block.verify(target, draft, [A, A], Scripted([0.9, 0.9, 0.9]))
        assert (target == before[0]).all() and (draft == before[1]).all()


# ---- float edges --------------------------------------------------------------------------------------------------


@given(st.data(), st.sampled_from([BELOW_ONE, 0.0]))
def test_equal_laws_never_reject(data, u):
    size = data.draw(st.integers(1, 4))
    laws = [data.draw(float_pairs(size))[0] for _ in range(3)]
    proposals = [data.draw(st.sampled_from(np.flatnonzero(law).tolist())) for law in laws[:2]]
    result = block.verify(rows(laws), rows(laws[:2]), proposals, Scripted([u, u]))
    assert result.origins == ("accepted", "accepted", "bonus")


NEAR = np.array([0.5, 0.25, 0.0, 0.25])


@pytest.mark.parametrize(("u", "token"), [(0.0, 0), (0.5, 1), (0.75, 3), (BELOW_ONE, 3)])
def test_a_rejection_by_rounding_alone_draws_from_p(u, token):
    """q = p (1 + 0.9e-9) leaves no residual. Behind a row of p = q it is the second row that rejects: h_1 is 1 at 0/0."""
    q = NEAR * (1 + 0.9e-9)
    first = block.verify(rows([NEAR] * 3), rows([q, q]), [0, 0], Scripted([BELOW_ONE, BELOW_ONE, u]))
    assert first == Round((token,), ("correction",))
    second = block.verify(rows([NEAR] * 3), rows([NEAR, q]), [0, 0], Scripted([BELOW_ONE, BELOW_ONE, u]))
    assert second == Round((0, token), ("accepted", "correction"))


def test_nothing_is_drawn_behind_equal_laws_in_exact_arithmetic():
    """There h_1 = 0/0 is never asked: all that follows is kept, whatever the uniform."""
    p = exact([1, 1, 2], 4)
    target, draft = rows([p] * 4), rows([p] * 3)
    r = block.ratios(target, draft, [0, 1, 2])
    assert block.acceptances(target, draft, r) == [1, 1, 1, 1]
    recorded = Recorded(Scripted([BELOW_ONE, 0]))
    assert block.verify(target, draft, [0, 1, 2], recorded).accepted == 3 and len(recorded.tape) == 2


def test_a_mass_too_small_to_add_to_one_is_kept():
    """(S + 1) - r would lose an S of 1e-18 and divide by 0, and would give 1.2e-16 / 0 or 1.2e-16 / 2.2e-16."""
    for small in (1e-18, 1.2e-16, 1.5e-16, 5e-324):
        p, q = np.array([1.0, small, 0.0]), np.array([1.0, 0.0, small])
        target, draft = rows([p, p, p]), rows([p, q])
        assert block.acceptances(target, draft, [1, 1, 1]) == [1, 1, 1]
        result = block.verify(target, draft, [0, 2], Scripted([0.0, BELOW_ONE, 0.5]))
        assert result == Round((0, 1), ("accepted", "correction"))


def test_ratios_neither_overflow_nor_divide_by_zero():
    tiny = 5e-324
    p, q = np.array([1.0, tiny]), np.array([tiny, 1.0])
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        assert block.ratios(rows([p, p]), rows([q]), [0]) == [1, 1]
        for proposals in product((0, 1), repeat=3):
            r = block.ratios(rows([p] * 4), rows([q] * 3), proposals)
            h = block.acceptances(rows([p] * 4), rows([q] * 3), r)
            assert all(0 <= value <= 1 for value in [*r, *h])
    assert block.ratios(rows([p] * 3), rows([q] * 2), [1, 0]) == [1, tiny, 1]
    # tiny * tiny rounds to 0, and there it stays: at most 5e-324 of probability is lost
    assert block.ratios(rows([p] * 4), rows([q] * 3), [1, 1, 0]) == [1, tiny, 0, 0]


def as_fractions(law):
    values = exact([F(value) for value in law.tolist()])
    return frozen(values / values.sum())


@settings(max_examples=60)
@given(st.data(), st.integers(1, 2))
def test_floats_agree_with_exact_numbers(data, gamma):
    """A round's law from float rows, tiny, equal and nearly equal ones among them, and from the same rows as Fractions."""
    size = data.draw(st.integers(2, 3))
    pairs = [data.draw(float_pairs(size)) for _ in range(gamma + 1)]
    laws = []
    for kind in (lambda law: law, as_fractions):
        target, draft = rows([kind(p) for p, _ in pairs]), rows([kind(q) for _, q in pairs[:-1]])

        def one_round(chance, target=target, draft=draft):
            proposals = [chance.draw(q, "propose") for q in draft]
            return block.verify(target, draft, proposals, chance)

        laws.append(law_of(one_round))
    assert sum(laws[1].values()) == 1 and sum(laws[0].values()) == pytest.approx(1, abs=1e-12)
    assert sum(abs(laws[0].get(x, 0) - float(laws[1].get(x, 0))) for x in {*laws[0], *laws[1]}) <= 1e-8
    assert all(p[token] > 0 for x in laws[0] for (p, _), token in zip(pairs, x.tokens, strict=False))


@settings(max_examples=30)
@given(st.data(), st.integers(0, 10**6))
def test_random_rounds_emit_only_possible_tokens(data, seed):
    pairs = [data.draw(float_pairs(4)) for _ in range(4)]
    chance = Random(seed)
    proposals = [chance.draw(q, "propose") for _, q in pairs[:3]]
    result = block.verify(rows([p for p, _ in pairs]), rows([q for _, q in pairs[:3]]), proposals, chance)
    assert all(p[token] > 0 for (p, _), token in zip(pairs, result.tokens, strict=False))
    assert list(result.tokens[: result.accepted]) == proposals[: result.accepted]


def test_a_float_machine_decodes():
    target, draft = (Table(machine.rows.astype(float)) for machine in abc_machine.remembering())
    law = law_of_text(Speculative(target, draft, 2, stop=Stop(length=3), verify=block.verify))
    assert law == pytest.approx({text: float(w) for text, w in text_law(abc_machine.remembering()[0], 3).items()}, rel=1e-12)


# ---- wrong twins --------------------------------------------------------------------------------------------------


def distance(one, other):
    return sum(abs(one.get(text, 0) - other.get(text, 0)) for text in {*one, *other}) / 2


def marginal(law, length):
    out = defaultdict(int)
    for text, weight in law.items():
        out[text[:length]] += weight
    return out


def distances(rule, pair, gamma):
    """(TV of the joint law of four tokens, of the first two, of the first)."""
    found, expected = law_of_text(Speculative(*pair, gamma, verify=rule), length=4), text_law(pair[0], 4)
    assert sum(found.values()) == 1
    return tuple(distance(marginal(found, n), marginal(expected, n)) for n in (4, 2, 1))


RULES = {  # at γ = 2 on the remembering machine: four tokens, the first two, the first
    mutants.block_plain_residual: (0, 0, 0),
    mutants.block_restarts: (F(4984577, 17000000), F(27, 125), F(1, 5)),
    mutants.block_caps_late: (F(217, 3000), F(1, 25), 0),
    mutants.block_caps_early: (F(393527093, 5100000000), F(123, 2500), F(1, 25)),
    mutants.block_mass_from_previous_row: (F(83139694457017, 306196222500000), F(699, 4250), F(1, 14)),
    mutants.block_same_test_everywhere: (F(416417, 3000000), F(12, 125), F(2, 25)),
    mutants.block_stops_at_first_failure: (F(40559, 163200), F(7, 50), F(1, 10)),
    mutants.block_one_uniform: (F(2601, 400000), 0, 0),
    mutants.block_tokenwise: (F(1251, 50000), F(2, 125), 0),
}
IDS = ["plain_residual", "restarts", "caps_late", "caps_early", "mass_previous", "same_test", "first_failure", "one_uniform"]
IDS += ["tokenwise"]
each_twin = pytest.mark.parametrize("rule", RULES, ids=IDS)


@each_twin
def test_a_wrong_rule_shows_in_the_joint_law_of_four_tokens(rule):
    assert distances(rule, abc_machine.remembering(), 2) == RULES[rule]


@each_twin
def test_one_proposal_shows_only_a_wrong_row(rule):
    """At γ = 1 the rule is strict's, and so is every twin but one; so a test at γ = 1 says nothing of block verification."""
    found = distances(rule, abc_machine.remembering(), 1)
    wrong_row = rule is mutants.block_mass_from_previous_row
    assert found == ((F(979039, 3570000), F(7, 50), F(1, 10)) if wrong_row else (0, 0, 0))


TWO = (  # two symbols, γ = 2
    Table(exact([[1, 3], [3, 1], [2, 2]], 4)),
    Table(exact([[3, 1], [2, 2], [1, 3]], 4)),
)
OVER_TWO = {
    mutants.block_plain_residual: (0, 0, 0),
    mutants.block_restarts: (F(145, 1024), F(9, 128), F(1, 16)),
    mutants.block_caps_late: (F(1, 16), F(1, 16), 0),
    mutants.block_caps_early: (F(83, 512), F(9, 64), F(1, 8)),
    mutants.block_mass_from_previous_row: (F(7959, 25600), F(7, 40), F(1, 20)),
    mutants.block_same_test_everywhere: (F(2351, 13824), F(1, 6), F(1, 6)),
    mutants.block_stops_at_first_failure: (F(19, 32), F(9, 16), F(1, 2)),
    mutants.block_one_uniform: (0, 0, 0),
    mutants.block_tokenwise: (F(45, 1024), F(1, 32), 0),
}


@each_twin
def test_over_two_symbols(rule):
    harmless = (0, 0, 0)
    assert distances(rule, TWO, 2) == OVER_TWO[rule]
    assert (distances(rule, TWO, 1) == harmless) == (rule is not mutants.block_mass_from_previous_row)


@given(st.data(), st.integers(1, 4))
def test_over_two_symbols_the_plain_residual_is_right(data, gamma):
    """(p - q)+ and (r p - q)+ are then one and the same symbol, wherever the second has mass at all."""
    target, draft = data.draw(tables(2)), data.draw(tables(2))
    law = law_of_text(Speculative(target, draft, gamma, stop=CAP4, verify=mutants.block_plain_residual))
    assert law == text_law(target, 4)


def test_the_plain_residual_shows_where_half_of_p_leaves_another_residual():
    """After A (8 of 10 proposals) the block keeps A and corrects with 1/10: C is due, the twin draws B or C evenly.

    The remembering machine can't show it at γ = 2: where its r is below 1, r p exceeds q nowhere or at the one symbol where p
    does. With the roles exchanged it can.
    """
    pair = Table(HALF[0]), Table(HALF[1])
    assert distances(mutants.block_plain_residual, pair, 2)[1:] == (F(8, 10) * F(1, 10) * F(1, 2), 0)
    assert distances(block.verify, pair, 2) == (0, 0, 0)
    exchanged = abc_machine.remembering()[::-1]
    assert distances(mutants.block_plain_residual, exchanged, 2) == (F(33, 10000), 0, 0)


def test_one_uniform_never_keeps_one_of_two_where_the_block_passes_more_easily():
    """After A A, h_2 = 1/4 and h_1 = 1/6: a uniform that failed the first test fails the second, and A A is given up at once.

    Such blocks come 64 times in 100, 3/4 of them fail whole, and 1/6 of those should have kept an A: the first token is off by
    their product. On the remembering machine h_1 is 0 or 1 in every round but those after B, so it shows little.
    """
    pair = Table(HALF[0]), Table(HALF[1])
    assert distances(mutants.block_one_uniform, pair, 2)[2] == F(64, 100) * F(3, 4) * F(1, 6) == F(2, 25)


@each_twin
def test_without_proposals_every_twin_is_right(rule):
    assert distances(rule, abc_machine.remembering(), 0) == (0, 0, 0)


@pytest.mark.parametrize("gamma", range(4))
def test_the_twins_differ_from_the_right_rule_in_one_place_only(gamma):
    """Their common frame with nothing replaced is the rule."""
    target, draft = abc_machine.remembering()
    assert law_of_text(Speculative(target, draft, gamma, stop=CAP4, verify=mutants._block())) == text_law(target, 4)
