"""Put a sampler through every tier that its adapter can reach, and report; or fail a test."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specdec.conformance import all_laws, blackbox, caches, counts, exact, guard, message, scripted
from specdec.conformance.catalogue import CATALOGUE, bounds
from specdec.conformance.guard import BrokenError, OutOfReachError, blamed, time_limit
from specdec.conformance.samplers import Sampler
from specdec.conformance.situations import Situation
from specdec.conformance.verdicts import Finding, Report, Verdict
from specdec.conformance.walk import walk
from specdec.verification import Verify


def report(sampler: Sampler, situations: Sequence[Situation] = CATALOGUE, *, prove: bool = False) -> Report:
    """Everything that can be found: one finding a tier and situation, and for each tier out of reach the reason.

    ``prove`` adds the proofs for all laws of small sizes, which take minutes and the extra ``proofs``. Nothing that the
    sampler does raises here.
    """
    skipped: dict[str, str] = {}
    unjudged: dict[str, str] = {}
    findings = list(_findings(sampler, situations, skipped, unjudged, prove))
    if unjudged and not any(finding.tier == "exact" for finding in findings):
        skipped["exact"] = next(iter(unjudged.values()))
    judged = {finding.where for finding in findings if finding.tier == "exact"}
    sizes = bounds([situation for situation in situations if situation.name in judged]) if judged else ""
    return Report(sampler.name, sampler.declares, findings, skipped, unjudged, sampler.tolerance, f"Situations: {sizes}.")


def assert_lossless(sampler: Sampler, situations: Sequence[Situation] = CATALOGUE) -> None:
    """Raise ``AssertionError`` if anything speaks against the sampler, with what to do about it (``message.failure``).

    A sampler that no tier can reach fails too, and one that can't be judged in a situation: nothing was shown of it there.
    """
    found = report(sampler, situations)
    if found.accusations or found.unjudged or found.verdict is None:
        raise AssertionError(message.failure(sampler, found, situations))


def _findings(
    sampler: Sampler, situations: Sequence[Situation], skipped: dict[str, str], unjudged: dict[str, str], prove: bool
) -> Iterator[Finding]:
    """All findings in turn; tiers out of reach are noted in ``skipped``, situations in ``unjudged``."""
    if sampler.verify is None:
        skipped["all laws"] = skipped["scripted"] = "it needs the rule of one round: adapt it with rule()"
    elif prove:
        yield from _proofs(sampler.verify, skipped)
    else:
        skipped["all laws"] = "takes minutes: ask for it with prove=True, or --prove on the command line"
    if sampler.make is None:
        skipped["state"] = skipped["accounting"] = "it needs the rounds of a decoder: adapt it with loop() or rule()"
    if sampler.make is not None and any(len(situation.requests) > 1 for situation in situations):
        skipped["batches"] = "it decodes one request at a time: adapt its batches with texts()"
        situations = [situation for situation in situations if len(situation.requests) == 1]
    for place, situation in enumerate(situations):
        try:
            found = in_situation(sampler, situation)
        except OutOfReachError as reason:
            unjudged[situation.name] = str(reason)
            continue
        yield from found
        if found[0].verdict is Verdict.BROKEN and found[0].seconds >= guard.SECONDS:  # the others would take as long
            unjudged |= {other.name: f"not tried, since {situation.name!r} did not end" for other in situations[place + 1 :]}
            return
    yield from on_scripts(sampler)
    if sampler.sample is not None and sampler.law is not None:
        yield blackbox.check(sampler.sample, sampler.law)
    else:
        skipped["black-box"] = "the law is compared exactly, which samples can't better; to sample all the same, use black_box()"


def in_situation(sampler: Sampler, situation: Situation) -> list[Finding]:
    """What the exact, state and accounting tiers find, with their time. What the sampler raises is a finding with its input.

    ``OutOfReachError`` where they can't judge it.
    """
    began = time.perf_counter()
    try:
        with time_limit(), blamed():
            found = _in_situation(sampler, situation)
    except BrokenError as fault:
        found = [Finding("exact", situation.name, Verdict.BROKEN, str(fault))]
    seconds = (time.perf_counter() - began) / len(found)
    return [replace(finding, seconds=seconds) for finding in found]


def _in_situation(sampler: Sampler, situation: Situation) -> list[Finding]:
    if sampler.texts is not None:
        return [exact.compare(exact.texts_law(sampler, situation), situation, sampler.tolerance)]
    if sampler.make is None:
        raise OutOfReachError("it needs a chance object or intercepted random calls: adapt it with rule(), loop() or texts()")
    if len(situation.requests) > 1:
        raise OutOfReachError("it decodes one request at a time: adapt its batches with texts()")
    with blamed(what="the adapter's make(situation)"):
        decoder = sampler.make(situation)
    walked = walk(decoder, situation, sampler.acceptance)
    law = exact.compare({(text,): weight for text, weight in walked.law.items()}, situation, sampler.tolerance)
    state = caches.check(walked, situation, sampler.tolerance)
    # the counts of a wrong law tell nothing
    return [law, state] if law.accused else [law, state, counts.check(sampler, walked, situation)]


def on_scripts(sampler: Sampler) -> Iterator[Finding]:
    """What the scripted tier finds: a rule's script of uniforms is its chance."""
    if sampler.verify is not None:
        yield from scripted.check_rule(sampler.verify)


def _proofs(verify: Verify, skipped: dict[str, str]) -> Iterator[Finding]:
    """The proofs that came to an end."""
    for proof in all_laws.prove_sizes(verify):
        if proof.finding is None:
            skipped["all laws"] = proof.says
        else:
            yield proof.finding

