"""Draft and target in two processes: the protocol's exact law by plain calls, its wrong twins, and real processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from specdec import processes
from specdec.chance import Random, Scripted, law_of, law_of_process
from specdec.conformance.process_mutants import RelabelledGuess, Salvage, UncheckedGuess
from specdec.decoding import Speculative, Stop, copy_state, rounds
from specdec.law import RepetitionPenalty, Temperature, TopK, Transforms, exact, overlap, residual, total_variation
from specdec.models import abc_machine
from specdec.models.automaton import Automaton
from specdec.models.ngram import NGram
from specdec.models.table import Table, text_law
from specdec.models.text import Vocabulary
from specdec.processes import DraftSide, ExchangeRecord, TwoProcesses, TwoStreams, measure, two_processes
from specdec.verification import block, sample_match, strict

F = Fraction
PLAIN = Transforms()


# ---- the exact law, by plain calls ----------------------------------------------------------------------------------


def two_symbols():
    """Over two symbols, so that γ = 2 has few enough branches."""
    target = exact([[1, 4], [3, 2], [2, 3]], 5)
    return Table(target), Table(exact([["3/5", "2/5"], ["1/5", "4/5"], ["1/2", "1/2"]]))


def by_calls(models, gamma, *, side=DraftSide, ahead=False, ship="laws", length=None, verify=strict.verify):
    target, draft = models
    return TwoProcesses(target, side(draft, PLAIN, ahead, ship), gamma, PLAIN, Stop(length=length), verify)


def law(decoder, length, start=None):
    """As ``law_of_text``, without the history of rounds in the key: at a fixed γ nothing reads it."""
    start = decoder.start() if start is None else start
    return law_of_process(
        lambda state, chance: decoder.step(copy_state(decoder, state), chance)[1],
        start,
        done=lambda state: state.stop is not None or state.length >= length,
        key=lambda state: (tuple(state.tokens), *(model.key(state.caches[name]) for name, model in decoder.models.items())),
        outcome=lambda state: tuple(state.generated[:length]),
    )


def distance(one, other):
    return sum(abs(one.get(text, 0) - other.get(text, 0)) for text in one.keys() | other.keys()) / 2


@pytest.mark.parametrize("ship", ["laws", "tokens"])
@pytest.mark.parametrize("rule", [strict, block, sample_match])
def test_in_step_has_the_targets_law(rule, ship):
    models = abc_machine.remembering()
    for gamma, length in ((1, 4), (2, 3)):
        decoder = by_calls(models, gamma, ship=ship, length=length, verify=rule.verify)
        assert law(decoder, length) == text_law(models[0], length)


@pytest.mark.parametrize(
    ("models", "gamma", "length", "rule", "ship"),
    [
        (abc_machine.remembering(), 1, 4, strict, "laws"),
        (abc_machine.remembering(), 1, 3, sample_match, "laws"),
        (abc_machine.remembering(), 1, 3, strict, "tokens"),
        (two_symbols(), 2, 5, strict, "laws"),
        (two_symbols(), 2, 5, block, "laws"),
    ],
)
def test_ahead_has_the_targets_law(models, gamma, length, rule, ship):
    """The lengths are the shortest ones at which a whole round drawn ahead is verified, or longer."""
    decoder = by_calls(models, gamma, ahead=True, ship=ship, length=length, verify=rule.verify)
    assert law(decoder, length) == text_law(models[0], length)


def test_ahead_with_two_proposals_has_the_targets_law_behind_a_round_that_accepts_all():
    """On the ABC machine: ABC is committed as proposals and bonus, and the next two tokens follow the target's law."""
    target, draft = abc_machine.remembering()
    decoder = by_calls((target, draft), 2, ahead=True, length=6)  # so that the round to check still has γ = 2
    record, state = decoder.step(decoder.start(), Scripted([0, F(1, 2), 0, 0, F(99, 100)]))
    assert record.round.tokens == (0, 1, 2) and record.accepted == 2
    expected = {(0, 1, 2, *text): weight for text, weight in text_law(target, 2, (0, 1, 2)).items()}
    assert law(decoder, 5, state) == expected


def test_share_of_runs_ahead_that_are_used():
    """At γ = 1: Σ_x min(p, q)(x) Σ_y p(y|x) q(y|x), the proposal accepted and the bonus guessed."""
    models = target, draft = abc_machine.remembering()
    decoder = by_calls(models, 1, ahead=True)

    def second_round(chance):
        _, state = decoder.step(decoder.start(), chance)
        return decoder.step(state, chance)[0].exchange.ahead

    p, q = target.law_after(()), draft.law_after(())
    used = sum(min(p[x], q[x]) * (target.law_after((x,)) * draft.law_after((x,))).sum() for x in range(3))
    assert used == F(159, 1000)
    assert law_of(second_round) == {True: used, False: 1 - used}


def test_a_draft_that_can_go_back_too_little_is_refused():
    laws = exact([[6, 3, 1], [1, 6, 3]], 10)
    transitions = np.array([[1, 0, 0, 0], [0, 1, 1, 0]])
    target = Automaton(transitions, laws, 2)
    for reach in (3, 2):
        side = partial(DraftSide, Automaton(transitions, laws[::-1].copy(), reach), PLAIN)
        TwoProcesses(target, side(), 1)
        if reach == 3:
            decoder = TwoProcesses(target, side(ahead=True), 1, PLAIN, Stop(length=4))
            assert law(decoder, 4) == law(TwoProcesses(target, side(), 1, PLAIN, Stop(length=4)), 4)
        else:
            with pytest.raises(ValueError, match="draft can only be rewound by"):
                TwoProcesses(target, side(ahead=True), 1)


def test_a_round_that_was_broken_off_can_be_repeated():
    target, draft = abc_machine.remembering()
    decoder = by_calls((target, draft), 1, ahead=True, length=4)
    state = decoder.start()
    with pytest.raises(ValueError, match="the script has only"):
        decoder.step(state, Scripted([0]))
    assert law(decoder, 2, state) == law(by_calls((target, draft), 1, length=4), 2)


# ---- wrong twins ----------------------------------------------------------------------------------------------------


def test_reusing_what_lies_behind_a_wrong_guess_is_caught_where_its_laws_are_looked_up():
    """Behind x accepted and the bonus b, y comes from q(.|x, guess) and is judged by the laws behind b."""
    models = target, draft = abc_machine.remembering()
    wrong = law(by_calls(models, 1, side=RelabelledGuess, ahead=True), 3)

    p, q = target.law_after, draft.law_after
    error = 0
    for x, b in np.ndindex(3, 3):
        drawn = sum(q((x,))[guess] * q((guess,)) for guess in range(3))
        kept = drawn * np.minimum(1, p((b,)) / q((b,)))
        third = kept + (1 - kept.sum()) * residual(p((b,)), q((b,)))
        error += min(p(())[x], q(())[x]) * p((x,))[b] * total_variation(third, p((b,)))
    assert distance(wrong, text_law(target, 3)) == error == F(203, 2400)


def test_with_its_own_laws_it_is_right_and_only_acceptance_differs():
    """Behind x accepted, the bonus b and the guess g: Σ min(p(.|b), q(.|g)) instead of Σ min(p(.|b), q(.|b)).

    That it accepts more here is chance: this draft fits the target no better behind the same symbol than behind another.
    """
    models = target, draft = abc_machine.remembering()
    assert law(by_calls(models, 1, side=UncheckedGuess, ahead=True), 3) == text_law(target, 3)

    def accepted(side):
        decoder = by_calls(models, 1, side=side, ahead=True)

        def second_round(chance):
            _, state = decoder.step(decoder.start(), chance)
            return decoder.step(state, chance)[0].accepted

        return law_of(second_round)[1]

    p, q = target.law_after, draft.law_after
    checked = unchecked = (1 - overlap(p(()), q(()))) * overlap(p((0,)), q((0,)))  # a rejection is corrected to A
    for x, b in np.ndindex(3, 3):
        weight = min(p(())[x], q(())[x]) * p((x,))[b]
        checked += weight * overlap(p((b,)), q((b,)))
        unchecked += weight * sum(q((x,))[g] * overlap(p((b,)), q((g,))) for g in range(3))
    assert accepted(DraftSide) == checked == F(631, 1000)
    assert accepted(UncheckedGuess) == unchecked == F(6777, 10000)


def test_salvage_behind_a_rejection_is_right_under_strict_and_wrong_under_block():
    models = abc_machine.remembering()
    target = text_law(models[0], 3)
    assert law(by_calls(models, 2, side=Salvage, verify=strict.verify), 3) == target
    assert distance(law(by_calls(models, 2, side=Salvage, verify=block.verify), 3), target) == F(1, 30)


class Echo:
    """One end of a stream of uniforms that two ends read, each from the beginning: two generators of one seed."""

    def __init__(self, chance, stream):
        self._chance, self._stream, self._read = chance, stream, 0

    def uniform(self, purpose):
        if self._read == len(self._stream):
            self._stream.append(self._chance.uniform(purpose))
        self._read += 1
        return self._stream[self._read - 1]

    def accept(self, probability, purpose, u=None):
        return self._chance.accept(probability, purpose, self.uniform(purpose))

    def draw(self, weights, purpose, u=None):
        return self._chance.draw(weights, purpose, self.uniform(purpose))


def test_equal_seeds_are_caught():
    """The uniform that draws the proposal accepts it: on the lesson's trace C is never accepted, and A takes its share."""
    models = abc_machine.forgetful()

    def first(decoder, chance):
        stream = []
        return decoder.step(decoder.start(), TwoStreams(Echo(chance, stream), Echo(chance, stream)))[0].round.tokens[0]

    wrong = law_of(partial(first, by_calls(models, 1)))
    assert wrong == {0: F(7, 10), 1: F(3, 10)}
    assert distance(wrong, {0: F(6, 10), 1: F(3, 10), 2: F(1, 10)}) == F(1, 10)


# ---- real processes -------------------------------------------------------------------------------------------------

VOCABULARY = Vocabulary("abcde ")
TEXT = "abc de abba cab ace bed dad cede a bad cab ebb dab deed abed bead ace cad decade "
MAKE = partial(NGram, TEXT, VOCABULARY, 2)
TARGET = NGram(TEXT, VOCABULARY, 4)
TRANSFORMS = Transforms((RepetitionPenalty(1.1), Temperature(0.9), TopK(5)))
STOP = Stop(length=60)
PROMPTS = ([], VOCABULARY.encode("abc"), VOCABULARY.encode("dad "))


def gone(process):
    """Ended and reaped: no zombie is left to wait for."""
    if process.is_alive() or process in multiprocessing.active_children():
        return False
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return True


def texts(decoder, chances):
    """The records of every prompt's text, one after the other."""
    made = []
    for prompt, chance in zip(PROMPTS, chances, strict=True):
        state, records = decoder.start(prompt), []
        while state.stop is None:
            records.append(decoder.step(state, chance)[0])
        if isinstance(getattr(decoder, "draft", None), DraftSide) and decoder.draft.ahead:
            decoder.draft.run_ahead(state.caches["draft"], chance)  # the draft can't know that the text has ended
        made.append(records)
    return made


@pytest.mark.parametrize(("ahead", "ship", "rule"), [(False, "laws", strict), (True, "laws", block), (True, "tokens", strict)])
def test_real_processes_decode_the_text_of_plain_calls(ahead, ship, rule):
    proposing = Random(1)
    calls = TwoProcesses(TARGET, DraftSide(MAKE(), TRANSFORMS, ahead, ship), 3, TRANSFORMS, STOP, rule.verify)
    expected = texts(calls, [TwoStreams(proposing, Random(seed)) for seed in (2, 3, 4)])
    with two_processes(MAKE, TARGET, 3, TRANSFORMS, STOP, rule.verify, seed=1, ahead=ahead, ship=ship) as decoder:
        made = texts(decoder, map(Random, (2, 3, 4)))
        process = decoder.draft.process
    assert made == expected  # γ, tokens, origins, commitments, stops
    assert process.exitcode == 0 and gone(process)
    runs = [[record.exchange.ahead for text in both for record in text] for both in (made, expected)]
    assert runs[0] == runs[1] and (set(runs[0]) == {None, True, False} if ahead else set(runs[0]) == {None})


def test_in_step_decodes_the_text_of_one_process_with_two_streams():
    proposing = Random(1)
    alone = Speculative(TARGET, MAKE(), 3, TRANSFORMS, STOP)
    expected = texts(alone, [TwoStreams(proposing, Random(seed)) for seed in (2, 3, 4)])
    with two_processes(MAKE, TARGET, 3, TRANSFORMS, STOP, seed=1) as decoder:
        made = texts(decoder, map(Random, (2, 3, 4)))
    assert [[record.round for record in text] for text in made] == [[record.round for record in text] for text in expected]


@pytest.mark.parametrize("ship", ["laws", "tokens"])
def test_bytes_and_seconds_of_a_round(ship):
    with two_processes(MAKE, TARGET, 3, TRANSFORMS, STOP, seed=1, ship=ship) as decoder:
        records = list(rounds(decoder, PROMPTS[1], Random(2)))
    new = 1 + len(PROMPTS[1])
    for record in records:
        exchange, words = record.exchange, len(VOCABULARY) + 1 if ship == "laws" else 1
        assert isinstance(record, ExchangeRecord)
        assert exchange.sent == 8 * (2 + new) and exchange.received == 8 * (3 + record.gamma * words)
        assert list(record.seconds) == ["synchronising", "verifying", "choosing", "state"]
        assert 0 < exchange.waiting + exchange.shipping <= record.seconds["synchronising"]
        assert min(exchange.waiting, exchange.shipping, exchange.drafting) > 0
        new = record.committed


def test_two_texts_may_take_turns():
    """The draft's process holds one text; the other one's is told whole, which costs bytes and not the law."""
    with two_processes(MAKE, TARGET, 2, TRANSFORMS, STOP, seed=1, ahead=True) as decoder:
        states = [decoder.start(prompt) for prompt in PROMPTS]
        for _ in range(3):
            for state in states:
                held = len(state.tokens)
                record, _ = decoder.step(state, Random(2))
                assert record.exchange.sent == 8 * (2 + held) and record.exchange.ahead is None


def test_a_draft_that_cannot_be_made_says_why_in_the_parent():
    broken = partial(NGram, TEXT, VOCABULARY, 0)
    with (
        pytest.raises(RuntimeError, match=r"(?s)the draft's process failed:.*ValueError: order is 0"),
        two_processes(broken, TARGET, 2, seed=1),
    ):
        pass
    assert not multiprocessing.active_children()


def test_a_failure_in_the_draft_is_raised_in_the_parent():
    with two_processes(MAKE, TARGET, 2, seed=1) as decoder:
        with pytest.raises(RuntimeError, match=r"(?s)the draft's process failed:.*ValueError: token 0 is 99"):
            decoder.draft.ask([], [99], 2, Random(2))
        assert gone(decoder.draft.process)
        with pytest.raises(RuntimeError, match="was closed"):
            decoder.step(decoder.start(), Random(2))


def test_an_exception_in_the_block_ends_the_process():
    with pytest.raises(KeyError), two_processes(MAKE, TARGET, 2, seed=1, ahead=True) as decoder:  # noqa: PT012
        decoder.step(decoder.start(), Random(2))
        raise KeyError
    assert decoder.draft.process.exitcode == 0 and gone(decoder.draft.process)


def test_a_killed_draft_is_an_error_and_no_hang():
    with two_processes(MAKE, TARGET, 2, seed=1) as decoder:
        state = decoder.start()
        decoder.step(state, Random(2))
        os.kill(decoder.draft.process.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="ended unasked, exit code -9"):
            decoder.step(state, Random(2))
    assert gone(decoder.draft.process)


def test_a_draft_that_does_not_answer_is_given_up(monkeypatch):
    with two_processes(MAKE, TARGET, 2, seed=1) as decoder:
        monkeypatch.setattr(processes, "PATIENCE", 0.2)
        monkeypatch.setattr(processes, "GRACE", 0.2)
        os.kill(decoder.draft.process.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match=r"no answer in 0\.2 seconds"):
            decoder.step(decoder.start(), Random(2))
    assert decoder.draft.process.exitcode == -9 and gone(decoder.draft.process)


@pytest.mark.parametrize(
    ("make", "target", "message"),
    [
        (partial(NGram, TEXT, VOCABULARY, 2, exact=True), NGram(TEXT, VOCABULARY, 3, exact=True), "run exact models in one"),
        (partial(NGram, "abab", Vocabulary("abcd e"), 2), TARGET, "different vocabularies"),
    ],
)
def test_models_that_do_not_fit_are_refused(make, target, message):
    with pytest.raises(ValueError, match=message), two_processes(make, target, 2, seed=1):
        pass
    assert not multiprocessing.active_children()


def test_measure_gives_its_figures():
    alone = Speculative(TARGET, MAKE(), 2, TRANSFORMS, Stop(length=20))
    figures = measure(alone, MAKE, PROMPTS)
    split = {"seconds", "times", "waiting", "drafting", "shipping", "sent", "received", "used"}
    assert {form: set(kinds) for form, kinds in figures.items()} == {
        "alone": {"seconds", "times"}, "in step": split, "ahead": split,
    }  # fmt: skip
    assert figures["alone"]["times"] == 1 and np.isnan(figures["in step"]["used"]) and 0 <= figures["ahead"]["used"] <= 1
    assert all(kinds["seconds"] > 0 for kinds in figures.values())
    assert not multiprocessing.active_children()


def test_the_childs_imports_are_light():
    code = "import specdec.processes, sys; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert not loaded & {"matplotlib", "sphinx", "IPython", "pytest", "torch", "safetensors"}
