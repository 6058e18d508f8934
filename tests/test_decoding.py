"""The loops themselves: caches, passes, the tape of decisions, the ledger, stop rules, and bad input.

Most texts here are written by hand: ``Scripted`` uniforms choose every proposal and every verdict.
"""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from specdec.chance import Random, Recorded, Scripted, law_of
from specdec.conformance import loop_mutants
from specdec.decoding import (
    Autoregressive,
    Ledger,
    RoundRecord,
    Speculative,
    Stop,
    copy_state,
    generate,
    law_of_count,
    law_of_text,
    rounds,
    state_key,
)
from specdec.law import RepetitionPenalty, Transforms, exact, softmax
from specdec.models import abc_machine
from specdec.models.automaton import Automaton
from specdec.models.ngram import NGram
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table, text_law
from specdec.models.text import Vocabulary
from specdec.verification import Round, sample_match, strict

A, B, C = 0, 1, 2
F = Fraction
YES, NO, LATE = 0, F(99, 100), F(99, 100)
"""Uniforms: accept anything possible; reject whatever may be rejected; draw the last possible token."""


def letters(tokens):
    return "".join("ABC"[token] for token in tokens)


# ---- models to look inside ------------------------------------------------------------------------------------------


class Spy:
    """Passes everything on and notes each append and rewind."""

    def __init__(self, model):
        self._model, self.calls = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def append(self, state, tokens):
        self.calls.append(("append", tuple(tokens)))
        return self._model.append(state, tokens)

    def rewind(self, state, length):
        self.calls.append(("rewind", len(state), length))
        self._model.rewind(state, length)

    def take(self):
        calls, self.calls = self.calls, []
        return calls


def order_two(seed, size=3):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 6, (size + 1, size + 1, size))
    return Table(exact(weights.tolist()) / exact(weights.sum(axis=-1, keepdims=True).tolist()))


def automaton(seed, reach, size=3, states=7):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 6, (states, size))
    laws = exact(weights.tolist()) / exact(weights.sum(axis=-1, keepdims=True).tolist())
    return Automaton(rng.integers(0, states, (states, size + 1)), laws, reach)


PAIRS = {
    "order 1": abc_machine.remembering(),
    "order 2": (order_two(1), order_two(2)),
    "cumulative": (automaton(1, reach=5), automaton(2, reach=5)),
    "order 2, cumulative": (order_two(1), automaton(2, reach=5)),
    "cumulative, order 2": (automaton(1, reach=5), order_two(2)),
    "prompt lookup": (order_two(1), PromptLookup(3, exact=True)),
}


def check_caches(decoder, state):
    """Each cache holds a proper prefix of the text, and goes on exactly as one computed from nothing."""
    for name, model in decoder.models.items():
        model = getattr(model, "_model", model)  # not through a spy
        cache = state.caches[name]
        assert len(cache) <= len(state.tokens) - 1
        assert state.pending(name) == state.tokens[len(cache) :] != []
        if isinstance(cache, list):
            assert cache == state.tokens[: len(cache)]
        more = [*state.pending(name), A, B, C, A]
        cached = model.append(model.copy(cache), more)
        recomputed = model.append(model.start(), [*state.tokens[: len(cache)], *more])[-len(more) :]
        assert (cached == recomputed).all()


# ---- caches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [strict.verify, sample_match.verify])
@pytest.mark.parametrize("gamma", range(5))
@pytest.mark.parametrize("pair", PAIRS)
def test_cached_rows_equal_recomputed_rows_after_every_round(pair, gamma, verify):
    used = []

    def keep_rows(target, draft, proposals, chance):
        used.append((target, draft, list(proposals)))
        return verify(target, draft, proposals, chance)

    target, draft = PAIRS[pair]
    stop = Stop(length=11, tokens=frozenset({B}) if gamma % 2 else frozenset(), strings=("AC",), decode=letters)
    decoder = Speculative(target, draft, gamma, stop=stop, verify=keep_rows)
    seen = set()
    for seed in range(16):
        state, chance = decoder.start([C, A, C, A][: seed % 5]), Random(seed)
        while state.stop is None:
            before = list(state.tokens)
            record, state = decoder.step(state, chance)
            seen.add((record.accepted, record.committed < record.emitted))
            check_caches(decoder, state)
            p, q, proposals = used.pop()
            for model, rows in [(target, p), (draft, q)]:
                fresh = model.append(model.start(), [*before, *proposals])[len(before) - 1 :]
                assert (rows == fresh[: len(rows)] / fresh[: len(rows)].sum(axis=-1, keepdims=True)).all()
    if pair != "prompt lookup":
        common = range(gamma + 1) if verify is strict.verify else range(min(gamma, 2))  # the other rule accepts less
        assert {accepted for accepted, _ in seen} >= set(common), "some accepted length was never reached"
        assert gamma == 0 or any(inside for _, inside in seen), "no text stopped inside a block"


def script(accepted, gamma):
    """On the remembering machine: propose C A A A …, whose ratios are below 1, and accept the first ``accepted``."""
    propose = [LATE, 0, 0, 0, 0][:gamma]
    verdicts = [YES] * accepted + [NO] * (accepted < gamma)
    return [*propose, *verdicts, LATE]


@pytest.mark.parametrize(("gamma", "accepted"), [(g, a) for g in range(5) for a in range(g + 1)])
def test_passes_and_rewinds_of_a_first_and_a_second_round(gamma, accepted):
    target, draft = map(Spy, abc_machine.remembering())
    decoder = Speculative(target, draft, gamma)
    proposals = [C, A, A, A][:gamma]
    record, state = decoder.step(decoder.start(), Scripted(script(accepted, gamma)))
    assert record.accepted == accepted and list(record.round.tokens[:-1]) == proposals[:accepted]
    last = record.round.tokens[-1]
    start = target.start_token
    # One target pass over the pending token and all proposals; γ draft passes, and none after the last proposal.
    rewound = [("rewind", 1 + gamma, 1 + accepted)] if accepted < gamma else []
    assert target.take() == [("append", (start, *proposals)), *rewound]
    fed = [start, *proposals][:gamma]
    rewound = [("rewind", gamma, 1 + accepted)] if accepted < gamma - 1 else []
    assert draft.take() == [*[("append", (token,)) for token in fed], *rewound]
    assert state.tokens == [start, *proposals[:accepted], last]
    assert state.caches["target"] == state.tokens[:-1] and state.pending("target") == [last]
    # After full acceptance the draft lacks its own last proposal too.
    full = accepted == gamma
    assert state.pending("draft") == ([[start, *proposals][-1], last] if full else [last])
    check_caches(decoder, state)
    pending = tuple(state.pending("draft"))
    record, state = decoder.step(state, Scripted([0] * (2 * gamma + 1)))
    (kind, fed), *rewound = target.take()
    assert kind == "append" and fed[0] == last and len(fed) == 1 + gamma and len(rewound) <= 1
    appends = [tokens for kind, tokens, *_ in draft.take() if kind == "append"]
    assert len(appends) == gamma and (gamma == 0 or appends[0] == pending)
    check_caches(decoder, state)


def test_autoregressive_passes():
    target = Spy(abc_machine.remembering()[0])
    decoder = Autoregressive(target, stop=Stop(length=3))
    state = decoder.start([B, C])
    for _ in range(3):
        record, state = decoder.step(state, Scripted([LATE]))
        assert (record.gamma, record.accepted, record.emitted, record.committed) == (0, 0, 1, 1)
        check_caches(decoder, state)
    assert [tokens for kind, tokens, *_ in target.take() if kind == "append"] == [(3, B, C), (C,), (C,)]


def test_a_stop_inside_a_block_rewinds_to_what_is_kept():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 3, stop=Stop(tokens=frozenset({C})))
    record, state = decoder.step(decoder.start(), Scripted(script(3, 3)))
    assert (record.round.tokens, record.committed, record.stop) == ((C, A, A, C), 1, "stop token")
    assert state.tokens == [3, C] and state.caches == {"target": [3], "draft": [3]}


def test_a_draft_fed_nothing_for_some_rounds_catches_up():
    target, draft = abc_machine.remembering()
    spy = Spy(draft)
    decoder = Speculative(target, spy, lambda state: 0 if len(state.generated) < 3 else 2)
    state = decoder.start()
    for _ in range(3):
        _, state = decoder.step(state, Scripted([LATE]))
    assert spy.take() == [] and state.pending("draft") == state.tokens
    _, state = decoder.step(state, Scripted([0] * 5))
    assert spy.take()[0] == ("append", (3, C, C, C))
    check_caches(decoder, state)


def test_a_declining_draft_makes_a_shorter_round():
    """Prompt lookup finds nothing after an unknown token: the round falls back to one target draw, without an error."""
    target, lookup = order_two(1), PromptLookup(3, exact=True)
    decoder = Speculative(target, lookup, 3)
    chance = Recorded(Scripted([LATE]))
    record, state = decoder.step(decoder.start([A, B, C]), chance)
    assert record.gamma == 0 and [decision.purpose for decision in chance.tape] == ["bonus"]
    check_caches(decoder, state)


def test_reach_of_gamma_plus_one_is_enough_and_is_asked_for():
    for gamma in range(1, 5):
        pair = automaton(3, reach=gamma + 1), automaton(4, reach=gamma + 1)
        decoder = Speculative(*pair, gamma, stop=Stop(length=12))
        for seed in range(15):
            generate(decoder, (), Random(seed))
        with pytest.raises(ValueError, match="target can only be rewound by"):
            Speculative(automaton(3, reach=gamma), pair[1], gamma)
        with pytest.raises(ValueError, match="draft can only be rewound by"):
            Speculative(pair[0], automaton(4, reach=gamma), gamma)
    decoder = Speculative(*pair, lambda state: 5)
    with pytest.raises(ValueError, match="can only be rewound"):
        decoder.step(decoder.start(), Random(0))


# ---- the order of decisions -----------------------------------------------------------------------------------------


def tape(decoder, uniforms, number):
    chance, state, out = Recorded(Scripted(uniforms)), decoder.start(), []
    for _ in range(number):
        record, state = decoder.step(state, chance)
        out.append((record, [decision.purpose for decision in chance.tape]))
        chance.tape.clear()
    return out


def test_the_tape_of_three_rounds_by_hand():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2)
    uniforms = [LATE, 0, YES, YES, LATE, 0, 0, NO, LATE, 0, 0, YES, NO, LATE]
    (one, first), (two, second), (three, third) = tape(decoder, uniforms, 3)
    assert first == ["propose", "propose", "accept", "accept", "bonus"]
    assert one.round == Round((C, A, C), ("accepted", "accepted", "bonus"))
    # After C: A proposed, p/q = 1/3, rejected; the residual of (2,2,6) and (6,2,2) is all C.
    assert second == ["propose", "propose", "accept", "correct"]
    assert two.round == Round((C,), ("correction",))
    assert third == ["propose", "propose", "accept", "accept", "correct"]
    assert three.round == Round((A, C), ("accepted", "correction"))


def test_the_tape_of_sample_and_match_and_of_the_baseline():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, verify=sample_match.verify)
    # C and A proposed; the target's own draws are C, which matches, and then C.
    [(record, purposes)] = tape(decoder, [LATE, 0, LATE, LATE], 1)
    assert purposes == ["propose", "propose", "sample", "sample"]
    assert record.round == Round((C, C), ("accepted", "correction"))
    [(record, purposes), _] = tape(Autoregressive(target), [LATE, 0], 2)
    assert purposes == ["sample"] and record.round.tokens == (C,)
    [(_, purposes)] = tape(Speculative(target, draft, 0), [0], 1)
    assert purposes == ["bonus"]


def test_what_is_asked_is_the_processed_law_at_the_right_prefix():
    """A repetition penalty sees the prompt and the proposals before its row, and never the start token."""
    target, draft = abc_machine.remembering()
    seen = []

    def note(scores, prefix):
        seen.append(tuple(prefix))
        return scores

    decoder = Speculative(target, draft, 2, Transforms((note, RepetitionPenalty(2))))
    chance = Recorded(Scripted([LATE, 0, YES, YES, LATE]))
    decoder.step(decoder.start([B]), chance)
    assert seen == [(B,), (B, C), (B,), (B, C), (B, C, A)]
    # q after B is (1,6,3)/10 and B is penalised: weights .1, .36, .3; then C too: (6,2,2)/10 with .04, .04.
    first, second = (decision.asked for decision in chance.tape[:2])
    assert first == tuple(exact([10, 36, 30], 76)) and second == tuple(exact([60, 4, 4], 68))
    seen.clear()
    Autoregressive(target, Transforms((note,))).step(decoder.start([B]), Scripted([0]))
    assert seen == [(B,)]


# ---- the ledger -----------------------------------------------------------------------------------------------------


def record(gamma, accepted, committed=None, stop=None, **seconds):
    full = accepted == gamma
    round_ = Round((0,) * (accepted + 1), ("accepted",) * accepted + ("bonus" if full else "correction",))
    return RoundRecord(gamma, round_, accepted + 1 if committed is None else committed, stop, seconds)


def test_a_ledger_by_hand():
    ledger = Ledger([record(3, 3), record(3, 0), record(2, 1), record(0, 0), record(3, 3, committed=2, stop="stop token")])
    totals = {name: ledger.total(name) for name in ("gamma", "accepted", "emitted", "committed")}
    assert totals == {"gamma": 11, "accepted": 7, "emitted": 12, "committed": 10}
    # First place: four rounds verified it, three accepted. Second: three verified (all accepted before), two accepted.
    assert ledger.acceptance_by_position() == [(3, 4), (2, 3), (2, 2)]
    assert ledger.acceptance() == (7, 9)
    assert ledger.count_law() == {1: 2 / 5, 2: 1 / 5, 4: 2 / 5}
    assert ledger.count_law("committed") == {1: 2 / 5, 2: 2 / 5, 4: 1 / 5}
    assert ledger.count_law("accepted") == {0: 2 / 5, 1: 1 / 5, 3: 2 / 5}


def test_an_empty_ledger():
    ledger = Ledger()
    assert (ledger.total("emitted"), ledger.acceptance(), ledger.acceptance_by_position()) == (0, (0, 0), [])
    assert ledger.count_law() == {} == ledger.seconds()


def test_seconds_are_summed_by_kind_and_do_not_make_records_differ():
    ledger = Ledger([record(1, 1, drafting=1.0, verifying=2.0), record(1, 0, drafting=0.5, synchronising=4.0)])
    assert ledger.seconds() == {"drafting": 1.5, "verifying": 2.0, "synchronising": 4.0}
    assert record(1, 1, drafting=1.0) == record(1, 1, drafting=9.0)


def test_a_generations_ledger_and_origins():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(tokens=frozenset({B})))
    # C A accepted, bonus C; A rejected, corrected to C; C corrected... then B proposed and accepted with one token behind it.
    uniforms = [LATE, 0, YES, YES, LATE, 0, 0, NO, LATE, F(7, 10), F(7, 10), YES, YES, LATE]
    generation = generate(decoder, (), Scripted(uniforms))
    assert generation.tokens == (C, A, C, C, B)
    assert generation.origins == ("accepted", "accepted", "bonus", "correction", "accepted")
    records = generation.ledger.records
    assert [(line.gamma, line.accepted, line.emitted, line.committed, line.stop) for line in records] == [
        (2, 2, 3, 3, None),
        (2, 0, 1, 1, None),
        (2, 2, 3, 1, "stop token"),
    ]
    assert records[-1].committed_tokens == (B,) and len(records[-1].round.tokens) == 3
    assert generation.ledger.total("committed") == len(generation.tokens) < generation.ledger.total("emitted")


def test_seconds_of_both_loops():
    target, draft = abc_machine.remembering()
    speculative = generate(Speculative(target, draft, 2, stop=Stop(length=5)), (), Random(1)).ledger
    baseline = generate(Autoregressive(target, stop=Stop(length=5)), (), Random(1)).ledger
    for ledger, kinds in [
        (speculative, ["drafting", "verifying", "choosing", "state"]),
        (baseline, ["verifying", "choosing", "state"]),
    ]:
        for line in ledger.records:
            assert list(line.seconds) == kinds and all(value >= 0 for value in line.seconds.values())
        assert list(ledger.seconds()) == kinds and sum(ledger.seconds().values()) > 0


@pytest.mark.parametrize("seed", range(20))
def test_counts_agree_with_the_text_whatever_happens(seed):
    target, draft = abc_machine.remembering()
    stop = Stop(length=9, tokens=frozenset({B}) if seed % 2 else frozenset(), strings=("CCA",), decode=letters)
    generation = generate(Speculative(target, draft, seed % 5, stop=stop), [C], Random(seed))
    records = generation.ledger.records
    assert sum(line.committed for line in records) == len(generation.tokens) == len(generation.origins) <= 9
    assert [line.stop is None for line in records] == [True] * (len(records) - 1) + [False]
    assert all(line.committed == line.emitted == line.accepted + 1 for line in records[:-1])


# ---- stop rules -----------------------------------------------------------------------------------------------------


def test_the_earliest_position_wins_over_a_later_cap():
    """sglang's report: [10, 11, STOP, 20, 21, 22] under a cap of 5 must end at STOP."""
    stop = Stop(length=5, tokens=frozenset({2}))
    assert stop.first([], [10, 11, 2, 20, 21, 22]) == (3, "stop token")
    machine = Table(np.full(30, 1 / 30))
    block = Round((10, 11, 2, 20, 21, 22), ("accepted",) * 5 + ("bonus",))
    decoder = Speculative(machine, machine, 5, stop=stop, verify=lambda *_: block)
    generation = generate(decoder, (), Random(0))
    assert generation.tokens == (10, 11, 2)
    assert generation.ledger.records[0].stop == "stop token"


def test_a_cap_before_a_stop_token_wins():
    assert Stop(length=2, tokens=frozenset({2})).first([], [10, 11, 2]) == (2, "length")
    assert Stop(length=4, tokens=frozenset({2})).first([5, 5, 5], [10, 2]) == (1, "length")


def test_rules_on_one_position_are_named_in_order():
    both = Stop(length=2, tokens=frozenset({B}), strings=("AB",), decode=letters)
    assert both.first([A], [B, C]) == (1, "stop token")
    assert replace(both, tokens=frozenset()).first([A], [B, C]) == (1, "stop string")
    assert Stop(length=2).first([A], [B, C]) == (1, "length")
    assert Stop().first([A], [B, C]) == (2, None)


def test_of_two_strings_the_one_completed_first_wins():
    stop = Stop(strings=("BCA", "C"), decode=letters)
    assert stop.first([], [A, B, C, A]) == (3, "stop string")
    assert Stop(strings=("CAC", "AB"), decode=letters).first([C], [A, B, A, C]) == (2, "stop string")


def test_a_string_may_straddle_rounds_and_tokens():
    assert Stop(strings=("ABC",), decode=letters).first([A, B], [C, C]) == (1, "stop string")
    pieces = ("ab", "ba", "c", "abcdef")

    def join(tokens):
        return "".join(pieces[token] for token in tokens)

    assert Stop(strings=("abba",), decode=join).first([0], [1, 2]) == (1, "stop string")
    assert Stop(strings=("bb",), decode=join).first([0], [1, 2]) == (1, "stop string")
    assert Stop(strings=("bcd",), decode=join).first([2], [3, 2]) == (1, "stop string")  # inside one token
    assert Stop(strings=("a" * 3,), decode=join).first([0, 1], [1, 0]) == (2, None)
    long = "abba" * 8
    assert Stop(strings=(long,), decode=join).first([0, 1] * 7 + [0], [1, 0]) == (1, "stop string")


def test_a_string_that_began_in_the_prompt_does_not_count():
    target = Table(exact([0, 0, 1]))
    decoder = Autoregressive(target, stop=Stop(length=4, strings=("BC",), decode=letters))
    assert generate(decoder, [A, B], Random(0)).tokens == (C, C, C, C)
    cap = Autoregressive(target, stop=Stop(length=2, tokens=frozenset({A})))
    assert generate(cap, [A] * 5, Random(0)).tokens == (C, C), "neither the cap nor a stop token looks at the prompt"


def test_a_string_straddling_rounds_in_a_decoded_text():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 1, stop=Stop(strings=("CCC",), decode=letters))
    # Round one: C accepted, bonus C. Round two: C proposed and accepted: the string ends before the bonus.
    generation = generate(decoder, (), Scripted([LATE, YES, LATE, LATE, YES, LATE]))
    assert generation.tokens == (C, C, C)
    assert [line.committed for line in generation.ledger.records] == [2, 1]


@pytest.mark.parametrize("cap", range(1, 8))
@pytest.mark.parametrize("gamma", [0, 1, 3, 9])
def test_a_cap_leaves_room_for_the_rounds_last_token(cap, gamma):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, gamma, stop=Stop(length=cap))
    for seed in range(5):
        generation = generate(decoder, [A, B], Random(seed))
        assert len(generation.tokens) == cap
        left = cap
        for line in generation.ledger.records:
            assert line.gamma == min(gamma, left - 1) and line.committed == line.emitted
            left -= line.committed
        assert generation.ledger.records[-1].stop == "length"


@pytest.mark.parametrize("length", [0, -3])
def test_a_cap_below_one_raises(length):
    with pytest.raises(ValueError, match="at least 1"):
        Stop(length=length)


def test_bad_stop_strings_raise():
    with pytest.raises(ValueError, match="decode"):
        Stop(strings=("AB",))
    with pytest.raises(ValueError, match="empty stop string"):
        Stop(strings=("AB", ""), decode=letters)
    with pytest.raises(ValueError, match="tuple"):
        Stop(strings="AB", decode=letters)


def test_endless_texts_are_refused():
    target, draft = abc_machine.remembering()
    for stop in [Stop(), Stop(decode=letters)]:
        for decoder in [Speculative(target, draft, 1, stop=stop), Autoregressive(target, stop=stop)]:
            with pytest.raises(ValueError, match="stop rule"):
                generate(decoder, (), Random(0))
            with pytest.raises(ValueError, match="stop rule"):
                law_of_text(decoder)


def test_a_stopped_state_raises():
    target, draft = abc_machine.remembering()
    for decoder in [
        Speculative(target, draft, 1, stop=Stop(length=1)),
        Autoregressive(target, stop=Stop(length=1)),
    ]:
        _, state = decoder.step(decoder.start(), Random(0))
        assert state.stop == "length"
        with pytest.raises(ValueError, match="has stopped"):
            decoder.step(state, Random(0))


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [-1, 1.0, 0.5, "2", None, F(2)])
def test_bad_gamma_raises(gamma):
    target, draft = abc_machine.remembering()
    with pytest.raises(ValueError, match="gamma is"):
        Speculative(target, draft, gamma)
    decoder = Speculative(target, draft, lambda state: gamma)
    with pytest.raises(ValueError, match="gamma is"):
        decoder.step(decoder.start(), Random(0))


def test_models_that_do_not_belong_together_raise():
    target, _ = abc_machine.remembering()
    with pytest.raises(ValueError, match="vocab_size: 3 and 2"):
        Speculative(target, Table(exact([1, 1], 2)), 1)
    with pytest.raises(ValueError, match="exact: True and False"):
        Speculative(target, Table(np.array([0.5, 0.25, 0.25])), 1)
    other = Spy(abc_machine.remembering()[1])
    other.start_token = 0
    with pytest.raises(ValueError, match="start_token: 3 and 0"):
        Speculative(target, other, 1)


@pytest.mark.parametrize("prompt", [[4], [A, -1], [A, 1.0], ["A"], "A", [None]])
def test_unknown_prompt_tokens_raise(prompt):
    target, draft = abc_machine.remembering()
    for decoder in [
        Speculative(target, draft, 1, stop=Stop(length=2)),
        Autoregressive(target, stop=Stop(length=2)),
    ]:
        with pytest.raises(ValueError, match="token"):
            generate(decoder, prompt, Random(0))


def test_the_start_token_is_not_part_of_a_prompt():
    target, draft = abc_machine.remembering()
    with pytest.raises(ValueError, match="start token 3"):
        Speculative(target, draft, 1).start([3, A])


def test_rows_that_are_not_laws_raise():
    class Broken(Spy):
        def append(self, state, tokens):
            return self._model.append(state, tokens) * np.nan

    machine = Table(np.array([0.5, 0.25, 0.25]))
    for target, draft in [(Broken(machine), machine), (machine, Broken(machine))]:
        with pytest.raises(ValueError, match=r"NaN|nan"):
            generate(Speculative(target, draft, 1, stop=Stop(length=3)), (), Random(0))
    with pytest.raises(ValueError, match=r"NaN|nan"):
        generate(Autoregressive(Broken(machine), stop=Stop(length=3)), (), Random(0))


def test_a_target_without_weight_raises():
    target, draft = abc_machine.remembering()
    nothing = Transforms((lambda scores, prefix: scores * 0,))
    for decoder in [Speculative(target, draft, 1, nothing), Autoregressive(target, nothing)]:
        with pytest.raises(ValueError, match="no token possible"):
            decoder.step(decoder.start(), Random(0))


# ---- nothing is changed behind one's back ---------------------------------------------------------------------------


def test_inputs_are_left_alone():
    target, draft = abc_machine.remembering()
    before = target.rows.copy(), draft.rows.copy()

    def hostile(p, q, proposals, chance):
        round_ = strict.verify(p, q, proposals, chance)
        p[:], q[:] = 0, 0
        return round_

    prompt = [A, C]
    decoder = Speculative(target, draft, 2, stop=Stop(length=3), verify=hostile)
    assert law_of_text(decoder, prompt) == text_law(target, 3, prefix=(A, C))
    assert prompt == [A, C]
    assert (target.rows == before[0]).all() and (draft.rows == before[1]).all()


@pytest.mark.parametrize("pair", PAIRS)
def test_a_copy_is_independent(pair):
    decoder = Speculative(*PAIRS[pair], 3, stop=Stop(length=12))
    state = decoder.start([A, B, A])
    decoder.step(state, Random(3))
    key, history = state_key(decoder, state), state.history
    copy = copy_state(decoder, state)
    assert state_key(decoder, copy) == key and copy.history == history
    while copy.stop is None:
        decoder.step(copy, Random(4))
    assert state_key(decoder, state) == key and state.history == history
    assert state_key(decoder, copy) != key
    check_caches(decoder, state)


def test_keys_tell_apart_what_can_matter():
    target, draft = abc_machine.remembering()
    fixed, adaptive = (
        Speculative(target, draft, 2),
        Speculative(target, draft, lambda state: len(state.history)),
    )
    state = fixed.start([A])
    fixed.step(state, Scripted([0] * 5))
    with_history = replace(state, history=((2, 0),))
    assert state.history == ((2, 2),)
    assert state_key(fixed, state) == state_key(fixed, with_history), "a fixed gamma cannot look at it"
    assert state_key(adaptive, state) != state_key(adaptive, with_history)
    key = state_key(fixed, state)
    assert state_key(fixed, replace(state, prompt=1)) != key
    assert state_key(fixed, replace(state, stop="length")) != key
    assert state_key(fixed, replace(state, tokens=[*state.tokens, A])) != key
    for name in ("target", "draft"):
        shorter = replace(state, caches=state.caches | {name: state.caches[name][:-1]})
        assert state_key(fixed, shorter) != key
        other = replace(state, caches=state.caches | {name: [*state.caches[name][:-1], C]})
        assert state_key(fixed, other) != key


def test_history_notes_each_round():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(length=30))
    state, chance, lines = decoder.start(), Random(5), []
    while state.stop is None:
        line, state = decoder.step(state, chance)
        lines.append((line.gamma, line.accepted))
    assert state.history == tuple(lines)


# ---- kinds, numpy numbers, seeds, streams ---------------------------------------------------------------------------


def as_floats(table):
    return Table(table.rows.astype(float))


@pytest.mark.parametrize("verify", [strict.verify, sample_match.verify])
@pytest.mark.parametrize("pair", ["order 1", "order 2"])
def test_floats_agree_with_fractions(pair, verify):
    exactly = law_of_text(Speculative(*PAIRS[pair], 2, stop=Stop(length=3), verify=verify))
    floats = law_of_text(Speculative(*map(as_floats, PAIRS[pair]), 2, stop=Stop(length=3), verify=verify))
    assert floats.keys() == exactly.keys()
    assert all(isinstance(weight, float) and abs(weight - exactly[text]) < 1e-12 for text, weight in floats.items())


def test_a_float_machine_with_zeros():
    target, draft = (
        np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]),
        np.array([[0.0, 1.0], [0.5, 0.5], [0.25, 0.75]]),
    )
    law = law_of_text(Speculative(Table(target), Table(draft), 2, stop=Stop(length=3)))
    assert {text: round(weight, 12) for text, weight in law.items() if weight > 1e-12} == {
        (0, 0, 0): 0.25, (0, 0, 1): 0.25, (0, 1, 1): 0.5,
    }  # fmt: skip


def test_numpy_numbers_are_welcome():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, np.int64(2), stop=Stop(length=np.int64(5), tokens=frozenset({np.int64(B)})))
    generation = generate(decoder, np.array([A, C]), Random(0))
    plain = generate(Speculative(target, draft, 2, stop=Stop(length=5, tokens=frozenset({B}))), [A, C], Random(0))
    assert generation == plain

    def numpy_tokens(p, q, proposals, chance):
        round_ = strict.verify(p, q, np.array(proposals, dtype=int), chance)
        return Round(tuple(np.int64(token) for token in round_.tokens), round_.origins)

    adaptive = Speculative(target, draft, lambda state: np.int64(1), stop=Stop(length=3), verify=numpy_tokens)
    assert law_of_text(adaptive) == text_law(target, 3)


def test_one_seed_one_text():
    for pair in PAIRS.values():
        decoder = Speculative(*pair, 3, stop=Stop(length=25))
        one, again, other = (generate(decoder, [A, B], Random(seed)) for seed in (7, 7, 8))
        assert one == again
        assert one.tokens != other.tokens


def test_same_law_is_not_the_same_text():
    target, draft = abc_machine.remembering()
    loops = [Autoregressive(target, stop=Stop(length=4))]
    loops += [Speculative(target, draft, gamma, stop=Stop(length=4)) for gamma in (1, 2)]
    texts = [generate(loop, (), Random(0)).tokens for loop in loops]
    laws = [law_of_text(loop) for loop in loops]
    assert len(set(texts)) > 1 and laws[0] == laws[1] == laws[2]


def test_without_proposals_the_loops_are_one():
    target, draft = abc_machine.remembering()
    speculative = generate(Speculative(target, draft, 0, stop=Stop(length=30)), [B], Random(2))
    assert speculative.tokens == generate(Autoregressive(target, stop=Stop(length=30)), [B], Random(2)).tokens
    assert set(speculative.origins) == {"bonus"}


def test_rounds_stream_and_stop_asking_when_nobody_listens():
    target, draft = map(Spy, abc_machine.remembering())
    chance = Recorded(Random(0))
    stream = rounds(Speculative(target, draft, 2), (), chance)
    assert target.calls == [] and chance.tape == []
    records = list(islice(stream, 3))
    assert len(records) == 3 == sum(kind == "append" for kind, *_ in target.calls)
    used = len(chance.tape)
    next(stream)
    assert len(chance.tape) > used
    finished = list(rounds(Autoregressive(target, stop=Stop(length=4)), (), chance))
    assert [line.stop for line in finished] == [None, None, None, "length"]


def test_the_law_of_one_round_is_that_of_step():
    """The first round's tokens, straight from ``step``: what ``law_of_text`` composes."""
    target, draft = abc_machine.forgetful()
    decoder = Speculative(target, draft, 1)
    law = law_of(lambda chance: decoder.step(decoder.start(), chance)[0].round.tokens)
    # A (2/10) and B (3/10) are accepted, C (5/10) with 1/5; the correction is always A.
    assert law[(A,)] == F(2, 5)
    assert {text: weight for text, weight in law.items() if text[0] == C} == {
        (C, token): F(1, 10) * abc_machine.P[token] for token in (A, B, C)
    }
    assert sum(law.values()) == 1


def test_prompt_lookup_is_exact_in_the_loop():
    target = order_two(5, size=2)
    for gamma in (1, 3):
        decoder = Speculative(target, PromptLookup(2, exact=True), gamma, stop=Stop(length=4))
        assert law_of_text(decoder, [A, B, A]) == text_law(target, 4, prefix=(A, B, A))
    assert math.isinf(PromptLookup(2).reach)


def test_softmax_of_a_float_tables_scores_gives_its_rows_back():
    table = as_floats(abc_machine.remembering()[0])
    rows = softmax(table.append(table.start(), [3, A, B, C]))
    assert np.allclose(rows, table.rows[[3, A, B, C]], atol=1e-15)


# ---- what a user may hand in --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"length": 2.5}, "length cap is 2.5"),
        ({"length": math.nan}, "length cap is nan"),
        ({"length": "5"}, "length cap is '5'"),
        ({"tokens": {1}}, "stop tokens are"),
        ({"tokens": "B"}, "stop tokens are"),
        ({"tokens": frozenset({"B"})}, "stop tokens are"),
        ({"strings": "AB", "decode": str}, "stop strings are"),
        ({"strings": (1,), "decode": str}, "stop strings are"),
    ],
)
def test_stop_rules_of_the_wrong_type_raise(rules, message):
    with pytest.raises(ValueError, match=message):
        Stop(**rules)


@pytest.mark.parametrize("token", [3, 7, -1])
def test_a_stop_token_that_can_never_come_raises(token):
    target, draft = abc_machine.remembering()
    stop = Stop(tokens=frozenset({token}))
    for decoder in (Autoregressive(target, stop=stop), Speculative(target, draft, 2, stop=stop)):
        with pytest.raises(ValueError, match="can't all occur"):
            decoder.start()


@pytest.mark.parametrize("tokens", [(7,), (-1,), (1.5,), (3,)])
def test_a_rule_that_emits_no_token_id_raises(tokens):
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2, stop=Stop(length=1), verify=lambda *_: Round(tokens, ("bonus",)))
    with pytest.raises(ValueError, match="the rule emitted"):
        decoder.step(decoder.start(), Random(0))


def test_a_round_without_tokens_raises():
    with pytest.raises(ValueError, match="at least one token"):
        Round((), ())


def test_models_with_other_symbols_under_the_same_ids_raise():
    text = "ABCABCAABBCC"
    target, draft = (NGram(text, Vocabulary(symbols), 2) for symbols in ("ABC", "CBA"))
    with pytest.raises(ValueError, match="different vocabularies"):
        Speculative(target, draft, 2)


@pytest.mark.parametrize("rows", [np.zeros((1, 4)), np.zeros((0, 3)), np.zeros(3)])
def test_scores_of_the_wrong_shape_raise(rows):
    class Wrong(Table):
        def append(self, state, tokens):
            super().append(state, tokens)
            return rows

    target, draft = abc_machine.remembering()
    for decoder in (Autoregressive(Wrong(target.rows)), Speculative(target, Wrong(draft.rows), 2)):
        with pytest.raises(ValueError, match=r"Wrong.append gave shape"):
            decoder.step(decoder.start(), Random(0))


def test_a_round_that_breaks_off_can_be_played_again():
    target, draft = abc_machine.remembering()
    decoder = Speculative(target, draft, 2)
    state = decoder.start((A,))
    for script in ([F(1, 2)], [F(1, 2), 0], [F(1, 2), 0, 0]):
        with pytest.raises(ValueError, match="the script has only"):
            decoder.step(state, Scripted(script))
        again, _ = decoder.step(copy_state(decoder, state), Scripted([F(1, 2), 0, 0, 0, 0]))
        fresh, _ = decoder.step(decoder.start((A,)), Scripted([F(1, 2), 0, 0, 0, 0]))
        assert again == fresh and state.tokens == [3, A]


def test_law_of_count_refuses_what_it_does_not_describe():
    target, draft = abc_machine.remembering()
    matching = Speculative(target, draft, 2, verify=sample_match.verify)
    greedy = loop_mutants.ArgmaxDraft(target, draft, 2)
    for decoder in (matching, greedy):
        with pytest.raises(ValueError, match="strict rule"):
            law_of_count(decoder, decoder.start())
    decoder = Speculative(target, draft, 2, stop=Stop(length=1))
    _, state = decoder.step(decoder.start(), Random(0))
    with pytest.raises(ValueError, match="stopped"):
        law_of_count(decoder, state)


def test_a_decoder_that_reads_its_history_is_not_merged_without_it():
    """Lossy on purpose: its third round says A. The composition must see that as plain enumeration does."""

    class Tires(Speculative):
        def step(self, state, chance):
            if len(state.history) == 2:
                return super().step(state, Scripted([0] * 9))
            return super().step(state, chance)

    target, draft = abc_machine.remembering()
    decoder = Tires(target, draft, 2, stop=Stop(length=4))
    law = law_of_text(decoder)
    assert law == law_of(lambda chance: generate(decoder, (), chance).tokens)
    assert law != text_law(target, 4)


def test_law_of_text_refuses_a_negative_length():
    target, draft = abc_machine.remembering()
    with pytest.raises(ValueError, match="length is -1"):
        law_of_text(Speculative(target, draft, 2), length=-1)


class Returns(Table):
    """A table whose rows are replaced on their way out."""

    change = staticmethod(lambda rows: rows)

    def append(self, state, tokens):
        return self.change(super().append(state, tokens))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:1], r"shape \(1, 3\): rows \(n, 3\) are needed, n >= 3"),
        (lambda rows: rows.astype(float), "gave dtype float64"),
    ],
)
def test_a_target_with_too_few_rows_or_rows_of_the_other_kind_is_refused(change, message):
    target = Returns(abc_machine.remembering()[0].rows)
    target.change = change
    with pytest.raises(ValueError, match=message):
        generate(Speculative(target, abc_machine.remembering()[1], 2, stop=Stop(length=4)), (), Random(0))
