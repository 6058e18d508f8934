"""verification/: each rule keeps the target's law, exactly; what it accepts; float edges; bad rounds."""

import math
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.chance import Random, Recorded, Scripted, law_of
from specdec.law import exact, overlap
from specdec.verification import Round, block, check_round, ended, sample_match, strict
from strategies import exact_laws, exact_pairs, float_laws, frozen, prefix_laws, smooth_uniforms

RULES = [strict.verify, block.verify, sample_match.verify]
each_rule = pytest.mark.parametrize("verify", RULES, ids=["strict", "block", "sample_match"])
BELOW_ONE = math.nextafter(1.0, 0.0)
P, Q = exact([6, 3, 1], 10), exact([2, 3, 5], 10)
F1 = exact([5, 3, 2], 10), exact([2, 2, 6], 10)
SIZE = 3


def rows(laws, size=SIZE):
    """A stack of laws (n, V), n = 0 included, that nobody may write into."""
    dtype = laws[0].dtype if laws else object
    return frozen(np.array(laws, dtype=dtype).reshape(len(laws), size))


def one_round(verify, p, q, gamma, chance):
    """Propose from q and verify against p, both {prefix: law}: the whole of a round, without a decoder."""
    proposals = []
    for _ in range(gamma):
        proposals.append(chance.draw(q[tuple(proposals)], "propose"))
    seen = [tuple(proposals[:i]) for i in range(gamma + 1)]
    size = len(p[()])
    return verify(rows([p[x] for x in seen], size), rows([q[x] for x in seen[:-1]], size), proposals, chance)


def forgetful(p):
    """A target for γ = 1 with the same row everywhere."""
    return {(): p, **{(x,): p for x in range(len(p))}}


def chain_law(p, length):
    """The target's own law of ``length`` tokens, by the chain rule."""
    law = {(): F(1)}
    for _ in range(length):
        law = {(*x, t): w * p[x][t] for x, w in law.items() for t in range(SIZE) if p[x][t]}
    return law


# ---- the theorem, executed ---------------------------------------------------------------------------------


@each_rule
@given(exact_pairs())
def test_the_first_token_follows_the_target(verify, pair):
    p, q = pair
    law = law_of(lambda chance: one_round(verify, forgetful(p), {(): q}, 1, chance).tokens[0])
    assert law == {x: p[x] for x in range(len(p)) if p[x]}


@each_rule
@pytest.mark.parametrize("gamma", [0, 1, 2])
@settings(max_examples=15)
@given(st.data())
def test_a_round_continued_by_the_target_is_the_target(verify, gamma, data):
    p, q = data.draw(prefix_laws(gamma, SIZE)), data.draw(prefix_laws(max(0, gamma - 1), SIZE))

    def text(chance):
        tokens = list(one_round(verify, p, q, gamma, chance).tokens)
        while len(tokens) < gamma + 1:
            tokens.append(chance.draw(p[tuple(tokens)], "sample"))
        return tuple(tokens)

    law = law_of(text)
    assert law == chain_law(p, gamma + 1)
    assert sum(law.values()) == 1


@given(exact_laws(SIZE), exact_laws(SIZE), exact_laws(SIZE))
def test_sample_match_is_right_for_any_draft(p, drawn, stated):
    """The proposals may come from anywhere: only strict verification needs them drawn from the stated q."""
    stated = frozen((stated + exact([1, 1, 1], 3)) / 2)

    def first(verify):
        def program(chance):
            proposal = chance.draw(drawn, "propose")
            return verify(rows([p, p]), rows([stated]), [proposal], chance).tokens[0]

        return law_of(program)

    assert first(sample_match.verify) == {x: p[x] for x in range(SIZE) if p[x]}
    if list(p) == [1, 0, 0] and list(drawn) != list(stated):
        assert first(strict.verify) == {0: 1}  # a one-hot target survives even that


def test_strict_needs_proposals_from_q():
    """transformers issue 32867 on F1: greedy proposals verified with the soft q give (1/2, 1/6, 1/3)."""
    p, q = F1
    law = law_of(lambda chance: strict.verify(rows([p, p]), rows([q]), [int(np.argmax(q))], chance).tokens[0])
    assert law == {0: F(1, 2), 1: F(1, 6), 2: F(1, 3)}


# ---- what is accepted --------------------------------------------------------------------------------------


def accepted_law(verify, p, q):
    law = law_of(lambda chance: one_round(verify, forgetful(p), {(): q}, 1, chance).accepted)
    return law.get(1, 0)


@given(exact_pairs())
def test_acceptance_probabilities(pair):
    """Strict accepts 1 - TV(p, q), which no coupling of q and p exceeds; matching accepts Σ p q."""
    p, q = pair
    alpha, match = accepted_law(strict.verify, p, q), accepted_law(sample_match.verify, p, q)
    assert alpha == overlap(p, q) == 1 - sum(abs(p - q)) / F(2)
    assert match == sum(p * q) <= alpha
    if max(q) == 1:
        assert match == alpha  # a one-hot draft: the two rules accept alike


def test_strict_by_hand():
    """The lesson's trace: acceptance [1, 1, 1/5]; and F1, whose residual (3/4, 1/4, 0) is not degenerate."""
    assert [strict.acceptance(P, Q, x) for x in range(3)] == [1, 1, F(1, 5)]
    target, draft = rows([F1[0], P]), rows([F1[1]])
    for uniforms, expected in [
        ([F(1, 3) - F(1, 10**9), F(6, 10)], Round((2, 1), ("accepted", "bonus"))),
        ([F(1, 3), 0], Round((0,), ("correction",))),
        ([F(1, 3), F(3, 4) - F(1, 10**9)], Round((0,), ("correction",))),
        ([F(1, 3), F(3, 4)], Round((1,), ("correction",))),
        ([0, F(9, 10)], Round((2, 2), ("accepted", "bonus"))),
    ]:
        assert strict.verify(target, draft, [2], Scripted(uniforms)) == expected


def test_sample_match_by_hand():
    target, draft = rows([P, F1[0], Q]), rows([Q, Q])
    for uniforms, expected in [
        ([F(1, 2), F(1, 2), F(1, 5)], Round((0, 1, 1), ("accepted", "accepted", "bonus"))),
        ([F(1, 2), F(8, 10)], Round((0, 2), ("accepted", "correction"))),
        ([F(6, 10)], Round((1,), ("correction",))),
    ]:
        chance = Scripted(uniforms)
        assert sample_match.verify(target, draft, [0, 1], chance) == expected and chance.left == 0


def test_purposes_in_order():
    target, draft = rows([P, P, P]), rows([Q, Q])
    for verify, uniforms, purposes in [
        (strict.verify, [0, 0, 0], ["accept", "accept", "bonus"]),
        (strict.verify, [0, F(1, 2), 0], ["accept", "accept", "correct"]),
        (sample_match.verify, [0, F(99, 100), 0], ["sample", "sample", "bonus"]),
        (sample_match.verify, [F(1, 2), F(1, 2)], ["sample", "sample"]),
    ]:
        recorded = Recorded(Scripted(uniforms))
        verify(target, draft, [0, 2], recorded)
        assert [decision.purpose for decision in recorded.tape] == purposes


@each_rule
def test_nothing_after_the_first_rejection_is_kept(verify):
    """The last proposal would surely pass, and still goes; the correction uses the row of the rejection."""
    target = rows([P, exact([0, 1, 0]), exact([0, 0, 1]), P])
    draft = rows([P, exact([1, 0, 0]), exact([0, 0, 1])])
    law = law_of(lambda chance: verify(target, draft, [0, 0, 2], chance))
    assert {r.tokens for r in law if r.tokens[0] == 0} == {(0, 1)}
    assert {r.origins for r in law if r.tokens[0] == 0} == {("accepted", "correction")}


@each_rule
@pytest.mark.parametrize("kind", [object, float])
def test_gamma_zero_is_one_target_draw(verify, kind):
    target, draft = rows([P.astype(kind)]), np.empty((0, SIZE), dtype=kind)
    law = law_of(lambda chance: verify(target, draft, [], chance))
    assert law == {Round((x,), ("bonus",)): pytest.approx(float(P[x]), rel=1e-12) for x in range(SIZE)}


# ---- one code on both kinds --------------------------------------------------------------------------------


@each_rule
@settings(max_examples=40)
@given(st.integers(0, 2), st.data(), smooth_uniforms(6))
def test_floats_and_fractions_decide_alike(verify, gamma, data, uniforms):
    p, q = data.draw(prefix_laws(gamma, SIZE)), data.draw(prefix_laws(max(0, gamma - 1), SIZE))
    floats = [{prefix: frozen(law.astype(float)) for prefix, law in model.items()} for model in (p, q)]
    exact_round = one_round(verify, p, q, gamma, Scripted(uniforms))
    for u in (uniforms, [float(x) for x in uniforms]):
        assert one_round(verify, *floats, gamma, Scripted(u)) == exact_round


@each_rule
def test_integers_are_exact_too(verify):
    one, other = np.array([1, 0], dtype=object), np.array([0, 1], dtype=object)
    law = law_of(lambda chance: verify(rows([one, one], 2), rows([other], 2), [1], chance))
    assert law == {Round((0,), ("correction",)): 1}


@each_rule
def test_numpy_proposals(verify):
    target, draft = rows([P, P, P]), rows([Q, Q])
    for proposals in (np.array([0, 1]), (np.int32(0), 1)):
        assert verify(target, draft, proposals, Scripted([0, F(7, 10), 0])).tokens[:2] == (0, 1)


# ---- float edges -------------------------------------------------------------------------------------------


@given(float_laws() | exact_laws(), st.sampled_from([BELOW_ONE, 0.0]) | st.floats(0, 1, exclude_max=True))
def test_equal_laws_never_reject(law, u):
    for token in np.flatnonzero(law).tolist():
        result = strict.verify(rows([law, law], len(law)), rows([law], len(law)), [token], Scripted([u, u]))
        assert result.origins == ("accepted", "bonus") and law[result.tokens[1]] > 0


def test_a_rejection_by_rounding_alone_draws_from_p():
    """q = p (1 + 0.9e-9) exceeds p everywhere, so the residual has no mass: normalising it is 0/0."""
    p = np.array([0.5, 0.25, 0.0, 0.25])
    q = p * (1 + 0.9e-9)
    assert strict.acceptance(p, q, 0) < BELOW_ONE
    for u, token in [(0.0, 0), (0.5, 1), (0.75, 3), (BELOW_ONE, 3)]:
        result = strict.verify(rows([p, p], 4), rows([q], 4), [0], Scripted([BELOW_ONE, u]))
        assert result == Round((token,), ("correction",))


@pytest.mark.parametrize("zero", [0.0, F(0)])
def test_a_uniform_of_zero_never_accepts_the_impossible(zero):
    """sglang issue 35771: an inclusive comparison accepts a token with p = 0 at u = 0."""
    p, q = exact([0, 1, 0]), exact([1, 1, 0], 2)
    if isinstance(zero, float):
        p, q = p.astype(float), q.astype(float)
    for verify in RULES:
        assert verify(rows([p, p]), rows([q]), [0], Scripted([zero, zero])) == Round((1,), ("correction",))


@each_rule
@given(st.data(), st.integers(0, 10**6))
def test_random_rounds_emit_only_possible_tokens(verify, data, seed):
    p, q = data.draw(float_laws(4)), data.draw(float_laws(4))
    chance = Random(seed)
    proposals = [chance.draw(q, "propose") for _ in range(2)]
    result = verify(rows([p, p, p], 4), rows([q, q], 4), proposals, chance)
    assert all(p[token] > 0 for token in result.tokens)
    assert list(result.tokens[: result.accepted]) == proposals[: result.accepted]


# ---- bad rounds --------------------------------------------------------------------------------------------

TARGET, DRAFT = rows([P, P, P]), rows([Q, exact([1, 0, 0])])


@each_rule
@pytest.mark.parametrize(
    ("target", "draft", "proposals", "message"),
    [
        (TARGET[:2], DRAFT, [0, 0], r"target has shape \(2, 3\): 2 proposals need 3 rows"),
        (P, DRAFT[:0], [], r"target has shape \(3,\)"),
        (TARGET, DRAFT, [0], "1 proposals need 2 rows"),
        (TARGET, DRAFT[:1], [0, 0], r"draft has shape \(1, 3\), expected \(2, 3\)"),
        (TARGET, rows([exact([1, 1], 2)] * 2, 2), [0, 0], "zeros for what it lacks"),
        (TARGET[:1], DRAFT, [], r"draft has shape \(2, 3\), expected \(0, 3\)"),
        (TARGET, DRAFT.astype(float), [0, 0], "different kinds"),
        (TARGET.astype(float), DRAFT, [0, 0], "different kinds"),
        (TARGET, DRAFT.tolist(), [0, 0], "draft must be a numpy array"),
        (TARGET.tolist(), DRAFT, [0, 0], "target must be a numpy array"),
        (TARGET, None, [0, 0], r"draft has shape \(\)"),
        (TARGET.astype(np.float32), DRAFT, [0, 0], "target has dtype float32"),
        (rows([P, P, exact([1, 1, 0], 3)]), DRAFT, [0, 0], "target row 2 is not a law: sum 2/3"),
        (
            TARGET,
            rows([Q, exact([2, -1, 0])]),
            [0, 0],
            "draft row 1 is not a law: sum 1, smallest entry -1",
        ),
        (TARGET.astype(float), np.array([[1.0, 0, 0], [np.nan, 1, 0]]), [0, 0], "draft row 1 .* sum nan"),
        (TARGET, DRAFT, [0, 1], "proposal 1 is token 1, which draft row 1 gives probability 0"),
        (TARGET, DRAFT, [3, 0], "proposal 0 is 3: not a token id below 3"),
        (TARGET, DRAFT, [0, -1], "proposal 1 is -1"),
        (TARGET, DRAFT, [0.0, 0], r"proposal 0 is 0\.0"),
        (TARGET, DRAFT, np.array([0.0, 0.0]), "proposal 0 is"),
        (TARGET, DRAFT, ["0", 0], "proposal 0 is '0'"),
        (TARGET, DRAFT, np.array([[0], [0]]), "proposal 0 is"),
    ],
)
def test_bad_rounds_are_refused(verify, target, draft, proposals, message):
    chance = Scripted([])  # refused before anything is decided
    with pytest.raises(ValueError, match=message):
        verify(target, draft, proposals, chance)
    with pytest.raises(ValueError, match=message):
        check_round(target, draft, proposals)


def test_rounds_know_their_origins():
    assert ended([4, 5, 6], 2, 7, "correction") == Round((4, 5, 7), ("accepted", "accepted", "correction"))
    assert ended([4, 5], 2, 7, "bonus").accepted == 2 and ended([], 0, 7, "bonus").accepted == 0
    for tokens, origins in [((1,), ()), ((1,), ("guess",)), ((1, 2), ("accepted",))]:
        with pytest.raises(ValueError, match="one origin"):
            Round(tokens, origins)
