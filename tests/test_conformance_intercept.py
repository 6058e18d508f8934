# ruff: noqa: SIM300 -- code under test puts its thresholds on either side
"""Interception: every idiom of numpy and torch gives its exact law, wrong twins theirs, and nothing outlives the context."""

import math
from fractions import Fraction as F

import numpy as np
import pytest

from specdec.chance import Random, Recorded, Scripted, law_of
from specdec.conformance.intercept import NotFollowedError, generator, numpy_calls, torch_calls
from specdec.law import exact

# F1: p, q, and their residual (3/4, 1/4, 0). Sixteenths and the like are floats without rounding, so laws are equal, not close.
P, Q = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]
EIGHTHS = np.array([5, 2, 1]) / 8
LAW = {0: F(5, 8), 1: F(2, 8), 2: F(1, 8)}


def law(program):
    """The law of a program that draws with numpy alone."""

    def run(chance):
        with numpy_calls(chance):
            return program()

    found = law_of(run)
    assert sum(found.values()) == 1
    return {outcome: weight for outcome, weight in found.items() if weight}


def distance(one, other):
    return sum(abs(one.get(x, 0) - other.get(x, 0)) for x in {*one, *other}) / 2


# ---- numpy: one draw ------------------------------------------------------------------------------------------------------

ROW, CUMULATIVE = EIGHTHS, EIGHTHS.cumsum()
ONE_DRAW = {
    "searchsorted": lambda: int(np.searchsorted(CUMULATIVE, np.random.random(), side="right")),
    "searchsorted, a method": lambda: int(CUMULATIVE.searchsorted(np.random.rand())),
    "argmax of cumulative > u": lambda: int(np.argmax(CUMULATIVE > np.random.random())),
    "count of cumulative < u": lambda: int((CUMULATIVE < np.random.uniform()).sum()),
    "u times the total": lambda: int((2 * CUMULATIVE < np.random.uniform() * 2.0).sum()),
    "uniform on another range": lambda: int((2 * CUMULATIVE + 1 < np.random.uniform(1, 3)).sum()),
    "a loop": lambda: next(i for u in [np.random.random()] for i, c in enumerate(CUMULATIVE) if u < c),
    "choice": lambda: int(np.random.choice(3, p=ROW)),
    "choice of elements": lambda: int(np.random.choice([0, 1, 2], size=(1,), p=ROW)[0]),
    "multinomial": lambda: int(np.random.multinomial(1, ROW).argmax()),
    "argmin of e / p": lambda: int(np.argmin(np.random.exponential(size=3) / ROW)),
    "argmax of p / e": lambda: int(np.argmax(ROW / np.random.standard_exponential(3))),
    "exponentials with scales": lambda: int(np.argmin(np.random.exponential(1 / ROW[2] / 8, size=3) / ROW)),
    "a race of -log u": lambda: int((-np.log(np.random.rand(3)) / ROW).argmin()),
    "a race of -log(1 - u)": lambda: int(np.argmin(-np.log1p(-np.random.rand(3)) / ROW)),
    "guards against 0": lambda: int(np.argmin((-np.log(np.random.rand(3) + 1e-10) + 1e-10) / ROW)),
    "min by hand": lambda: min(range(3), key=(np.random.exponential(size=3) / ROW).__getitem__),
    "a generator": lambda: int(np.random.default_rng(0).choice(3, p=ROW)),
    "an old generator": lambda: int(np.argmax(CUMULATIVE > np.random.RandomState(0).random_sample())),
}


@pytest.mark.parametrize("name", ONE_DRAW)
def test_each_way_to_draw_has_its_exact_law(name):
    assert law(ONE_DRAW[name]) == LAW


@pytest.mark.parametrize("name", ["gumbel", "by hand", "minus"])
def test_a_gumbel_race_differs_by_the_rounding_of_its_logarithms_alone(name):
    noise = {
        "gumbel": lambda: np.random.gumbel(size=3),
        "by hand": lambda: -np.log(-np.log(np.random.rand(3))),
        "minus": lambda: 0.25 - np.log(np.random.exponential(size=3)),
    }[name]
    assert distance(law(lambda: int(np.argmax(np.log(ROW) + noise()))), LAW) < 1e-15


def test_zeros_are_never_drawn():
    row = np.array([0, 3, 0, 1]) / 4
    with np.errstate(divide="ignore"):
        logits = np.log(row)
    for program in (
        lambda: int(np.random.choice(4, p=row)),
        lambda: int(np.argmin(np.random.exponential(size=4) / row)),
        lambda: int(np.argmax(row / np.random.exponential(size=4))),
    ):
        assert law(program) == {1: F(3, 4), 3: F(1, 4)}
    assert distance(law(lambda: int(np.argmax(logits + np.random.gumbel(size=4)))), {1: F(3, 4), 3: F(1, 4)}) < 1e-15


def test_several_draws_are_independent_and_those_without_replacement_are_not():
    both = law(lambda: tuple(np.random.choice(3, size=2, p=ROW).tolist()))
    assert both == {(x, y): LAW[x] * LAW[y] for x in LAW for y in LAW}
    without = law(lambda: tuple(np.random.choice(3, size=2, replace=False, p=ROW).tolist()))
    assert without == {(x, y): LAW[x] * LAW[y] / (1 - LAW[x]) for x in LAW for y in LAW if x != y}
    counts = law(lambda: tuple(np.random.multinomial(2, ROW).tolist()))
    assert counts[2, 0, 0] == F(25, 64) and counts[1, 1, 0] == 2 * F(10, 64)
    assert law(lambda: int(np.random.choice(4))) == dict.fromkeys(range(4), F(1, 4))


def test_a_winner_may_race_on():
    """Pair by pair, or in two heats and a final: the law is the same."""

    def heats():
        times = np.random.exponential(size=3) / ROW
        best = min(times[0], times[1])
        return 2 if times[2] < best else int(times[1] < times[0])

    assert law(heats) == LAW


# ---- numpy: acceptance ----------------------------------------------------------------------------------------------------

ACCEPTED = {
    "u < p / q": lambda p, q: np.random.random() < p / q,
    "p / q >= u": lambda p, q: p / q >= np.random.random(),
    "u * q <= p": lambda p, q: np.random.random() * q <= p,
    "q * u < p": lambda p, q: q * np.random.rand() < p,
    "u < min(1, p / q)": lambda p, q: np.random.uniform(size=1)[0] < min(1.0, p / q),
    "an array": lambda p, q: (np.random.rand(2) < np.array([p, p]) / q)[1],
    "1 - u > p / q": lambda p, q: not (1 - np.random.random() > p / q),
    "u - p / q < 0": lambda p, q: np.random.random() - p / q < 0,
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_each_way_to_accept_has_its_exact_law(name):
    assert law(lambda: bool(ACCEPTED[name](0.375, 0.5))) == {True: F(3, 4), False: F(1, 4)}
    assert law(lambda: bool(ACCEPTED[name](0.75, 0.25))) == {True: 1}
    assert law(lambda: bool(ACCEPTED[name](0.0, 0.25))) == {False: 1}


def test_not_a_number_compares_false_and_infinity_accepts():
    for threshold, accepted in [(math.nan, False), (math.inf, True), (-math.inf, False)]:
        assert law(lambda t=threshold: bool(np.random.random() < t)) == {accepted: 1}
        assert law(lambda t=threshold: bool(np.random.random() <= np.float64(t))) == {accepted: 1}
        assert law(lambda t=threshold: bool((np.array([t]) >= np.random.rand(1))[0])) == {accepted: 1}
    assert law(lambda: bool(np.random.random() > math.nan)) == {False: 1}
    assert law(lambda: bool(np.random.random() * 0.0 < 0.25)) == {True: 1}


def test_float_thresholds_count_as_the_fractions_that_they_are():
    assert law(lambda: bool(np.random.random() < 0.1))[True] == F(0.1) != F(1, 10)
    assert law(lambda: bool(np.random.random() < np.float32(0.1)))[True] == F(float(np.float32(0.1)))
    assert law(lambda: bool(np.random.random() < F(1, 10)))[True] == F(1, 10)


# ---- numpy: a speculative rule and its wrong twins --------------------------------------------------------------------------


def rule(p, q, recycle):
    """Draws a proposal from q and verifies it; ``recycle`` says which uniform the residual's draw takes."""
    x = int(np.random.choice(3, p=q))
    u = np.random.random()
    if u * q[x] < p[x]:
        return x
    excess = np.maximum(p - q, 0)
    return int((np.cumsum(excess) / sum(excess) <= recycle(u, p[x] / q[x])).sum())


RECYCLES = {"fresh": lambda u, a: np.random.random(), "recycled": lambda u, a: (u - a) / (1 - a), "reused": lambda u, a: u}


@pytest.mark.parametrize("name", RECYCLES)
def test_a_reused_uniform_is_found_and_a_correctly_recycled_one_is_innocent(name):
    exactly = law(lambda: rule(exact(P_TENTHS, 10), exact(Q_TENTHS, 10), RECYCLES[name]))
    nearly = law(lambda: rule(np.array(P), np.array(Q), RECYCLES[name]))
    expected = dict(enumerate(exact([9, 7, 4], 20) if name == "reused" else exact([5, 3, 2], 10)))
    assert exactly == expected
    assert distance(nearly, expected) < 1e-15


P_TENTHS, Q_TENTHS = [5, 3, 2], [2, 2, 6]


def test_an_explicit_generator_needs_no_context():
    def program(rng):
        return int(rng.choice(3, p=EIGHTHS)), bool(rng.random() < 0.5)

    assert law_of(lambda chance: program(generator(chance)))[0, True] == F(5, 16)


# ---- numpy: what is refused, and what is left behind -------------------------------------------------------------------------

REFUSED = {
    "randn": lambda: np.random.randn(3),
    "shuffle": lambda: np.random.shuffle([1, 2]),
    "a generator's integers": lambda: np.random.default_rng().integers(3),
    "the value": lambda: float(np.random.random()),
    "an integer": lambda: int(np.random.random() * 3),
    "truth": lambda: bool(np.random.random()),
    "equality": lambda: np.random.random() == 0.5,
    "two uniforms": lambda: np.random.random() < np.random.random(),
    "log(u + 0.1)": lambda: np.log(np.random.rand() + 0.1),
    "u and then its log": lambda: [(u < 0.5, np.log(u)) for u in [np.random.rand()]],
    "the log and then u": lambda: [(np.log(u), u < 0.5) for u in [np.random.rand()]],
    "both logs": lambda: [np.log(u) for u in [np.random.rand()] for u in (u, 1 - u)],
    "noise against a threshold": lambda: np.random.exponential() < 1,
    "noise plus a number": lambda: np.random.exponential() + 0.1,
    "scaled Gumbel noise": lambda: np.random.gumbel() * 2,
    "two races": lambda: [np.argmin(e / w) for e in [np.random.exponential(size=2)] for w in (EIGHTHS[:2], EIGHTHS[1:])],
    "a ranking": lambda: np.argsort(np.random.exponential(size=3) / EIGHTHS),
    "division by 0": lambda: np.random.random() / 0.0,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_followed_names_itself_and_the_remedy(name):
    with pytest.raises(NotFollowedError, match="can't be followed exactly: "):
        law(lambda: str(REFUSED[name]()))


@pytest.mark.parametrize("p", [[math.nan, 0.5], [0.5, 0.4], [-0.5, 1.5], [math.inf, 0.0], [1.0]])
def test_choice_refuses_what_numpy_refuses(p):
    with pytest.raises(ValueError):  # noqa: PT011 -- numpy has a text for each
        np.random.choice(2, p=p)
    with pytest.raises(ValueError):  # noqa: PT011
        law(lambda: int(np.random.choice(2, p=p)))


def test_all_is_restored_also_after_an_exception_and_contexts_nest():
    before = {name: getattr(np.random, name) for name in np.random.__all__}
    outer, inner = Scripted([0.5, 0.25]), Scripted([0.75])
    with pytest.raises(KeyError), numpy_calls(outer):  # noqa: PT012 -- what happens before the exception is the point
        assert np.random.random() == 0.5
        with numpy_calls(inner):
            assert np.random.random() == 0.75
        assert np.random.rand() == 0.25
        raise KeyError("the code under test")
    assert {name: getattr(np.random, name) for name in np.random.__all__} == before


def test_chances_with_numbers_give_numbers():
    with numpy_calls(Scripted([0, 0.5, 1 - F(1, 10**40), 0.5, 0.7])):
        assert np.random.random(2).tolist() == [0, 0.5]
        assert np.random.random() == math.nextafter(1, 0)
        assert np.random.exponential() == math.log(2)
        assert np.random.choice(3, p=EIGHTHS) == 1
    with numpy_calls(recorded := Recorded(Random(0))):
        draws = np.random.random(1000)
    assert draws.dtype == float and len(recorded.tape) == 1000 and abs(draws.mean() - 0.5) < 0.05


# ---- torch ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason='torch belongs to an extra: pip install -e ".[peers]"')


def torch_law(program, *args):
    def run(chance):
        with torch_calls(chance):
            return program(*args)

    found = law_of(run)
    assert sum(found.values()) == 1
    return {outcome: weight for outcome, weight in found.items() if weight}


def exponential_race(torch, p):
    """As engines write it, in place."""
    noise = torch.empty_like(p)
    noise.exponential_()
    return p.clone().div_(noise).argmax(dim=-1).item()


def exponential_race_with_a_seed_a_row(torch, p):
    """As engines write it for requests with seeds of their own: a row is filled again."""
    noise = torch.empty(2, 3).exponential_(1)
    noise[1].exponential_(generator=torch.Generator())
    return tuple((p / noise).argmax(dim=-1).tolist())


TORCH_DRAWS = {
    "multinomial": lambda torch, p: torch.multinomial(p, num_samples=1).item(),
    "multinomial of rows": lambda torch, p: torch.multinomial(torch.stack([p, p.flip(0)]), 1).squeeze(1)[0].item(),
    "a method": lambda torch, p: p.multinomial(1, generator=torch.Generator()).item(),
    "Categorical": lambda torch, p: torch.distributions.Categorical(probs=p).sample().item(),
    "a race in place": exponential_race,
    "e / p": lambda torch, p: torch.argmin(torch.empty(1, 3).exponential_() / p, dim=-1).item(),
    "p / e, several rows": lambda torch, p: (p / torch.empty(2, 3).exponential_())[1].argmax(-1, keepdim=True)[0].item(),
    "-log u / p": lambda torch, p: (-torch.rand(3).log() / p).argmin().item(),
    "guards against 0": lambda torch, p: (-torch.rand(3).clamp(min=1e-20).log()/ p).argmin().item(),
    "cumulative > u": lambda torch, p: (p.cumsum(-1) > torch.rand(1)).int().argmax().item(),
    "cumulative <= u": lambda torch, p: int((p.cumsum(-1) <= torch.rand(())).sum()),
    "u times the total": lambda torch, p: int((2 * p.cumsum(-1) <= 2 * torch.rand_like(p)[0]).sum()),
    "searchsorted": lambda torch, p: torch.searchsorted(p.cumsum(-1), torch.rand(1), right=True).item(),
    "searchsorted of rows": lambda torch, p: torch.searchsorted(p.cumsum(-1)[None].repeat(2, 1), torch.rand(2, 1))[1, 0].item(),
    "item": lambda torch, p: next(i for u in [torch.rand(1).item()] for i, c in enumerate(p.cumsum(-1)) if u < c),
    "uniform_": lambda torch, p: int((p.cumsum(-1) + 1 < torch.empty(1).uniform_(1, 2)).sum()),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", TORCH_DRAWS)
def test_each_way_to_draw_with_torch_has_its_exact_law(torch, name, dtype):
    assert torch_law(TORCH_DRAWS[name], torch, torch.tensor(EIGHTHS, dtype=getattr(torch, dtype))) == LAW


def test_rows_race_independently_and_a_row_may_be_filled_again(torch):
    found = torch_law(exponential_race_with_a_seed_a_row, torch, torch.tensor(EIGHTHS))
    assert found == {(x, y): LAW[x] * LAW[y] for x in LAW for y in LAW}


def test_a_gumbel_race_with_torch(torch):
    def program(logits):
        return (logits - torch.empty_like(logits).exponential_().log()).argmax().item()

    logits = torch.tensor([*EIGHTHS, 0.0], dtype=torch.float64).log()
    assert distance(torch_law(program, logits), LAW) < 1e-15


TORCH_ACCEPTS = {
    "u < ratio": lambda torch, ratio: torch.rand_like(ratio) < ratio,
    "u <= ratio": lambda torch, ratio: torch.rand(2, dtype=torch.float64) <= ratio,
    "ratio > u": lambda torch, ratio: ratio > torch.rand(2),
    "1 - u": lambda torch, ratio: 1 - torch.rand((2,)) >= 1 - ratio,
    "ratio - u": lambda torch, ratio: ratio - torch.rand(2) > 0,
    "views": lambda torch, ratio: torch.rand(1, 4).view(2, 2)[0].unsqueeze(0).squeeze(0) < ratio,
    "bernoulli": lambda torch, ratio: torch.bernoulli(ratio) == 1,
    "bernoulli_": lambda torch, ratio: torch.empty(2).bernoulli_(ratio) > 0,
}


@pytest.mark.parametrize("name", TORCH_ACCEPTS)
def test_each_way_to_accept_with_torch_has_its_exact_law(torch, name):
    found = torch_law(lambda: tuple(TORCH_ACCEPTS[name](torch, torch.tensor([0.25, 0.5], dtype=torch.float64)).tolist()))
    probabilities = {(True, True): F(1, 8), (True, False): F(1, 8), (False, True): F(3, 8), (False, False): F(3, 8)}
    # 1 - u >= 1 - r accepts with r, and so does every other.
    assert found == probabilities


def test_a_view_shares_its_numbers_and_a_clone_has_its_own(torch):
    def program(take):
        u = torch.rand(2)
        part = take(u)
        part.uniform_()
        return (u[:1] < 0.5).item(), (part < 0.5).item()

    assert torch_law(program, lambda u: u[:1]) == {(True, True): F(1, 2), (False, False): F(1, 2)}
    assert torch_law(program, lambda u: u[:1].clone()) == {(x, y): F(1, 4) for x in (True, False) for y in (True, False)}


def test_not_a_number_compares_false_with_torch(torch):
    found = torch_law(lambda: tuple((torch.rand(2) <= torch.tensor([math.nan, math.inf])).tolist()))
    assert found == {(False, True): 1}


def torch_rule(torch, reuse):
    p, q = torch.tensor([P], dtype=torch.float64), torch.tensor([Q], dtype=torch.float64)
    x = torch.multinomial(q, 1)
    u = torch.rand(1)
    if u < (p / q).gather(-1, x)[0]:
        return x.item()
    excess = (p - q).clamp(min=0)
    if reuse:
        return int((excess.cumsum(-1) / excess.sum() <= u).sum())
    return torch.multinomial(excess, 1).item()


def test_a_reused_uniform_is_found_with_torch(torch):
    assert distance(torch_law(torch_rule, torch, False), dict(enumerate(exact([5, 3, 2], 10)))) < 1e-15
    assert distance(torch_law(torch_rule, torch, True), dict(enumerate(exact([9, 7, 4], 20)))) < 1e-15


TORCH_REFUSED = {
    "randn": lambda torch: torch.randn(2),
    "randint": lambda torch: torch.randint(3, (2,)),
    "dropout": lambda torch: torch.nn.functional.dropout(torch.ones(2)),
    "mean": lambda torch: torch.rand(3).mean(),
    "where": lambda torch: torch.where(torch.tensor([True]), torch.rand(1), torch.zeros(1)),
    "add with alpha": lambda torch: torch.rand(2).add(torch.ones(2), alpha=2),
    "numpy": lambda torch: np.asarray(torch.rand(2)),
    "truth": lambda torch: bool(torch.rand(1)),
    "float": lambda torch: float(torch.rand(1)),
    "a part of an ordinary tensor": lambda torch: torch.zeros(2, 3)[0].uniform_(),
    "into an ordinary tensor": lambda torch: torch.zeros(3).__setitem__(0, torch.rand(1)),
    "two races": lambda torch: [(torch.tensor(w) / e).argmax() for e in [torch.empty(2).exponential_()] for w in (P[:2], Q[:2])],
}


@pytest.mark.parametrize("name", TORCH_REFUSED)
def test_what_can_not_be_followed_with_torch_names_itself_and_the_remedy(torch, name):
    with pytest.raises(NotFollowedError, match="can't be followed exactly: "):
        torch_law(lambda: str(TORCH_REFUSED[name](torch)))


def test_multinomial_refuses_what_torch_refuses(torch):
    for weights in ([math.nan, 1.0], [math.inf, 1.0], [-0.5, 1.5]):
        with pytest.raises(RuntimeError, match="probability tensor contains"):
            torch.multinomial(torch.tensor(weights), 1)
        with pytest.raises(RuntimeError, match="probability tensor contains"):
            torch_law(lambda w=weights: torch.multinomial(torch.tensor(w), 1).item())


def test_torch_is_restored_also_after_an_exception_and_contexts_nest(torch):
    with pytest.raises(KeyError), torch_calls(Scripted([0.5, 0.25])):  # noqa: PT012
        assert torch.rand(1).item() == 0.5
        with torch_calls(Scripted([0.75])):
            assert torch.rand(1).item() == 0.75
        assert torch.empty(1).uniform_().item() == 0.25
        raise KeyError("the code under test")
    torch.manual_seed(0)
    first = torch.rand(3)
    torch.manual_seed(0)
    assert type(first) is torch.Tensor and first.equal(torch.rand(3))


def test_chances_with_numbers_give_torch_numbers_below_one(torch):
    with torch_calls(Scripted([1 - F(1, 10**40)] * 4)):
        drawn = [torch.rand(1, dtype=dtype) for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16)]
    assert all(type(u) is torch.Tensor and u.item() < 1 for u in drawn)
    with torch_calls(Scripted([0, 0])):  # the boundary that law_of has no weight for: an inclusive comparison accepts p = 0
        assert (torch.rand(1) <= torch.zeros(1)).item() and not (torch.rand(1) < torch.zeros(1)).item()
