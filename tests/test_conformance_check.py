"""The kit's own judgement: witnesses, counts, caches, and samplers that are no samplers."""

import signal
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specdec import batch
from specdec.conformance import caches, check, counts, exact, guard
from specdec.conformance.catalogue import BY_NAME, CATALOGUE
from specdec.conformance.samplers import loop, rule, speculative, texts
from specdec.conformance.situations import Request, Situation
from specdec.conformance.verdicts import Finding, Report, Verdict, Witness
from specdec.conformance.walk import walk
from specdec.decoding import Autoregressive, Speculative, Stop, law_of_text
from specdec.law import Transforms
from specdec.verification import Round, block, ended, sample_match, strict

F = Fraction
A, B, C = 0, 1, 2
FEW = [BY_NAME[name] for name in ("one row", "distinct rows", "equal")]
SINGLE = [situation for situation in CATALOGUE if len(situation.requests) == 1]


def walked(sampler, name):
    return walk(sampler.make(BY_NAME[name]), BY_NAME[name], sampler.acceptance)


# ---- situations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("situation", SINGLE, ids=lambda situation: situation.name)
def test_the_law_that_must_come_out_is_what_plain_decoding_gives(situation):
    request = situation.request
    plain = Autoregressive(situation.target, request.transforms, request.stop)
    assert situation.laws[0] == law_of_text(plain, request.prompt, length=situation.tokens)
    assert sum(situation.law.values()) == 1


def test_the_texts_of_a_batch_are_independent():
    situation = BY_NAME["greedy and sampled"]
    greedy, sampled = situation.laws
    assert list(greedy.values()) == [1]
    assert situation.law == {(text, other): weight for text in greedy for other, weight in sampled.items()}


def test_the_catalogue_has_what_the_issue_of_losslessness_asks_for():
    assert len({situation.name for situation in CATALOGUE}) == len(CATALOGUE)
    longest = [max(map(len, situation.laws[0])) for situation in CATALOGUE]
    assert sum(length >= 4 for length in longest) >= 20
    assert any(len(situation.gammas) > 1 for situation in CATALOGUE)
    assert any(situation.draft_size and situation.draft_size < 3 for situation in CATALOGUE)


# ---- right samplers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "verify"), [("strict", strict.verify), ("block", block.verify)])
def test_the_librarys_own_rules_pass_every_situation(name, verify):
    found = check.report(rule(name, verify, name))
    assert found.verdict is Verdict.LOSSLESS and not found.accusations
    assert {finding.tier for finding in found.findings} == {"exact", "state", "accounting", "scripted"}
    check.assert_lossless(rule(name, verify, name), FEW)


def test_sample_and_match_is_innocent_only_if_it_says_what_it_is():
    honest = check.report(rule("match", sample_match.verify, "sample-and-match"), FEW)
    boasting = check.report(rule("match", sample_match.verify, "strict"), FEW)
    assert honest.verdict is Verdict.LOSSLESS and boasting.verdict is Verdict.INEFFICIENT


def in_a_batch(situation, chance):
    """The library's batched decoder; the requests of a situation share models and γ, and here their transforms."""
    request = situation.requests[0]
    decoder = Speculative(situation.target, situation.draft, situation.gammas[0], request.transforms, request.stop)
    made = batch.generate(decoder, [request.prompt for request in situation.requests], [chance] * len(situation.requests))
    return [generation.tokens for generation in made]


def test_a_batch_of_two_has_the_product_of_the_laws():
    found = check.report(texts("batch", in_a_batch), [BY_NAME["ragged batch"]])
    assert found.verdict is Verdict.LOSSLESS
    assert set(found.skipped) >= {"state", "accounting", "scripted"}


def test_texts_that_are_right_alone_and_not_together_are_told():
    def twice(situation, chance):
        text = in_a_batch(replace(situation, requests=situation.requests[:1]), chance)[0]
        return [text, text]

    situation = replace(BY_NAME["ragged batch"], requests=(Request(stop=Stop(length=2)),) * 2)
    (finding,) = check.report(texts("one draw for two", twice), [situation]).findings
    assert finding.verdict is Verdict.LOSSY and "not independent" in finding.says


# ---- witnesses --------------------------------------------------------------------------------------------------------


def test_the_witness_is_the_shortest_path():
    def bonus_from_previous_row(target, draft, proposals, chance):
        round_ = strict.verify(target, draft, proposals, chance)
        return round_ if round_.origins[-1] != "bonus" or not proposals else ended(
            proposals, len(proposals), chance.draw(target[-2], "bonus"), "bonus"
        )

    situation = replace(BY_NAME["distinct rows"], requests=(Request(stop=Stop()),))
    made = walk(rule("off by one", bonus_from_previous_row).make(situation), situation)
    finding = exact.compare({(text,): weight for text, weight in made.law.items()}, situation)
    assert finding.distance == F(21, 125)
    # The first two tokens are right: the witness has three.
    assert len(finding.witness.path) == 2
    prefix, token = finding.witness.path, finding.witness.token
    mass, weight = defaultdict(int), defaultdict(int)
    for law, out in ((made.law, mass), (situation.laws[0], weight)):
        for text, probability in law.items():
            out[text[:2]] += probability
            out[text[:3]] += probability
    assert finding.witness.found == mass[(*prefix, token)] / mass[prefix]
    assert finding.witness.expected == weight[(*prefix, token)] / weight[prefix]
    assert finding.witness.weight == weight[prefix] == mass[prefix]


def test_a_text_that_goes_on_past_its_end_has_a_witness():
    right = {(A,): F(1, 2), (B, B): F(1, 2)}
    wrong = {(A, A): F(1, 2), (B, B): F(1, 2)}
    witness = exact.find_witness(wrong, right)
    assert (witness.path, witness.token) in [((A,), exact.END), ((A,), A)]
    assert {witness.expected, witness.found} == {0, 1}


def test_a_tolerance_covers_rounding_and_no_more():
    situation = BY_NAME["one row"]
    law = dict(situation.law)
    first, second, *_ = law
    law[first] += F(1, 10**6)
    law[second] -= F(1, 10**6)
    assert exact.compare(law, situation).verdict is Verdict.LOSSY
    assert exact.compare(law, situation, 1e-5).verdict is Verdict.LOSSLESS
    assert exact.compare(law, situation, 1e-7).verdict is Verdict.LOSSY


def test_a_law_without_all_its_mass_is_broken():
    situation = BY_NAME["one row"]
    assert exact.compare(dict(list(situation.law.items())[1:]), situation).verdict is Verdict.BROKEN


# ---- samplers that are none -------------------------------------------------------------------------------------------


def raises(target, draft, proposals, chance):
    raise ZeroDivisionError("residual without mass")


def beyond(target, draft, proposals, chance):
    return [target.shape[1]]


def nothing(target, draft, proposals, chance):
    return []


def no_sequence(target, draft, proposals, chance):
    return None


def not_integers(target, draft, proposals, chance):
    return [0.5]


def asks_for_ever(target, draft, proposals, chance):
    while chance.accept(F(1, 2), "accept") or True:
        pass


BROKEN = {
    raises: "ZeroDivisionError: residual without mass",
    beyond: "3, which is no token id from 0 to 2",
    nothing: "no token",
    no_sequence: "no sequence",
    not_integers: "0.5, which is no token id",
    asks_for_ever: "never ends",
}


@pytest.mark.parametrize("verify", BROKEN, ids=lambda verify: verify.__name__)
def test_a_rule_that_breaks_is_reported_with_its_input(verify):
    found = check.report(rule("broken", verify), FEW[:1])
    assert found.verdict is Verdict.BROKEN
    finding = next(finding for finding in found.findings if finding.tier == "exact")
    assert BROKEN[verify] in finding.says
    if verify is not asks_for_ever:
        assert "target [['1/2', '3/10', '1/5']" in finding.says and "proposals [" in finding.says


def stuck(target, draft, proposals, chance):
    while True:
        pass


def stuck_and_deaf(target, draft, proposals, chance):
    while True:
        try:
            stuck(target, draft, proposals, chance)
        except Exception:
            continue


@pytest.mark.parametrize("verify", [stuck, stuck_and_deaf], ids=lambda verify: verify.__name__)
def test_a_rule_that_computes_for_ever_is_ended_and_not_tried_again(monkeypatch, verify):
    monkeypatch.setattr(guard, "SECONDS", 0.2)
    found = check.report(loop("stuck", lambda s: speculative(s, verify=verify)), FEW)
    assert [finding.verdict for finding in found.findings] == [Verdict.BROKEN]
    assert "did not end within 0.2 s" in found.findings[0].says
    assert found.unjudged == dict.fromkeys(("distinct rows", "equal"), "not tried, since 'one row' did not end")


@contextmanager
def alarm(seconds):
    """A test runner's own time limit; counts how often it rings."""
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_time_limit_leaves_the_test_runners_alarm_as_it_was():
    began = time.monotonic()
    with alarm(0.5) as rung:
        with guard.time_limit():
            time.sleep(0.1)
        assert not rung and 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.4
        while not rung and time.monotonic() < began + 5:
            time.sleep(0.01)
    assert len(rung) == 1 and rung[0] - began >= 0.5


def test_an_alarm_that_is_due_sooner_rings_behind_the_time_limit():
    with alarm(0.1) as rung:
        with pytest.raises(guard.BrokenError, match=r"did not end within 0\.[01]"), guard.time_limit():
            stuck(None, None, None, None)
        time.sleep(0.01)
        assert len(rung) == 1


class Unusual(BaseException):
    """What a library may raise that is no ``Exception``."""


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Unusual("gone"), MemoryError()], ids=repr)
def test_whatever_is_raised_is_a_finding(error):
    def verify(target, draft, proposals, chance):
        raise error

    (finding, *_) = check.report(rule("raises", verify), FEW[:1]).findings
    assert finding.verdict is Verdict.BROKEN and f"it raised {type(error).__name__}" in finding.says
    whole = loop("raises", lambda s: speculative(s, verify=verify))
    assert f"step raised {type(error).__name__}" in check.report(whole, FEW[:1]).findings[0].says


def test_ctrl_c_still_ends_the_kit():
    def verify(target, draft, proposals, chance):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check.report(rule("stopped by hand", verify), FEW[:1])


def test_what_the_adapter_raises_is_told_from_what_the_sampler_raises():
    def unready(*_):
        raise LookupError("no such engine")

    for adapted, says in (
        (loop("a", unready), "the adapter's make(situation) raised LookupError: no such engine"),
        (loop("b", speculative, acceptance=unready), "the function that reports acceptance raised LookupError: no such engine"),
        (texts("c", unready), "it raised LookupError: no such engine"),
    ):
        assert says in check.report(adapted, FEW[:1]).findings[0].says


@pytest.mark.parametrize("above", [0, 1, Fraction(0), Fraction(1, 2)])
def test_a_division_by_zero_reads_alike_on_every_python(above):
    with pytest.raises(ZeroDivisionError) as raised:
        above / Fraction(0)
    assert guard.described(raised.value) == "ZeroDivisionError: division by zero"


def test_a_decoder_that_remembers_between_runs_is_not_judged_and_told_why():
    class Remembers(Speculative):
        def round_gamma(self, state):
            object.__setattr__(self, "ran", getattr(self, "ran", 0) + 1)
            return min(super().round_gamma(state), self.ran % 3)

    found = check.report(loop("remembers", lambda s: speculative(s, kind=Remembers)), FEW[:1])
    assert not found.accusations and found.verdict is None
    assert "it can't be replayed, since it remembers something" in found.unjudged["one row"]
    with pytest.raises(AssertionError, match="remembers something"):
        check.assert_lossless(loop("remembers", lambda s: speculative(s, kind=Remembers)), FEW[:1])


def test_a_decoder_that_never_adds_a_token_is_ended():
    class Idle(Speculative):
        def step(self, state, chance):
            before = list(state.tokens)
            record, state = super().step(state, chance)
            state.tokens[:] = before
            state.stop = None
            for cache in state.caches.values():
                del cache[len(before) - 1 :]
            return record, state

    finding = check.report(loop("idle", lambda s: speculative(s, kind=Idle)), FEW[:1]).accusations[0]
    assert finding.verdict is Verdict.BROKEN and "never ends" in finding.says


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "a list of 2 texts"),
        ([(A, A)], "a list of 2 texts"),
        ([(A, A), (A, 7)], "7, which is no token id"),
        ([(A, A), 3], "no sequence"),
    ],
)
def test_a_batch_that_answers_something_else_is_broken(answer, says):
    (finding,) = check.report(texts("wrong", lambda situation, chance: answer), [BY_NAME["ragged batch"]]).findings
    assert finding.verdict is Verdict.BROKEN and says in finding.says


def test_a_text_that_goes_on_behind_its_cap_is_seen():
    def one_more(situation, chance):
        return [[*text, A] for text in in_a_batch(situation, chance)]

    (finding,) = check.report(texts("one more", one_more), [BY_NAME["ragged batch"]]).findings
    assert finding.verdict is Verdict.LOSSY and "which the target never does" in finding.says


def test_the_answer_may_be_any_iterable_of_ids():
    def lazily(situation, chance):
        return (np.array(text) for text in in_a_batch(situation, chance))

    (finding,) = check.report(texts("lazy", lazily), [BY_NAME["ragged batch"]]).findings
    assert finding.verdict is Verdict.LOSSLESS
    generator = rule("generator", lambda *given: (token for token in strict.verify(*given).tokens), "strict")
    assert check.report(generator, FEW[:1]).verdict is Verdict.LOSSLESS
    truths = rule("truths", lambda *given: [bool(token) for token in strict.verify(*given).tokens])
    assert "which is no token id" in check.report(truths, FEW[:1]).accusations[0].says


# ---- code that computes with its uniforms ---------------------------------------------------------------------------------


def decided_by(accepts, corrects=lambda weights, u, a, chance: chance.draw(weights, "correct")):
    """The strict rule, with the two decisions as the given code makes them of one uniform each."""

    def verify(target, draft, proposals, chance):
        for i, token in enumerate(proposals):
            u, a = chance.uniform("accept"), strict.acceptance(target[i], draft[i], token)
            if not accepts(u, target[i][token], draft[i][token], a):
                weights = strict.correction_weights(target[i], draft[i])
                return ended(proposals, i, corrects(weights, u, a, chance), "correction")
        return ended(proposals, len(proposals), chance.draw(list(target[-1]), "what the book calls a bonus"), "bonus")

    return verify


def race(weights, u, a, chance):
    times = [-np.log(1 - chance.uniform("gumbel")) / float(w) if w else np.inf for w in weights]
    return int(np.argmin(np.array(times, dtype=object)))


COMPUTED = {
    "u q < p": decided_by(lambda u, p, q, a: u * q < p),
    "1 - u": decided_by(lambda u, p, q, a: 1 - u < a),
    "log u": decided_by(lambda u, p, q, a: u < a, race),
    "u used up": decided_by(lambda u, p, q, a: u < a, lambda w, u, a, chance: chance.draw(w, "correct", u=(u - a) / (1 - a))),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_rule_may_compute_with_its_uniforms(name):
    found = check.report(rule(name, COMPUTED[name], "strict", 1e-9), FEW)
    assert {finding.verdict for finding in found.findings if finding.tier == "exact"} == {Verdict.LOSSLESS}


def test_a_uniform_that_is_used_up_wrongly_gets_its_wrong_law():
    again = decided_by(lambda u, p, q, a: u < a, lambda w, u, a, chance: chance.draw(w, "correct", u=u))
    assert check.in_situation(rule("again", again), BY_NAME["one row"])[0].verdict is Verdict.LOSSY
    beyond_one = decided_by(lambda u, p, q, a: u < a, lambda w, u, a, chance: chance.draw(w, "correct", u=u / (1 - a)))
    assert check.in_situation(rule("beyond", beyond_one), BY_NAME["one row"])[0].verdict is Verdict.BROKEN


def test_floats_without_a_tolerance_are_told_to_state_one():
    def floats(target, draft, proposals, chance):
        return strict.verify(target.astype(float), draft.astype(float), proposals, chance)

    found = check.report(rule("floats", floats), FEW[1:2])
    assert not found.accusations and "tolerance=1e-9" in found.unjudged["distinct rows"]
    assert check.in_situation(rule("floats", floats, tolerance=1e-9), FEW[1])[0].verdict is Verdict.LOSSLESS
    with pytest.raises(ValueError, match=r"from 0 to 0\.001"):
        rule("floats", floats, tolerance=0.01)


def test_a_transform_that_can_t_be_hashed_is_no_fault_of_the_sampler():
    class Flat:
        __hash__ = None

        def __call__(self, scores, prefix):
            return scores

    situation = replace(FEW[0], requests=(Request(transforms=Transforms((Flat(),))),))
    assert not check.report(rule("strict", strict.verify, "strict"), [situation]).accusations


def test_a_sampler_that_no_tier_reaches_fails_the_assertion():
    with pytest.raises(AssertionError, match="nothing shown"):
        check.assert_lossless(loop("strict", speculative), [])


@pytest.mark.parametrize("wrong", [{"declares": "exact"}, {"tolerance": -1}, {"tolerance": float("nan")}])
def test_an_adapter_with_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rule("strict", strict.verify, **wrong)


# ---- counts and caches ------------------------------------------------------------------------------------------------


def test_expected_counts_are_those_of_the_design():
    """At γ = 2 a round of the remembering machine yields 1.92 tokens, not 1.96: the first round's, by hand."""
    situation = Situation("first round", "", *(BY_NAME["distinct rows"].target, BY_NAME["distinct rows"].draft), tokens=1,
                          requests=(Request(stop=Stop()),))
    means = counts.means(walk(rule("strict", strict.verify).make(situation), situation))
    assert means.rounds == 1 and means.proposed == 2 and means.emitted == F(48, 25)
    assert means.accepted == F(23, 25)
    assert means.joint == [F(3, 5), F(8, 25)] and means.conditional == [F(3, 5), F(8, 15)]


def test_a_rule_that_accepts_less_is_inefficient_and_no_more():
    def like_one_hot(target, draft, proposals, chance):
        """Treats each proposal as if q were 1 there."""
        for i, token in enumerate(proposals):
            if not chance.accept(target[i][token], "accept"):
                weights = target[i].copy()
                weights[token] = 0
                return ended(proposals, i, chance.draw(weights, "correct"), "correction")
        return ended(proposals, len(proposals), chance.draw(target[-1], "bonus"), "bonus")

    found = check.report(rule("no draft laws", like_one_hot, "strict"), FEW[:1])
    assert found.verdict is Verdict.INEFFICIENT
    assert {finding.tier for finding in found.accusations} == {"accounting"}
    # F1: .28 instead of .60
    situation = replace(BY_NAME["one row"], tokens=1, requests=(Request(stop=Stop()),))
    ours = counts.means(walk(rule("", like_one_hot).make(situation), situation))
    assert ours.accepted == F(7, 25) and counts.due("strict", situation).accepted == F(3, 5)


class NotCut(Speculative):
    """Proposes γ tokens also where the cap leaves no room for them."""

    def round_gamma(self, state):
        return self.gamma


class Wary(Speculative):
    """Proposes one token after a rejection."""

    def round_gamma(self, state):
        return min(super().round_gamma(state), 2 if not state.history or state.history[-1][1] else 1)


INNOCENT = {
    "block": lambda s: speculative(s, verify=block.verify),
    "γ is not cut at the cap": lambda s: speculative(s, kind=NotCut),
    "γ follows acceptance": lambda s: speculative(s, kind=Wary),
    "γ = 1": lambda s: Speculative(s.target, s.draft, 1, s.request.transforms, s.request.stop),
    "γ = 3": lambda s: Speculative(s.target, s.draft, 3, s.request.transforms, s.request.stop),
    "no draft": lambda s: Autoregressive(s.target, s.request.transforms, s.request.stop),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_a_sampler_with_its_own_gammas_or_a_better_rule_is_not_accused(name):
    few = [*FEW[:2], BY_NAME["cap"], BY_NAME["stop token"]]
    assert not check.report(loop(name, INNOCENT[name], "strict"), few).accusations


def test_a_rule_that_ends_early_is_innocent_if_it_declares_nothing():
    def no_bonus(target, draft, proposals, chance):
        round_ = strict.verify(target, draft, proposals, chance)
        return list(proposals) if proposals and round_.accepted == len(proposals) else round_.tokens

    assert not check.report(rule("no bonus", no_bonus), FEW[:2]).accusations
    assert check.report(rule("no bonus", no_bonus, "strict"), FEW[:2]).verdict is Verdict.INEFFICIENT


def test_a_match_that_is_called_accepted_is_misreported():
    """The law is right, and its counts are possible; only the proposals refute the claim."""

    def boasts(target, draft, proposals, chance):
        round_ = strict.verify(target, draft, proposals, chance)
        return Round(round_.tokens, ("accepted",)) if len(round_.tokens) == 1 and proposals else round_

    found = check.in_situation(rule("boasts", boasts), BY_NAME["one row"])
    assert [finding.verdict for finding in found if finding.accused] == [Verdict.MISREPORTED]
    assert "are called accepted in" in found[-1].says


def test_more_accepted_than_the_rule_accepts_is_misreported():
    """A loop shows no proposals, so only the expected count speaks."""

    class Boasts(Speculative):
        def step(self, state, chance):
            record, state = super().step(state, chance)
            if record.gamma > 1 and record.emitted == 1:
                record = replace(record, round=Round(record.round.tokens, ("accepted",)))
            return record, state

    made = loop("boasts", lambda s: speculative(s, kind=Boasts), "strict")
    finding = check.in_situation(made, BY_NAME["distinct rows"])[-1]
    assert finding.verdict is Verdict.MISREPORTED and "in as many rounds as strict, which accepts" in finding.says


@pytest.mark.parametrize(("name", "verdict"), [("target", Verdict.LOSSY), ("draft", Verdict.INEFFICIENT)])
@pytest.mark.parametrize(
    ("spoil", "says"), [(lambda held: held.extend([A] * 9), "too many"), (lambda held: held.__setitem__(-1, A), "gives the row")]
)
def test_a_cache_that_keeps_what_was_rejected_is_stale(name, verdict, spoil, says):
    made = walked(rule("strict", strict.verify), "two back")
    assert not caches.check(made, BY_NAME["two back"]).accused
    state = next(state for state in made.states.values() if state.generated == [B])
    spoil(state.caches[name])
    finding = caches.check(made, BY_NAME["two back"])
    assert finding.verdict is verdict and says in finding.says and "after [1]" in finding.says


# ---- the report -------------------------------------------------------------------------------------------------------


def finding(verdict, tier="exact"):
    return Finding(tier, "here", verdict, "it <says> so", Witness((A,), B, F(1, 2), F(1, 3)))


def test_the_gravest_finding_decides():
    order = [Verdict.LOSSLESS, Verdict.NOT_REFUTED, Verdict.AGREES]
    order += [Verdict.MISREPORTED, Verdict.INEFFICIENT, Verdict.LOSSY, Verdict.BROKEN]
    for number in range(1, len(order) + 1):
        due = order[number - 1] if number > 3 else Verdict.LOSSLESS
        assert Report("s", None, [finding(verdict) for verdict in order[:number]]).verdict is due
    assert Report("s", None, [finding(Verdict.NOT_REFUTED), finding(Verdict.LOSSLESS)]).verdict is Verdict.LOSSLESS
    assert Report("s", None, []).verdict is None


def test_the_title_says_of_what_the_verdict_holds():
    proofs = [Finding("all laws", where, Verdict.PROVED, "") for where in ("V = 2, γ = 2", "V = 3, γ = 1")]
    assert Report("s", None, [*proofs, finding(Verdict.LOSSLESS)]).title == (
        "s: PROVED for all laws of (V = 2, γ = 2), (V = 3, γ = 1); LOSSLESS on the catalogue"
    )
    left = dict.fromkeys(("ragged batch", *"abcdefg"), "it decodes one request at a time")
    title = Report("s", None, [finding(Verdict.LOSSLESS)], {}, left).title
    assert title == "s: NOT REFUTED; not judged exactly: ragged batch, a, b, c, d, e and 2 more"


def test_the_report_says_how_closely_and_how_far_it_looked():
    near = Report("s", None, [finding(Verdict.LOSSLESS)], tolerance=1e-6, bounds="V ≤ 4, γ ≤ 3")
    says = "Laws were compared up to a total variation of 1e-06, the sampler's own tolerance. V ≤ 4, γ ≤ 3"
    assert says in str(near) and says.replace("'", "&#x27;") in near._repr_html_()
    assert "Laws were compared exactly." in str(Report("s", None, [finding(Verdict.LOSSLESS)]))
    assert "compared" not in str(Report("s", None, [finding(Verdict.NOT_REFUTED, "black-box")]))


def test_a_tier_says_what_it_did_not_look_at_and_why():
    lossy, other = finding(Verdict.LOSSY), Finding("exact", "there", Verdict.LOSSLESS, "")
    rows = {tier: (verdict, says) for tier, verdict, says in Report("s", None, [lossy, other]).by_tier()}
    assert rows["accounting"] == ("not run", "the law is wrong: counts of a wrong law tell nothing")
    counted = Finding("accounting", "there", Verdict.AGREES, "3 accepted")
    rows = {tier: (verdict, says) for tier, verdict, says in Report("s", None, [lossy, other, counted]).by_tier()}
    says = "3 accepted; not looked at in 1, where the law is wrong: counts of a wrong law tell nothing"
    assert rows["accounting"] == ("AGREES", says)
    broken = Report("s", None, [finding(Verdict.BROKEN)])
    assert {tier: says for tier, _, says in broken.by_tier()}["state"] == "no text came out"
    scripts = Report("s", None, [finding(Verdict.NOT_REFUTED, "scripted")] * 2)
    assert "narrower than 1/16 may be missed" in str(scripts).replace("\n", " ")


def test_no_tier_but_the_exact_one_calls_a_sampler_lossless():
    found = check.report(rule("strict", strict.verify), FEW[:1])
    rest = {"state": Verdict.AGREES, "accounting": Verdict.AGREES, "scripted": Verdict.NOT_REFUTED}
    assert {f.tier: f.verdict for f in found.findings} == {"exact": Verdict.LOSSLESS, **rest}


def test_the_report_reads_as_text_and_as_html():
    report = Report("mine <1>", "strict", [finding(Verdict.LOSSY)], {"state": "no decoder"})
    text = str(report)
    for part in ("mine <1>: LOSSY", "it <says> so", "no decoder", "exact", "not run"):
        assert part in text
    html = report.as_page()
    assert "mine &lt;1&gt;: LOSSY" in html and "<says>" not in html and html.count("<tr>") == 7
