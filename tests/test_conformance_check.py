"""The kit's own judgement: witnesses, counts, caches, and samplers that are no samplers."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest

from specdec import batch
from specdec.conformance import caches, check, counts, exact, guard
from specdec.conformance.catalogue import BY_NAME, CATALOGUE
from specdec.conformance.samplers import loop, rule, speculative, texts
from specdec.conformance.situations import Request, Situation
from specdec.conformance.verdicts import Finding, Report, Verdict, Witness
from specdec.conformance.walk import walk
from specdec.decoding import Autoregressive, Speculative, Stop, law_of_text
from specdec.verification import block, ended, sample_match, strict

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


def test_a_rule_that_computes_for_ever_is_ended(monkeypatch):
    def stuck(target, draft, proposals, chance):
        while True:
            pass

    monkeypatch.setattr(guard, "SECONDS", 0.2)
    with pytest.raises(guard.BrokenError, match=r"did not end within 0\.2 s"), guard.time_limit():
        stuck(None, None, None, None)


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

    found = check.report(rule("no draft laws", like_one_hot), FEW[:1])
    assert found.verdict is Verdict.INEFFICIENT
    assert {finding.tier for finding in found.accusations} == {"accounting"}
    # F1: .28 instead of .60
    situation = replace(BY_NAME["one row"], tokens=1, requests=(Request(stop=Stop()),))
    ours = counts.means(walk(rule("", like_one_hot).make(situation), situation))
    assert ours.accepted == F(7, 25) and counts.due("strict", situation).accepted == F(3, 5)


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
    order = [Verdict.LOSSLESS, Verdict.MISREPORTED, Verdict.INEFFICIENT, Verdict.LOSSY, Verdict.BROKEN]
    for number in range(1, len(order) + 1):
        assert Report("s", None, [finding(verdict) for verdict in order[:number]]).verdict is order[number - 1]
    assert Report("s", None, [finding(Verdict.NOT_REFUTED), finding(Verdict.LOSSLESS)]).verdict is Verdict.LOSSLESS
    assert Report("s", None, []).verdict is None


def test_the_report_reads_as_text_and_as_html():
    report = Report("mine <1>", "strict", [finding(Verdict.LOSSY)], {"state": "no decoder"})
    text = str(report)
    for part in ("mine <1>: LOSSY", "it <says> so", "no decoder", "exact", "not run"):
        assert part in text
    html = report.as_page()
    assert "mine &lt;1&gt;: LOSSY" in html and "<says>" not in html and html.count("<tr>") == 7


def test_the_failure_names_situation_path_and_numbers():
    def residual_is_p(target, draft, proposals, chance):
        for i, token in enumerate(proposals):
            if not chance.accept(strict.acceptance(target[i], draft[i], token), "accept"):
                return ended(proposals, i, chance.draw(target[i], "correct"), "correction")
        return ended(proposals, len(proposals), chance.draw(target[-1], "bonus"), "bonus")

    with pytest.raises(AssertionError) as raised:
        check.assert_lossless(rule("resampler", residual_is_p), FEW[:1])
    message = str(raised.value)
    assert "resampler: LOSSY" in message and "'one row'" in message
    # By hand on F1: token 2 is rejected with 2/3, so p's tokens get .2 + .4 p each: (.4, .32, .28).
    assert "at the start, token 0 comes with probability 2/5, not 1/2" in message
