"""Tier 2 reads laws off functions of uniforms exactly, finds faults at boundaries, and accuses no innocent."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from specdec.chance import Scripted, law_of
from specdec.conformance import mutants, samplers, scripted
from specdec.conformance.guard import BrokenError, OutOfReachError
from specdec.conformance.scripted import ROWS, Cells, Rows, Script, boundaries, law_of_cells, probe, race, recover, thresholds
from specdec.conformance.verdicts import Verdict
from specdec.law import exact
from specdec.models import abc_machine
from specdec.models.table import Table
from specdec.verification import block, sample_match, strict

F = Fraction
F1 = exact([5, 3, 2], 10), exact([2, 2, 6], 10)
F2 = next(rows for rows in ROWS if rows.name.startswith("F2"))


# ---- samplers on floats: the right parts, and their wrong twins -------------------------------------------------------------


def inverse(weights, u):
    """Right: the first running sum above u, never a token without weight."""
    sums = np.cumsum(weights)
    return min(int(np.searchsorted(sums, u * sums[-1], side="right")), int(np.flatnonzero(weights)[-1]))


def inclusive_but_safe(weights, u):
    """Right: a cell holds its upper edge, which is a convention where both sides are possible."""
    sums, possible = np.cumsum(weights), np.flatnonzero(weights)
    return int(np.clip(np.searchsorted(sums, u * sums[-1], side="left"), possible[0], possible[-1]))


def inclusive(weights, u):
    """Wrong at u = 0: the first running sum of at least u is that of token 0, possible or not."""
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, u * sums[-1], side="left"))


def both_edges(weights, u):
    """Wrong at cell edges: every thread whose closed cell holds u writes its token, and a cell of no width may be the last."""
    sums = np.cumsum(weights / weights.sum())
    hits = np.flatnonzero((np.concatenate([[0], sums[:-1]]) <= u) & (u <= sums))
    return int(hits[len(hits) // 2]) if len(hits) else int(np.flatnonzero(weights)[-1])


def past_the_end(weights, u):
    """Wrong at the largest u: the running sum ends below 1, and none is above u."""
    return int(np.searchsorted(np.cumsum(weights / weights.sum()), u, side="right"))


def last_id(weights, u):
    """Wrong at the largest u: cut to the vocabulary, not to the tokens with weight."""
    return min(past_the_end(weights, u), len(weights) - 1)


def below(u, acceptance):
    return u < acceptance


def at_most(u, acceptance):
    return u <= acceptance


def in_order(uniforms):
    return uniforms.random


def fresh(take, u, a):
    return take()


def rule(draw=inverse, accept=below, take=in_order, correct=fresh, bonus_first=False, lenience=1):
    """Strict sampling on numpy floats, with its parts as parameters. ``correct`` gives the correction's uniform."""

    def round_(target, draft, proposals, uniforms):
        next_uniform = take(uniforms)
        bonus = next_uniform() if bonus_first else None
        for i, token in enumerate(proposals):
            u, a = next_uniform(), min(1.0, lenience * target[i, token] / draft[i, token])
            if not accept(u, a):
                excess = np.maximum(target[i] - draft[i], 0)
                return *proposals[:i], draw(excess if excess.any() else target[i], correct(next_uniform, u, a))
        return *proposals, draw(target[-1], next_uniform() if bonus is None else bonus)

    return round_


def on_chance(verify):
    return lambda target, draft, proposals, uniforms: verify(target, draft, proposals, uniforms).tokens


def accused(round_, situations=ROWS, dtype=np.float64):
    return [finding for finding in scripted.check(round_, situations, dtype) if finding.accused]


# ---- the recovered law --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [strict.verify, block.verify, sample_match.verify, mutants.one_uniform_for_two])
@pytest.mark.parametrize("kind", [object, np.float64])
def test_the_law_of_a_rule_is_recovered_as_fractions(verify, kind):
    """On exact rows and on floats, from a script of floats: the same Fractions that law_of finds by enumeration."""
    for x in [(0, 0), (2, 1), (2, 2), (1, 2)]:
        target = np.array([F2.target.law_after(x[:i]) for i in range(3)])
        draft = np.array([F2.draft.law_after(x[:i]) for i in range(2)])
        rows = target.astype(kind), draft.astype(kind)
        found = recover(lambda u, rows=rows, x=x: verify(*rows, x, u).tokens, thresholds(target, draft, x), 3)
        assert found.law() == law_of(lambda chance, t=target, d=draft, x=x: verify(t, d, x, chance).tokens)


def test_scripted_chance_gives_the_same_law():
    p, q = F1
    run = lambda u: strict.verify(np.array([p, p]), np.array([q]), [2], Scripted([next(u), next(u)])).tokens  # noqa: E731
    law = recover(run, thresholds(np.array([p, p]), np.array([q]), [2]), 3).law()
    assert law == {(2, 0): F(1, 6), (2, 1): F(1, 10), (2, 2): F(1, 15), (0,): F(1, 2), (1,): F(1, 6)}


def test_no_threshold_need_be_known():
    """Bisection alone gives the same Fractions, all of small denominator."""
    rows = np.array([F1[0]] * 2).astype(float), np.array([F1[1]]).astype(float)
    law = recover(lambda u: rule()(*rows, (2,), u), (), 3).law()
    assert law == {(2, 0): F(1, 6), (2, 1): F(1, 10), (2, 2): F(1, 15), (0,): F(1, 2), (1,): F(1, 6)}


def test_a_breakpoint_of_no_small_denominator_is_exact_to_the_last_bit():
    root = 0.5**0.5
    law = recover(lambda u: (int(u.random() > root),), (), 2).law()
    assert abs(law[0,] - F(root)) <= F(1, 2**53) and sum(law.values()) == 1


def test_a_cell_that_ends_at_thresholds_is_found_however_thin():
    thin = [F(1, 3), F(1, 3) + F(1, 10**9)]
    run = lambda u: (int(thin[0] <= u.random() < thin[1]),)  # noqa: E731
    assert recover(run, thin, 2).law() == {(0,): 1 - F(1, 10**9), (1,): F(1, 10**9)}
    assert recover(run, (), 2) == (0,)  # the limit that the docstring states


def test_a_cell_that_the_first_look_misses_is_found_by_the_second():
    """Narrower than 1/16, between the places of the first look; 64 scripts miss a cell of 3/50 with probability 0.02."""
    low, high = F(19, 50), F(22, 50)
    cell = recover(lambda u: (int(low <= u.random() < high) + 2 * int(u.random() < F(1, 2)),), (), 4)
    assert cell.law() == {(0,): F(47, 100), (1,): F(3, 100), (2,): F(47, 100), (3,): F(3, 100)}


def test_what_a_first_uniform_decides_at_the_end_of_a_block_that_rarely_passes_is_found():
    run = lambda u: (lambda bonus: (int(u.random() < 0.01 and u.random() < 0.2 and bonus < 0.5),))(u.random())  # noqa: E731
    assert recover(run, [F(1, 100)], 2).law() == {(1,): F(1, 1000), (0,): F(999, 1000)}


def test_cells_say_what_follows():
    rows = np.array([F1[0]] * 2), np.array([F1[1]])
    cells = recover(lambda u: mutants.one_uniform_for_two(*rows, (2,), u).tokens, thresholds(*rows, (2,)), 3)
    assert isinstance(cells, Cells)
    assert str(cells) == "[0, 1/3) gives 2 0 or 2 1 or 2 2, [1/3, 3/4) gives 0, [3/4, 1) gives 1"
    assert law_of_cells((1, 2)) == {(1, 2): 1}


def test_cells_that_move_with_an_earlier_uniform_are_out_of_reach():
    with pytest.raises(OutOfReachError, match=r"move with an earlier one|not found in"):
        recover(lambda u: (int(u.random() > u.random()),), (), 2)


def test_a_run_that_is_no_text_is_broken():
    def raises(u):
        raise RuntimeError("out of memory")

    def endless(u):
        while u.random() < 1:
            pass

    for run, says in {
        raises: "RuntimeError: out of memory",
        endless: "it never ends",
        lambda u: (): "no token",
        lambda u: (float("nan"),): "nan, which is no token id",
        lambda u: (int(3 * u.random()),): "2, which is no token id from 0 to 1, with uniforms",
        lambda u: None: "None, which is no sequence",
    }.items():
        with pytest.raises(BrokenError, match=says):
            recover(run, (), 2)


# ---- a script is read as a sampler likes -------------------------------------------------------------------------------


def test_a_script_is_a_generator_an_iterator_and_a_chance_object():
    script = Script((0.0, 0.25), (0.5, 0.75))
    assert script.random() == 0 and next(script) == 0.25
    assert script.random((2, 2)).tolist() == [[0.5, 0.75], [0.5, 0.75]]
    assert not script.accept(0.5, "accept") and script.accept(0.5, "accept", u=0.25)
    assert script.draw(np.array([0.5, 0.5]), "bonus") == 1 and script.uniform("bonus") == 0.5
    assert script.used == 9 and script.taken == (0, 0.25, 0.5, 0.75, 0.5, 0.75, 0.5, 0.75, 0.5)


# ---- innocents -----------------------------------------------------------------------------------------------------------

INNOCENT = {
    "strict": on_chance(strict.verify),
    "block": on_chance(block.verify),
    "sample and match": on_chance(sample_match.verify),
    "on numpy floats": rule(),
    "inclusive where both sides are possible": rule(draw=inclusive_but_safe),
    "a rejecting comparison": rule(accept=lambda u, a: not u >= a),
    "a recycled uniform": rule(correct=lambda take, u, a: (u - a) / (1 - a)),
    "antithetic": rule(take=lambda uniforms: lambda: min(1 - uniforms.random(), 1 - 2.0**-53)),
    "uniforms that nothing uses": rule(take=lambda uniforms: lambda: (uniforms.random(), uniforms.random())[1]),
    "an array of fixed length": rule(take=lambda uniforms: partial(next, iter(uniforms.random(6).tolist()))),
    "an array read from its end": rule(take=lambda uniforms: partial(next, iter(uniforms.random(4)[::-1].tolist()))),
    "the bonus drawn first": rule(bonus_first=True),
    "a shifted uniform": rule(correct=lambda take, u, a: (u + take()) % 1),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_an_innocent_is_not_accused(name):
    shifted = name == "a shifted uniform"  # its correction moves with the uniform that rejected: its law is only sampled
    situations = [F2] if shifted else ROWS
    findings = list(scripted.check(INNOCENT[name], situations))
    assert [finding.where for finding in findings] == [rows.name for rows in situations]
    assert not [finding for finding in findings if finding.accused]
    if not shifted:
        assert {finding.verdict for finding in findings} == {Verdict.NOT_REFUTED}
        assert all(finding.distance == 0 for finding in findings)


def test_a_sampler_in_float32_is_innocent_on_uniforms_of_its_own():
    def round_(target, draft, proposals, uniforms):
        return rule()(target.astype(np.float32), draft.astype(np.float32), proposals, _Float32(uniforms))

    findings = list(scripted.check(round_, dtype=np.float32))
    assert {finding.verdict for finding in findings} == {Verdict.NOT_REFUTED}


class _Float32:
    def __init__(self, uniforms):
        self.random = lambda: np.float32(next(uniforms))


def test_a_race_on_uniforms_is_judged_by_samples():
    """A token races with -log(1 - u)/weight, so its cells are no boxes. Lossless, and so not refuted."""

    def draw(weights, uniforms):
        noise = -np.log1p(-np.array([uniforms.random() for _ in weights]))
        return int(np.argmin(np.where(weights > 0, noise, np.inf) / np.where(weights > 0, weights, 1)))

    def round_(wrong, target, draft, proposals, uniforms):
        for i, token in enumerate(proposals):
            if uniforms.random() >= target[i, token] / draft[i, token]:
                excess = np.maximum(target[i] - draft[i], 0)
                return *proposals[:i], draw(target[i] if wrong else excess, uniforms)
        return *proposals, draw(target[-1], uniforms)

    (finding,) = scripted.check(partial(round_, False), ROWS[:1])
    assert finding.verdict == Verdict.NOT_REFUTED and "by 4096 scripts" in finding.says
    # The residual's place taken by p moves the first token by 1/10; the error allowed at 1e-9 is .074.
    (finding,) = scripted.check(partial(round_, True), ROWS[:1])
    assert finding.verdict == Verdict.LOSSY and finding.distance > 0.074


# ---- wrong twins ---------------------------------------------------------------------------------------------------------

TINY = {  # right but on a set of probability 2^-53: the finding, and a situation in which it shows
    "u <= p/q": (rule(accept=at_most), Verdict.LOSSY, "no weight first", "token 0 has target probability 0"),
    "first sum of at least u": (rule(draw=inclusive), Verdict.LOSSY, "no weight first", "token 0 has target probability 0"),
    "both edges": (rule(draw=both_edges), Verdict.LOSSY, "no weight amid", "token 1 has target probability 0"),
    "index V": (rule(draw=past_the_end), Verdict.BROKEN, "float sums end below 1", "4, which is no token id from 0 to 3"),
    "index V - 1": (rule(draw=last_id), Verdict.LOSSY, "float sums end below 1", "token 3 has target probability 0"),
}


@pytest.mark.parametrize("name", TINY)
def test_a_fault_at_a_boundary_is_found(name):
    round_, verdict, where, says = TINY[name]
    findings = [finding for finding in scripted.check(round_) if finding.where.startswith(where)]
    assert [finding.verdict for finding in findings] == [Verdict.NOT_REFUTED, verdict]
    assert says in findings[1].says and "proposals" in findings[1].says and "uniforms [" in findings[1].says


def test_the_fault_at_a_boundary_is_witnessed():
    *_, finding = accused(rule(accept=at_most), [rows for rows in ROWS if rows.name.startswith("no weight first")])
    witness = finding.witness
    assert (witness.path, witness.token, witness.expected, witness.found, witness.weight) == ((), 0, 0, F(1, 2**53), 1)


def test_nothing_but_faults_is_listed_by_a_probe():
    at = [F(1, 2)]
    assert probe(lambda u: (int(u.random() < 0.5),), at, 2, lambda tokens: False) == []
    assert probe(lambda u: (int(u.random() <= 0.5),), at, 2, lambda tokens: False) == []
    never_two = lambda tokens: tokens[-1] == 2  # noqa: E731
    faults = probe(lambda u: (int(u.random() <= 0.5) + int(u.random() == 0.5),), at, 3, never_two)
    assert {fault.uniforms[1] for fault in faults} == {0.5} and {fault.tokens for fault in faults} == {(2,)}
    (fault,) = probe(lambda u: (0 * int(1 / u.random()),), at, 1, lambda tokens: False, found=(0,))
    assert fault.tokens == () and fault.uniforms == (0,) and "ZeroDivisionError" in fault.says


def test_boundaries_are_what_the_generator_can_make():
    single = 1 - 2.0**-24
    assert boundaries([F(1, 2)]) == [0, 0.5 - 2**-54, 0.5, 0.5 + 2**-53, single - 2**-53, single, single + 2**-53, 1 - 2**-53]
    assert boundaries([F(1, 3)], np.float32)[1:4] == [float(np.float32(1 / 3)) + step * 2.0**-25 for step in (-1, 0, 1)]
    assert boundaries([], np.float32) == [0, 1 - 2**-23, 1 - 2**-24]


def test_thresholds_of_a_round():
    p, q = F1
    rows = np.array([p, p]), np.array([q])
    ratio, of_p, of_q, of_excess = {F(1, 3)}, {F(1, 2), F(4, 5)}, {F(1, 5), F(2, 5)}, {F(3, 10), F(3, 4)}
    assert ratio | of_p | of_q | of_excess <= set(thresholds(*rows, (2,)))


REUSE = {
    "one uniform rejects and corrects": rule(correct=lambda take, u, a: u),
    "the same, through chance": on_chance(mutants.one_uniform_for_two),
}


@pytest.mark.parametrize("name", REUSE)
def test_a_uniform_used_twice_gives_its_exact_wrong_law(name):
    finding = accused(REUSE[name])[0]
    assert finding.witness.path == () and (finding.witness.expected, finding.witness.found) == (F(1, 2), F(9, 20))
    assert finding.distance == F(1, 20)  # of (9, 7, 4)/20 from (10, 6, 4)/20
    assert "with proposals [2] uniform 0 decides more than one thing: [0, 1/3) gives 2 0 or 2 1 or 2 2, [1/3," in finding.says


def test_a_uniform_used_twice_yields_nine_seven_four_twentieths():
    p, q = F1
    law = {token: F(0) for token in range(3)}
    for x in range(3):
        rows = np.array([p, p]), np.array([q])
        run = partial(REUSE["one uniform rejects and corrects"], *(some.astype(float) for some in rows), (x,))
        found = recover(run, thresholds(*rows, (x,)), 3)
        for tokens, weight in found.law().items():
            law[tokens[0]] += q[x] * weight
    assert list(law.values()) == [F(9, 20), F(7, 20), F(4, 20)]


def test_one_uniform_for_all_acceptances_is_found():
    def round_(target, draft, proposals, uniforms):
        first = uniforms.random()
        uses = iter([first] * len(proposals))
        return rule(take=lambda u: lambda: next(uses, None) or u.random(), correct=lambda take, u, a: uniforms.random())(
            target, draft, proposals, uniforms
        )

    findings = accused(round_, [F2])
    assert [finding.verdict for finding in findings] == [Verdict.LOSSY]
    assert "it takes 2 uniforms at most, where up to 3 decisions are due" in findings[0].says


WRONG = [
    *[mutants.residual_is_p, mutants.residual_from_previous_row, mutants.bonus_from_previous_row, mutants.bonus_after_rejection],
    *[mutants.keeps_discarded_branch, mutants.block_plain_residual, mutants.block_restarts, mutants.block_caps_late],
    *[mutants.block_caps_early, mutants.block_mass_from_previous_row, mutants.block_same_test_everywhere],
    *[mutants.block_stops_at_first_failure, mutants.block_one_uniform, mutants.block_tokenwise],
]


@pytest.mark.parametrize("verify", WRONG)
def test_every_wrong_rule_of_one_round_is_lossy(verify):
    few = [F2, *(rows for rows in ROWS if rows.name.startswith("halves"))]
    assert {finding.verdict for finding in accused(on_chance(verify), few)} == {Verdict.LOSSY}


def test_a_small_lenience_is_lossy():
    """The acceptance 1.1 p/q is no threshold of any rule."""
    findings = accused(rule(lenience=1.1), ROWS[:1])
    # Token 2 is accepted with 11/30, so it comes with 6/10 * 11/30 = 11/50 instead of 1/5.
    assert len(findings) == 1 and findings[0].distance == F(1, 50)


def test_a_previous_row_is_witnessed_where_it_shows_first():
    (finding,) = accused(on_chance(mutants.bonus_from_previous_row), [Rows("ABC", *abc_machine.remembering(), gamma=2)])
    assert len(finding.witness.path) == 2


@pytest.mark.parametrize("fault", ["raises", "leaves the vocabulary", "emits nothing", "never ends"])
def test_a_broken_round_is_a_finding_with_its_input(fault):
    def round_(target, draft, proposals, uniforms):
        u = uniforms.random()
        while fault == "never ends":
            u = uniforms.random()
        if u < 0.5:
            return proposals
        return {"raises": lambda: 1 // 0, "leaves the vocabulary": lambda: (3,), "emits nothing": lambda: ()}[fault]()

    (finding,) = scripted.check(round_, ROWS[:1])
    assert finding.verdict == Verdict.BROKEN
    assert "proposals [0]" in finding.says and ("uniforms [" in finding.says or fault == "never ends")
    assert finding.says.count("proposals") == finding.says.count("target [") == 1


def test_a_broken_rule_names_its_rows_once():
    """A rule of ``samplers.rule`` names its own input; the script adds its uniforms."""
    found = scripted.check_rule(samplers.rule("none", mutants.no_correction).verify, ROWS[:1])
    (finding,) = (finding for finding in found if finding.accused)
    assert finding.says.count("target [") == finding.says.count("uniforms [") == finding.says.count("proposals [") == 1


def test_laws_divided_in_place_do_not_reach_the_next_run():
    def round_(target, draft, proposals, uniforms):
        tokens = rule()(target, draft, proposals, uniforms)
        target /= 7
        return tokens

    assert not accused(round_, ROWS[:2])


# ---- races ---------------------------------------------------------------------------------------------------------------


def racing(weights, kind):
    with np.errstate(divide="ignore"):
        log = np.log(np.array(weights, dtype=float))

    def winner(noise):
        assert noise.shape == (len(weights),)
        return int(np.argmax(log + noise)) if kind == "gumbel" else int(np.argmin(noise / np.exp(log)))

    return winner


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("kind", ["exponential", "gumbel"])
def test_the_law_of_a_race_is_recovered(kind):
    assert race(racing([0.5, 0.3, 0.2], kind), 3, kind) == {(0,): F(1, 2), (1,): F(3, 10), (2,): F(1, 5)}
    assert race(racing([0, 7, 0, 1], kind), 4, kind) == {(1,): F(7, 8), (3,): F(1, 8)}
    assert race(racing([0, 1], kind), 2, kind) == {(1,): 1}
    assert race(racing([4, 4], kind), 2, kind) == {(0,): F(1, 2), (1,): F(1, 2)}
    thin = race(racing([1, 1e-6], kind), 2, kind)
    assert thin[1,] == pytest.approx(1e-6 / (1 + 1e-6), rel=1e-9)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_race_with_the_wrong_weights_shows():
    """p kept from above by a floor of 1e-9: a token of no weight can win. And noise in the wrong place: no race at all."""
    floored = race(racing([0.5 + 1e-9, 0.5 + 1e-9, 1e-9], "gumbel"), 3, "gumbel")
    assert 0 < floored[2,] < 2e-9
    with pytest.raises(OutOfReachError, match="no race of weights"):
        race(lambda noise: int(np.argmax(np.array([0.5, 0.3, 0.2]) + noise / 9)), 3, "exponential")
    squared = race(lambda noise: int(np.argmax(2 * np.log([0.6, 0.4]) + noise)), 2, "gumbel")
    assert squared == {(0,): F(9, 13), (1,): F(4, 13)}


def test_a_race_that_is_none_is_named():
    with pytest.raises(ValueError, match="must be one of exponential, gumbel"):
        race(lambda noise: 0, 2, "normal")
    with pytest.raises(BrokenError, match="2, which is no token id from 0 to 1, on the noise"):
        race(lambda noise: 2, 2)
    with pytest.raises(BrokenError, match="ZeroDivisionError"):
        race(lambda noise: 1 // 0, 2)
    with pytest.raises(OutOfReachError, match="no race of weights"):
        race(lambda noise: int(noise.sum() > 1), 2)


# ---- the situations ------------------------------------------------------------------------------------------------------


def test_the_situations_end_below_one_where_they_say_so():
    rows = next(rows for rows in ROWS if rows.name.startswith("float sums"))
    p, q = (table.law_after(()).astype(float) for table in (rows.target, rows.draft))
    excess = np.maximum(p - q, 0)
    assert np.cumsum(p)[-1] < 1 and np.cumsum(excess / excess.sum())[-1] < 1 and p[-1] == excess[-1] == 0


def test_a_situation_of_ones_own():
    rows = Rows("mine", Table(exact([1, 1], 2)), Table(exact([3, 1], 4)), gamma=0)
    (finding,) = scripted.check(rule(), [rows])
    assert (finding.tier, finding.where, finding.verdict) == ("scripted", "mine", Verdict.NOT_REFUTED)
