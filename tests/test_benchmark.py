"""The benchmark's arithmetic: turns and ratios on a clock of ours, accounts and needs against numbers made by hand."""

import time

import numpy as np
import pytest

from specdec.accounting import expected_count
from specdec.benchmark import machine, paired, passes, speed
from specdec.chance import Random
from specdec.decoding import Autoregressive, Generation, Ledger, RoundRecord, Stop, generate
from specdec.models import abc_machine
from specdec.models.table import Table
from specdec.models.text import PRINTABLE, Vocabulary
from specdec.tuning import Costs
from specdec.verification import Round

# ---- paired turns --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def arm(clock, calls, name, seconds, tokens=4):
    def run(turn):
        calls.append((name, turn))
        clock[0] += seconds(len(calls))
        return tokens

    return run


def test_turns_alternate_and_two_of_them_warm_up(clock):
    calls = []
    arms = {name: arm(clock, calls, name, lambda _: 1.0) for name in ("one", "two", "three")}
    found = paired.run(arms, turns=3)
    forwards, backwards = ["one", "two", "three"], ["three", "two", "one"]
    assert [name for name, _ in calls] == backwards + forwards + backwards + forwards + backwards
    assert [turn for _, turn in calls][::3] == [0, 0, 0, 1, 2]  # the warm-up decodes the first text too
    assert {name: times.tolist() for name, times in found.seconds.items()} == {name: [0.25] * 3 for name in arms}


def test_what_warms_up_does_not_count(clock):
    calls = []
    arms = {
        "plain": arm(clock, calls, "plain", lambda n: 1000.0 if n <= 4 else 8.0),
        "quick": arm(clock, calls, "quick", lambda n: 1000.0 if n <= 4 else 2.0, tokens=2),
    }
    found = paired.run(arms, turns=4)
    assert (found.median("plain"), found.median("quick")) == (2.0, 1.0)
    assert found.speedup("quick", "plain") == {"median": 2.0, "low": 2.0, "high": 2.0, "turns": 4}


def test_a_speedup_is_the_median_of_ratios_and_not_a_ratio_of_medians():
    """A machine that is ten times slower in some turns slows both arms: the turn's ratio does not see it."""
    times = paired.Paired({"base": np.array([1.0, 10.0, 3.0]), "fast": np.array([0.5, 5.0, 1.0])})
    found = times.speedup("fast", "base")
    assert found == {"median": 2.0, "low": 2.0, "high": 2.5, "turns": 3}
    assert times.median("base") / times.median("fast") == 3.0
    assert times.speedup("base", "base")["median"] == 1.0


# ---- accounts ------------------------------------------------------------------------------------------------------


def record(gamma, accepted, committed=None, **seconds):
    origins = ("accepted",) * accepted + ("bonus" if accepted == gamma else "correction",)
    return RoundRecord(gamma, Round((0,) * (accepted + 1), origins), committed or accepted + 1, None, seconds)


def test_an_account_by_hand(monkeypatch):
    """Rounds at γ = 2 that accept 2, 1, 0 and 2, and one that the cap cut to γ = 0."""
    parts = {"drafting": 2.0, "verifying": 5.0, "choosing": 0.5, "state": 0.5}
    records = [record(2, accepted, **parts) for accepted in (2, 1, 0, 2)]
    last = record(0, 0, drafting=0.0, verifying=3.0, choosing=0.5, state=0.5)
    texts = [Generation((), (), Ledger(records[:2])), Generation((), (), Ledger([*records[2:], last]))]
    monkeypatch.setattr(speed, "LENGTH", 8)
    account = speed.account(texts, np.array([2.5, 2.5]), 2, Costs({1: 4.0, 3: 5.0}, draft_step=0.5))
    # Verified: 2, 2 (one rejected), 1 and 2. Accepted 5 of 7. First positions: 3 of 4; second ones: 2 of 3.
    assert account["alpha"] == 5 / 7
    assert account["acceptance_by_position"] == [3 / 4, 2 / 3]
    assert account["tokens_per_round"] == account["sum_of_positions"] == 9 / 4
    assert account["iid_prediction"] == pytest.approx(1 + 5 / 7 + 25 / 49) == float(expected_count(5 / 7, 2))
    assert account["wasted_rows"] == 1 - 9 / 12
    # Seconds of all rounds: 8 + 23 + 2.5 + 2.5 = 36, of 40 on the wall.
    shares = {"drafting": 8 / 36, "verifying": 23 / 36, "choosing": 2.5 / 36, "state": 2.5 / 36}
    assert account["seconds_share"] == pytest.approx(shares)
    assert account["bookkeeping"] == pytest.approx(5 / 36) and account["ledger_share"] == 36 / 40
    # A full round took 8 s; two draft steps and a pass over three rows take 6, and 9/4 tokens alone 9.
    assert account["ideal_share"] == 6 / 8


def test_a_position_that_was_never_verified_has_no_acceptance():
    texts = [Generation((), (), Ledger([record(2, 0, drafting=1.0, verifying=1.0, choosing=1.0, state=1.0)]))]
    account = speed.account(texts, np.array([1.0]), 2, Costs({1: 1.0, 3: 1.0}, 0.1))
    assert account["acceptance_by_position"] == [0.0, None] and account["alpha"] == 0 and account["iid_prediction"] == 1


def test_the_best_gamma_of_a_rule_is_the_one_of_the_highest_median():
    medians = [("strict", 3, 1.5), ("strict", 5, 2.5), ("strict", 7, 2.0), ("block", 7, 9.0)]
    rounds = [{"rule": rule, "gamma": gamma, "speedup": {"median": median}} for rule, gamma, median in medians]
    assert speed.best(rounds, "strict")["gamma"] == 5


# ---- the plain loop ------------------------------------------------------------------------------------------------


def test_the_plain_loop_draws_what_the_decoder_draws():
    """From the same uniforms: numpy's generator of a seed, one uniform a token."""
    target = Table(abc_machine.remembering()[0].rows.astype(float))
    for seed in range(5):
        made = generate(Autoregressive(target, stop=Stop(length=60)), [2, 1], Random(seed))
        assert speed.plain_loop(target, [2, 1], 60, np.random.default_rng(seed)) == list(made.tokens)


def test_prompts_are_lines_of_the_held_out_text_that_leave_room_for_a_text(monkeypatch):
    lines = [f"line {i} of the held-out text, longer than a prompt\n" for i in range(400)]
    monkeypatch.setattr(speed, "book_docstrings", dict)
    monkeypatch.setattr(speed, "split", lambda modules, held_out: ("not this", "".join(lines)))
    made = [Vocabulary(PRINTABLE).decode(prompt) for prompt in speed.prompts(4)]
    numbers = [int(text.split()[1]) for text in made]
    assert numbers[0] == 1 and np.diff(numbers).min() > 90 and numbers[-1] < 400 - 4096 / 52 + 2
    assert made == [lines[number][: speed.PROMPT] for number in numbers]
    assert 1 + speed.PROMPT + speed.LENGTH + 31 <= 256


def test_a_whole_comparison_in_small(monkeypatch):
    """Every figure is there, and shares and counts are within their ranges; a time is only ever positive."""
    monkeypatch.setattr(speed, "LENGTH", 8)
    target, draft = passes.random_transformer(1, 8, 2), passes.random_transformer(1, 4, 1, seed=1)
    monkeypatch.setattr(speed, "prompts", lambda: [[1, 2, 3], [4, 5, 6]])
    monkeypatch.setattr(speed, "measure", lambda decoder, prompt, rows, repeats: Costs(dict.fromkeys(rows, 1e-3), 1e-4))
    found = speed.compare(target, draft, (1, 2), turns=2)
    assert found["baseline"] in ("plain loop", "autoregressive")
    names = {"plain loop", "autoregressive", "strict 1", "strict 2", "block 1", "block 2"}
    assert found["microseconds_per_token"].keys() == names and min(found["microseconds_per_token"].values()) > 0
    assert [(row["rule"], row["gamma"]) for row in found["rounds"]] == [("strict", 1), ("strict", 2), ("block", 1), ("block", 2)]
    for row in found["rounds"]:
        assert 1 <= row["tokens_per_round"] <= row["gamma"] + 1 and 0 <= row["alpha"] <= 1
        assert 0 < row["ledger_share"] < 1 and sum(row["seconds_share"].values()) == pytest.approx(1)
        assert row["speedup"]["turns"] == 2 and row["speedup"]["low"] > 0


# ---- passes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return passes.random_transformer(1, 8, 2)


def test_a_random_transformer_has_the_shape_asked_for():
    model = passes.random_transformer(3, 12, 4, window=40, seed=3)
    assert (len(model.layers), model.width, model.heads, model.window, model.vocab_size) == (3, 12, 4, 40, 96)
    rows = model.append(model.start(), [model.start_token, 1, 2, 3])
    assert rows.shape == (4, 96) and np.isfinite(rows).all() and np.ptp(rows) > 0
    again, other = (passes.random_transformer(3, 12, 4, 40, seed) for seed in (3, 4))
    np.testing.assert_array_equal(again.append(again.start(), [0, 1]), model.append(model.start(), [0, 1]))
    assert (other.append(other.start(), [0, 1]) != model.append(model.start(), [0, 1])).any()


def test_what_a_pass_needs_by_hand(model):
    """Width 8, 96 characters. Queries, keys, values 9 · 24 = 216, attention's output 9 · 8 = 72, up 9 · 32 = 288,
    down 33 · 8 = 264, unembedding 8 · 96 = 768: 1608 numbers, 6432 bytes.

    Three rows behind five: 2 · 3 · 1608 operations in the matrices. Attention sees 6 + 7 + 8 = 21 positions, each with two
    products of 8 channels, two operations a channel. Keys and values of 8 positions: 8 · 2 · 8 numbers.
    """
    assert passes.parameters(model) == 1608
    assert passes.needs(model, 3, held=5) == {
        "operations": 2 * 3 * 1608 + 21 * 2 * 2 * 8,
        "weight_bytes": 6432,
        "cache_bytes": 4 * 8 * 2 * 8,
    }


def test_needs_of_layers_add_up():
    one, two = (passes.random_transformer(layers, 8, 2) for layers in (1, 2))
    unembedding = 8 * 96
    assert passes.parameters(two) - unembedding == 2 * (passes.parameters(one) - unembedding)
    assert passes.needs(two, 4, 9)["cache_bytes"] == 2 * passes.needs(one, 4, 9)["cache_bytes"]
    for name in ("operations", "cache_bytes"):
        assert passes.needs(two, 4, 9)[name] > passes.needs(two, 3, 9)[name]
    assert passes.needs(two, 4, 9)["weight_bytes"] == passes.needs(two, 1, 50)["weight_bytes"]


def test_the_table_of_passes(model):
    found = passes.table({"tiny": model}, (1, 3), repeats=2)["tiny"]
    assert (found["layers"], found["width"], found["parameters"]) == (1, 8, 1608)
    assert [row["n"] for row in found["rows"]] == [1, 3] and found["rows"][0]["v"] == 1
    for row in found["rows"]:
        assert row["us"] > 0 and row["calls_us"] > 0
        assert {name: row[name] for name in passes.needs(model, 1)} == passes.needs(model, row["n"])


def test_timed_passes_leave_the_cache_where_they_found_it(monkeypatch, model, clock):
    """Each pass of n rows takes n seconds on our clock, which only ``append`` moves; each begins behind HELD tokens."""
    lengths = set()

    def append(state, tokens):
        lengths.add(len(state))
        clock[0] += len(tokens)
        state.tokens += tokens

    monkeypatch.setattr(model, "append", append)
    assert passes.time_passes(model, (1, 2, 5), repeats=3) == {1: 1.0, 2: 2.0, 5: 5.0}
    assert lengths == {0, passes.HELD}


def test_the_machine_is_described():
    facts = machine.describe()
    assert facts["cores"] >= 1 and facts["processor"] and "numpy" in facts["versions"]
    assert all(blas["threads"] >= 1 for blas in facts["blas"])
