"""Tier 0: rules proved, or refuted by laws, for all laws of a size; and wrong twins of the rules that only a sound prover sees.

A refutation is checked without the prover: its laws go through the rule as Fractions, and the total variation is exact.
"""

import contextlib
import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

pytest.importorskip("z3", reason="needs z3-solver, the optional extra of the all-laws tier")
pytest.importorskip("sympy", reason="needs sympy, the optional extra of the all-laws tier")

from specdec.chance import law_of
from specdec.conformance import all_laws, mutants
from specdec.conformance.all_laws import prove, prove_sizes
from specdec.conformance.verdicts import Verdict
from specdec.law import positive_part
from specdec.verification import Round, block, ended, sample_match, strict
from specdec.verification.strict import acceptance, correction_weights

F = Fraction


def text_laws(verify, proof):
    """(found, expected) laws of γ + 1 tokens at a proof's witness, written out by the test."""
    laws, gamma = proof.laws, proof.gamma

    def once(chance):
        x = ()
        for _ in range(gamma):
            x = (*x, chance.draw(np.array(laws["draft", x], dtype=object), "propose"))
        p = np.array([laws["target", x[:i]] for i in range(gamma + 1)], dtype=object)
        q = np.array([laws["draft", x[:i]] for i in range(gamma)], dtype=object)
        text = tuple(verify(p, q, x, chance).tokens)
        while len(text) < gamma + 1:
            text = (*text, chance.draw(np.array(laws["target", text], dtype=object), "sample"))
        return text

    expected = {}
    for text in product(range(proof.vocab_size), repeat=gamma + 1):
        expected[text] = F(1)
        for i, token in enumerate(text):
            expected[text] *= laws["target", text[:i]][token]
    return law_of(once), expected


def distance(one, other):
    return sum(abs(one.get(text, 0) - other.get(text, 0)) for text in {*one, *other}) / 2


def assert_refuted(verify, vocab_size, gamma):
    proof = prove(verify, vocab_size, gamma)
    assert proof.verdict is Verdict.LOSSY, proof.says
    assert all(isinstance(x, F) and x >= 0 for law in proof.laws.values() for x in law)
    assert all(sum(law) == 1 for law in proof.laws.values())
    assert distance(*text_laws(verify, proof)) == proof.distance > 0
    assert proof.finding.accused and proof.finding.witness.found != proof.finding.witness.expected
    return proof


def assert_proved(verify, vocab_size, gamma):
    proof = prove(verify, vocab_size, gamma)
    assert proof.verdict is Verdict.PROVED, proof.says
    assert proof.texts == vocab_size ** (gamma + 1) and proof.laws is None
    return proof


def strictly(accept=acceptance, correct=correction_weights, before=lambda p, q, x: None):
    """The strict rule with its acceptance and weights as parameters; ``before`` may name a token that ends the round at once."""

    def verify(target, draft, proposals, chance):
        for i, token in enumerate(proposals):
            forced = before(target[i], draft[i], token)
            if forced is not None:
                return ended(proposals, i, forced, "correction")
            if not chance.accept(accept(target[i], draft[i], token), "accept"):
                return ended(proposals, i, chance.draw(correct(target[i], draft[i]), "correct"), "correction")
        return ended(proposals, len(proposals), chance.draw(target[len(proposals)], "bonus"), "bonus")

    return verify


# ---- right rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vocab_size", "gamma"), [(2, 0), (2, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("verify", [strict.verify, block.verify, sample_match.verify], ids=["strict", "block", "sample_match"])
def test_the_shipped_rules_are_proved(verify, vocab_size, gamma):
    assert_proved(verify, vocab_size, gamma)


def test_strict_is_proved_over_three_tokens_with_two_proposals():
    assert_proved(strict.verify, 3, 2)


def by_a_difference(p, q, token):
    return F(1) if q[token] - p[token] <= 0 else 1 - (q[token] - p[token]) / q[token]


def by_the_overlap(p, q):
    return p - np.minimum(p, q) if (p != q).any() else p


def test_a_right_rule_in_other_words_is_proved():
    assert_proved(strictly(by_a_difference, by_the_overlap), 3, 1)
    assert_proved(strictly(by_a_difference, by_the_overlap), 2, 2)


def test_a_rule_that_takes_its_own_uniforms_is_proved():
    def verify(target, draft, proposals, chance):
        for i, token in enumerate(proposals):
            if chance.uniform("accept") >= acceptance(target[i], draft[i], token):
                u = chance.uniform("correct")
                return ended(proposals, i, chance.draw(correction_weights(target[i], draft[i]), "correct", u=u), "correction")
        return ended(proposals, len(proposals), chance.draw(target[len(proposals)], "bonus"), "bonus")

    assert_proved(verify, 3, 1)
    assert_proved(verify, 2, 2)


# ---- wrong rules ------------------------------------------------------------------------------------------------------


def lenient(p, q, token):
    return min(1, 2 * p[token] / q[token])


SEEN = [  # at the smallest size that sees them
    (mutants.residual_is_p, 2, 1),
    (strictly(lenient), 2, 1),
    (mutants.one_uniform_for_two, 3, 1),
    (mutants.residual_from_previous_row, 2, 2),
    (mutants.bonus_from_previous_row, 2, 1),
    (mutants.bonus_after_rejection, 2, 1),
    (mutants.keeps_discarded_branch, 2, 2),
    (mutants.block_restarts, 2, 2),
    (mutants.block_caps_late, 2, 2),
    (mutants.block_caps_early, 2, 2),
    (mutants.block_mass_from_previous_row, 2, 1),
    (mutants.block_same_test_everywhere, 2, 2),
    (mutants.block_stops_at_first_failure, 2, 2),
    (mutants.block_one_uniform, 2, 2),
    (mutants.block_tokenwise, 2, 2),
]


@pytest.mark.parametrize(("verify", "vocab_size", "gamma"), SEEN)
def test_a_wrong_rule_is_refuted_by_laws(verify, vocab_size, gamma):
    assert_refuted(verify, vocab_size, gamma)


def test_two_tokens_hide_a_reused_uniform_because_the_residual_has_one_token():
    assert_proved(mutants.one_uniform_for_two, 2, 2)


def test_two_tokens_hide_the_plain_residual_of_a_block_and_three_do_not():
    assert_proved(mutants.block_plain_residual, 2, 2)
    assert_refuted(mutants.block_plain_residual, 3, 2)


def test_the_sizes_stop_at_the_first_accusation():
    proofs = prove_sizes(mutants.one_uniform_for_two, [(2, 1), (3, 1), (2, 2)])
    assert [proof.verdict for proof in proofs] == [Verdict.PROVED, Verdict.LOSSY]


# ---- faces and thin cells: what a prover of open cells acquits ---------------------------------------------------------


def wrong_where_equal(p, q, token):
    return 0 if p[token] == q[token] else None


def wrong_where_another_is_never_drawn(p, q, token):
    return 0 if q[1 - token] == 0 else None


def wrong_in_a_corner(p, q, token):
    return 0 if p[0] > 3 * q[0] and 5 * p[0] < 16 * q[0] and p[0] > F(9, 10) else None


def wrong_on_a_curve(p, q, token):
    return 0 if p[0] * p[0] == 2 * q[0] else None


@pytest.mark.parametrize("before", [wrong_where_equal, wrong_where_another_is_never_drawn, wrong_in_a_corner, wrong_on_a_curve])
def test_a_rule_that_is_wrong_in_a_thin_place_is_refuted_there(before):
    proof = assert_refuted(strictly(before=before), 2, 1)
    p, q = proof.laws["target", ()], proof.laws["draft", ()]
    assert any(before(p, q, token) is not None for token in (0, 1) if q[token])


def test_a_prover_of_open_cells_acquits_what_is_wrong_on_faces(monkeypatch):
    possible = all_laws.Space.possible

    def in_open_cells(space, facts, factor):
        return facts[factor] != {0} and possible(space, facts, factor)

    monkeypatch.setattr(all_laws.Space, "possible", in_open_cells)
    for before in (wrong_where_equal, wrong_where_another_is_never_drawn, wrong_on_a_curve):
        assert prove(strictly(before=before), 2, 1).verdict is Verdict.PROVED


def test_a_right_rule_that_asks_for_every_face_is_proved():
    def verify(target, draft, proposals, chance):
        for p in (*target.flat, *draft.flat):
            bool(p)
        if (target[:-1] == draft).all():
            return ended(proposals, len(proposals), chance.draw(target[-1], "bonus"), "bonus")
        return strict.decide(target, draft, proposals, chance)

    assert_proved(verify, 2, 1)


def test_a_rule_that_is_wrong_for_a_one_hot_draft_alone_is_refuted():
    def verify(target, draft, proposals, chance):
        if draft[0][1] == 0:
            return ended(proposals, 0, 0, "correction")
        return strict.verify(target, draft, proposals, chance)

    assert assert_refuted(verify, 2, 1).laws["draft", ()] == (1, 0)


def test_what_is_wrong_at_irrational_laws_alone_is_not_proved_and_not_accused():
    proof = prove(strictly(before=lambda p, q, x: 0 if 2 * p[0] * p[0] == 1 else None), 2, 1)
    assert proof.verdict is None
    assert "rational laws" in proof.says


# ---- the paths themselves -----------------------------------------------------------------------------------------------


def steeply(p, q, token):
    """Wrong, and q (p/q)² leaves a q below that is 0 where p and q are."""
    return 1 if p[token] > q[token] else p[token] ** 2 / q[token] ** 2


def deviation(verify, space, found, laws):
    """The largest difference between a rule's law, enumerated at given laws, and its paths' weights there.

    None where a denominator vanishes.
    """
    point = [space.ring.domain(x.numerator, x.denominator) for row in space.rows for x in laws[row][:-1]]
    sums = dict.fromkeys(text for length in range(1, space.gamma + 2) for text in product(range(space.vocab_size), repeat=length))
    for _, path in found:
        values = [space.expanded({f: 1})(*point) for f in path.guard]
        if all((v > 0) - (v < 0) in signs for v, signs in zip(values, path.guard.values(), strict=True)):
            below = space.expanded(path.weight.powers)(*point)
            if below == 0:
                return None
            sums[path.text] = (sums[path.text] or 0) + path.weight.numerator(*point) / below
    exact = all_laws._round(verify, laws, space.gamma, object)
    return max(abs((F(int(s.numerator), int(s.denominator)) if s else 0) - exact.get(text, 0)) for text, s in sums.items())


def laws_on_faces(space, seed):
    """Rows in halves, thirds or quarters, so that zeros and ties are common."""
    rng, parts = np.random.default_rng(seed), 2 + seed % 3
    laws = {row: rng.multinomial(parts, np.full(space.vocab_size, 1 / space.vocab_size)) for row in space.rows}
    return {row: tuple(F(int(n), parts) for n in numbers) for row, numbers in laws.items()}


PATHS = [strict.verify, block.verify, mutants.one_uniform_for_two, mutants.block_one_uniform, strictly(steeply)]


@pytest.mark.parametrize("verify", PATHS)
@pytest.mark.parametrize(("vocab_size", "gamma"), [(2, 2), (3, 1)])
def test_the_paths_of_a_rule_have_its_law_on_faces_too(verify, vocab_size, gamma):
    space = all_laws.Space(vocab_size, gamma, time.monotonic() + 60)
    found = all_laws.paths(space, verify)
    assert all(deviation(verify, space, found, laws_on_faces(space, seed)) == 0 for seed in range(12))


def test_guards_without_the_weights_that_they_rest_on_are_undefined_on_a_face(monkeypatch):
    space, rule = all_laws.Space(2, 1, time.monotonic() + 60), strictly(steeply)
    face = {**laws_on_faces(space, 0), ("target", ()): (F(0), F(1)), ("draft", ()): (F(0), F(1))}
    assert deviation(rule, space, all_laws.paths(space, rule), face) == 0
    monkeypatch.setattr(all_laws.Run, "region", lambda run: dict(run.guard))
    assert deviation(rule, space, all_laws.paths(space, rule), face) is None


# ---- faults and limits ------------------------------------------------------------------------------------------------


def test_a_rule_that_raises_on_a_face_is_broken_there():
    def verify(target, draft, proposals, chance):
        if any(q == 0 for q in draft.flat):
            raise ValueError("no zeros, please")
        return strict.verify(target, draft, proposals, chance)

    proof = prove(verify, 2, 1)
    assert proof.verdict is Verdict.BROKEN and proof.finding.accused
    assert "no zeros, please" in proof.says
    assert 0 in proof.laws["draft", ()]


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_division_by_zero_that_floats_survive_is_not_accused():
    def verify(target, draft, proposals, chance):
        ratios = target[:-1] / draft  # also where nothing can be drawn
        assert ratios.shape == draft.shape
        return strict.verify(target, draft, proposals, chance)

    proof = prove(verify, 2, 1)
    assert proof.verdict is None
    assert "ZeroDivisionError" in proof.says


def test_an_acceptance_above_one_is_broken():
    proof = prove(strictly(lambda p, q, x: p[x] / q[x]), 2, 1)
    assert proof.verdict is Verdict.BROKEN
    assert "not in [0, 1]" in proof.says
    p, q = proof.laws["target", ()], proof.laws["draft", ()]
    assert any(p[x] > q[x] for x in (0, 1))


@pytest.mark.parametrize(
    ("tokens", "words"),
    [((0, 0, 0), "3 tokens"), ((2,), "no token id"), ((-1,), "no token id"), (("a",), "no token id")],
)
def test_a_round_that_is_no_text_is_broken(tokens, words):
    proof = prove(lambda p, q, x, chance: Round(tokens, ("accepted",) * len(tokens)), 2, 1)
    assert proof.verdict is Verdict.BROKEN
    assert words in proof.says


def test_a_round_without_tokens_is_broken():
    proof = prove(lambda p, q, x, chance: Round((), ()), 2, 1)
    assert proof.verdict is Verdict.BROKEN
    assert "at least one token" in proof.says


def times_a_uniform(target, draft, proposals, chance):
    for i, token in enumerate(proposals):
        if chance.uniform("accept") * draft[i][token] >= target[i][token]:
            return ended(proposals, i, chance.draw(correction_weights(target[i], draft[i]), "correct"), "correction")
    return ended(proposals, len(proposals), chance.draw(target[len(proposals)], "bonus"), "bonus")


@pytest.mark.parametrize(
    ("verify", "words"),
    [
        (strictly(lambda p, q, x: min(1.0, float(p[x]) / float(q[x]))), "float"),
        (strictly(lambda p, q, x: min(1.0, p[x] / q[x])), "float"),
        (strictly(lambda p, q, x: acceptance(np.sqrt(p), q, x)), "sqrt"),
        (strictly(lambda p, q, x: {p[x]: 1}[p[x]]), "unhashable"),
        (times_a_uniform, "unsupported operand"),
    ],
)
def test_what_has_no_symbolic_reading_is_not_accused(verify, words):
    proof = prove(verify, 2, 1)
    assert proof.verdict is None and proof.finding is None
    assert words in proof.says


def test_a_rule_that_swallows_exceptions_is_not_followed_into_its_handler():
    def verify(target, draft, proposals, chance):
        with contextlib.suppress(Exception):
            float(target[0][0])
        return strict.verify(target, draft, proposals, chance)

    assert prove(verify, 2, 1).verdict is None


def test_a_round_without_an_end_is_not_followed():
    def verify(target, draft, proposals, chance):
        while not chance.accept(F(1, 2), "accept"):
            pass
        return strict.verify(target, draft, proposals, chance)

    assert "decisions" in prove(verify, 2, 1).says


def test_a_rule_that_keeps_something_between_its_runs_is_noticed():
    calls = []

    def verify(target, draft, proposals, chance):
        calls.append(proposals)
        if len(calls) % 2:
            chance.accept(F(1, 2), "accept")
        return strict.verify(target, draft, proposals, chance)

    assert "other choices" in prove(verify, 2, 1).says


def test_the_time_is_kept():
    began = time.monotonic()
    proof = prove(block.verify, 3, 2, seconds=1)
    assert proof.verdict is None and "time ran out" in proof.says
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("vocab_size", "gamma"), [(1, 1), (2, -1)])
def test_a_size_without_a_question_is_refused(vocab_size, gamma):
    with pytest.raises(ValueError, match="at least two tokens"):
        prove(strict.verify, vocab_size, gamma)


# ---- any V: the elementwise lemma -------------------------------------------------------------------------------------


def test_the_lemma_holds_for_any_two_numbers():
    import z3

    p, q = z3.Reals("p q")
    least = z3.If(p <= q, p, q)
    excess = z3.If(p >= q, p - q, 0)
    solver = z3.Solver()
    solver.add(least + excess != p)
    assert str(solver.check()) == "unsat"


@pytest.mark.parametrize("vocab_size", [2, 3, 7, 50])
def test_the_lemma_gives_one_token_its_law_over_any_vocabulary(vocab_size):
    rng = np.random.default_rng(vocab_size)
    rows = [[F(int(n)) for n in rng.integers(0, 5, vocab_size)] for _ in range(2)]
    p, q = (np.array([(x + (i == 0)) / (sum(row) + 1) for i, x in enumerate(row)], dtype=object) for row in rows)
    rejected = 1 - np.minimum(p, q).sum()
    assert rejected == positive_part(p, q).sum()
    assert (np.minimum(p, q) + rejected * positive_part(p, q) / (rejected or 1) == p).all()
