"""Tier 5: what a sampler says of itself. Proposed, accepted, emitted, committed: against what was seen, and what is due."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specdec.conformance.samplers import RULES, CheckedRule, Sampler, speculative
from specdec.conformance.situations import Situation
from specdec.conformance.verdicts import Finding, Verdict
from specdec.conformance.walk import Counts, Walk, walk


@dataclass(frozen=True)
class Means:
    """Expected counts of a whole text. ``verified[i]`` and ``accepted_at[i]`` are the rounds that get so far at position i."""

    rounds: Any
    proposed: Any
    accepted: Any
    emitted: Any
    committed: Any
    verified: tuple[Any, ...]
    accepted_at: tuple[Any, ...]

    @property
    def conditional(self) -> list[Any]:
        """P(accepted at i | verified at i), the acceptance of a proposal that the target has looked at."""
        return [a / v if v else None for a, v in zip(self.accepted_at, self.verified, strict=True)]

    @property
    def joint(self) -> list[Any]:
        """P(accepted at i), over all rounds: what a plot of "acceptance by position" usually shows."""
        return [a / self.rounds for a in self.accepted_at]


def means(walked: Walk) -> Means:
    """The expectations of a walk's counts, as they are reported."""
    weighted = [(walked.visits[name] * p, m.counts) for name, out in walked.passages.items() for m, p in out.items()]
    longest = max((counts.proposed for _, counts in weighted), default=0)

    def total(value: Callable[[Counts], int]) -> Any:
        return sum(weight * value(counts) for weight, counts in weighted)

    return Means(
        rounds=total(lambda c: 1),
        proposed=total(lambda c: c.proposed),
        accepted=total(lambda c: c.accepted),
        emitted=total(lambda c: c.emitted),
        committed=total(lambda c: c.committed),
        verified=tuple(total(lambda c, i=i: c.proposed > i and c.accepted >= i) for i in range(longest)),  # type: ignore[misc]
        accepted_at=tuple(total(lambda c, i=i: c.accepted > i) for i in range(longest)),  # type: ignore[misc]
    )


_due: dict[tuple[str, int], tuple[Situation, Means]] = {}


def due(rule: str, situation: Situation) -> Means:
    """What the declared rule's own decoder counts in a situation."""
    key = rule, id(situation)  # transforms need not be hashable; the situation is kept, so its id is not given away
    if key not in _due:
        _due[key] = situation, means(walk(speculative(situation, verify=RULES[rule]), situation))
    return _due[key][1]


def check(sampler: Sampler, walked: Walk, situation: Situation) -> Finding:
    """Every round's claim against the text, then the expected counts against those of the declared rule.

    A wrong claim is MISREPORTED. More rounds for a text than the rule needs with the same γ is INEFFICIENT, whatever is
    reported; more accepted than by the rule, in as many rounds, is MISREPORTED. A sampler that chooses γ itself is not compared.
    """
    rule = getattr(walked.decoder, "verify", None)
    misreport = _misreport(walked) or (rule.false_claim if isinstance(rule, CheckedRule) else "")
    if misreport:
        return Finding("accounting", situation.name, Verdict.MISREPORTED, misreport)
    ours, declared = means(walked), sampler.declares
    says = f"{_short(ours.accepted)} accepted of {_short(ours.proposed)} proposed in {_short(ours.rounds)} rounds a text"
    if declared is None:
        return Finding("accounting", situation.name, Verdict.AGREES, says + "; nothing declared, so nothing to compare with")
    if not _asked_gammas(walked, situation):
        says += f"; it proposes other numbers than the situation asks for, so {declared} is not compared"
        return Finding("accounting", situation.name, Verdict.AGREES, says)
    theirs = due(declared, situation)
    slack = sampler.tolerance * float(theirs.rounds + theirs.proposed)
    if ours.rounds - theirs.rounds > slack:
        acceptance = f"{_short(ours.accepted)} of {_short(ours.proposed)} proposals are accepted"
        rival = f"{declared} accepts {_short(theirs.accepted)} of {_short(theirs.proposed)}"
        says = f"{_short(ours.rounds)} rounds a text where {_short(theirs.rounds)} would do: {acceptance}, {rival}"
        return Finding("accounting", situation.name, Verdict.INEFFICIENT, says)
    if abs(ours.rounds - theirs.rounds) <= slack and ours.accepted - theirs.accepted > slack:
        says = f"it reports {_short(ours.accepted)} accepted a text in as many rounds as {declared}, which accepts"
        return Finding("accounting", situation.name, Verdict.MISREPORTED, f"{says} {_short(theirs.accepted)}")
    return Finding("accounting", situation.name, Verdict.AGREES, f"{says}, no fewer than {declared} accepts")


def _asked_gammas(walked: Walk, situation: Situation) -> bool:
    """Whether every round proposes as many tokens as the situation and the cap ask for."""
    asked = speculative(situation).round_gamma
    return all(
        passage.counts.proposed == asked(walked.states[name]) for name, out in walked.passages.items() for passage in out
    )


def _misreport(walked: Walk) -> str | None:
    """The first claim, by the length of the text, that the text itself or another claim refutes."""
    for name, out in sorted(walked.passages.items(), key=lambda item: walked.states[item[0]].length):
        for (counts, gained, _), probability in out.items():
            fault = _contradiction(counts, gained)
            if fault:
                return f"after {walked.states[name].generated}, with probability {_short(probability)}: {fault}"
    return None


def _contradiction(counts: Counts, gained: int) -> str | None:
    verified = min(counts.accepted + 1, counts.proposed)
    if counts.committed != gained:
        return f"{counts.committed} committed are reported, and the text gained {gained}"
    if counts.emitted < counts.committed:
        return f"{counts.emitted} emitted are reported, fewer than the {counts.committed} committed"
    if not 0 <= counts.accepted <= min(counts.proposed, counts.emitted) or counts.accepted < counts.emitted - 1:
        return f"{counts.accepted} accepted of {counts.proposed} proposed and {counts.emitted} emitted can't all be right"
    if counts.acceptance != (counts.accepted, verified):
        said, right = (f"{a} of {v}" for a, v in (counts.acceptance, (counts.accepted, verified)))
        return f"the acceptance is given as {said}; accepted of verified is {right}"
    return None


def _short(value: Any) -> str:
    return f"{float(value):.4g}"
