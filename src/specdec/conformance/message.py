"""What ``assert_lossless`` says when it fails: what is wrong, on which laws, the likely cause, and how to see it again."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from specdec.conformance import scripted
from specdec.conformance.catalogue import BY_NAME
from specdec.conformance.causes import likely_causes
from specdec.conformance.exact import distance
from specdec.conformance.samplers import Sampler
from specdec.conformance.situations import Law, Request, Situation, Text, row_after
from specdec.conformance.specimens import MUTANTS
from specdec.conformance.verdicts import Finding, Report, Verdict

SHOWN = 3
"""So many accused situations are shown in full: the gravest, and of these the smallest."""

MEANING = {
    Verdict.BROKEN: "it raised, did not end, or returned what is no text",
    Verdict.LOSSY: "its text has another law than the target's",
    Verdict.INEFFICIENT: "its text is right, and fewer proposals are accepted than the declared rule accepts",
    Verdict.MISREPORTED: "its text is right, and what it reports of it is not",
}


def failure(sampler: Sampler, found: Report, situations: Sequence[Situation]) -> str:
    """The message for a report with accusations, or with nothing shown; the first line says what is wrong."""
    if not found.accusations:
        return str(found)
    places: dict[str, Situation] = {situation.name: situation for situation in situations}
    ordered = sorted(found.accusations, key=lambda finding: _order(finding, places))
    first, names = ordered[0], list(dict.fromkeys(finding.where for finding in ordered))
    lines = [f"{sampler.name} is {first.verdict}, {MEANING[first.verdict]}: in {first.where!r}, {first.says}", *_extent(found)]
    for number, name in enumerate(names[:SHOWN], 1):
        lines += ["", *_accused(number, [finding for finding in ordered if finding.where == name], places.get(name))]
    lines += ["", *_causes(sampler, ordered, places), "", "To see the first again, with `sampler` as in the test:", ""]
    lines += [f"    {line}" for line in snippet(first, places.get(first.where)).splitlines()]
    return "\n".join(lines)


def _order(finding: Finding, places: Mapping[str, Situation]) -> tuple[int, ...]:
    """The gravest first; then what asks for least, has the fewest texts and the smallest γ; and whole texts before rounds."""
    gravity = -list(Verdict).index(finding.verdict)
    if finding.where in places:
        place = places[finding.where]
        asked = [(r.prompt, r.transforms.steps, r.stop.tokens, place.draft_size) for r in place.requests]
        extras = sum(bool(extra) for extras in asked for extra in extras)
        return gravity, 0, len(place.requests), extras, len(place.law), max(place.gammas), finding.tier != "exact"
    rows = scripted.BY_NAME.get(finding.where)
    return (gravity, 1, rows.gamma, rows.target.vocab_size) if rows else (gravity, 2)


def _extent(found: Report) -> list[str]:
    """A line for each accusing tier: in how many situations, and in which not."""
    lines = []
    for tier in dict.fromkeys(finding.tier for finding in found.accusations):
        judged = [finding for finding in found.findings if finding.tier == tier]
        accused = dict.fromkeys(finding.where for finding in judged if finding.accused)
        passed = [name for name in dict.fromkeys(finding.where for finding in judged) if name not in accused]
        few, which = (passed, "; right in ") if len(passed) < len(accused) else (accused, ": ")
        named = which + ", ".join(map(repr, few)) if few else ""
        lines.append(f"{tier}: accused in {len(accused)} of {len(accused) + len(passed)} situations{named}")
    return lines


def _accused(number: int, findings: Sequence[Finding], situation: Situation | None) -> list[str]:
    """One situation: what it is for, what is asked for there, what each tier says, and the laws on the witness's path."""
    first = findings[0]
    shows = f": {situation.shows}" if situation and situation.shows else ""
    lines = [f"{number}. {first.verdict} in {first.where!r}{shows}"]
    request = _request(first, situation) if situation else None
    if situation and request:
        lines.append(f"   {_asked(situation, request)}")
    lines += [f"   {finding.tier}: {finding.says}" for finding in findings]
    gap = next((finding.distance for finding in findings if finding.distance), None)
    if gap is not None:
        lines.append(f"   total variation from the target's law: {_both(gap)}")
    path = next((finding.witness.path for finding in findings if finding.witness), None)
    if path is not None:
        lines += [f"   {line}" for line in _laws(first.where, situation, request, path)]
    return lines


def _request(finding: Finding, situation: Situation) -> Request:
    """The request whose text has another law: the first one, where that can't be told."""
    for row, request in enumerate(situation.requests):
        law: Law = {}
        for texts, weight in (finding.law or {}).items():
            law[texts[row]] = law.get(texts[row], 0) + weight
        if law and distance(law, situation.laws[row]) > 1e-9:
            return request
    return situation.requests[0]


def _asked(situation: Situation, request: Request) -> str:
    """Prompt, γ, transforms and stop rules in one line."""
    gammas = ", ".join(map(str, situation.gammas))
    steps = ", ".join(map(repr, request.transforms.steps)) or "none"
    stop = [f"at token {token}" for token in sorted(request.stop.tokens)]
    stop += [f"at {request.stop.length} tokens"] if request.stop.length else []
    ends = " or ".join(stop) or "never"
    return f"prompt {list(request.prompt)}, γ = {gammas}, transforms {steps}, stops {ends}, {situation.tokens} tokens compared"


def _laws(where: str, situation: Situation | None, request: Request | None, path: Sequence[Any]) -> list[str]:
    """The target's and the draft's law at every step of a path, as fractions; at most the last three steps."""
    lines = []
    for text in [tuple(path[:length]) for length in range(len(path) + 1)][-3:]:
        with suppress(ValueError):  # behind an impossible token there may be no law
            after = f"after {' '.join(map(str, text))}" if text else "at the start"
            p, q = (_law_after(where, situation, request, text, kind) for kind in ("target", "draft"))
            lines.append(f"{after}: target p = {_row(p)}, draft q = {_row(q)}")
    return lines


def _law_after(where: str, situation: Situation | None, request: Request | None, text: Text, kind: str) -> Any:
    if situation and request:
        return row_after(getattr(situation, kind), request.transforms, request.prompt + text)
    if where not in scripted.BY_NAME:
        raise ValueError(f"{where!r} has no rows")
    return getattr(scripted.BY_NAME[where], kind).law_after(text)


def _row(law: Any) -> str:
    return f"({', '.join(map(str, law))})"


def _both(gap: Any) -> str:
    """A distance as a fraction, where that is legible, and as a decimal."""
    decimal = f"{float(gap):.4g}"
    return f"{gap} = {decimal}" if len(str(gap)) <= 41 and "/" in str(gap) else decimal


def _causes(sampler: Sampler, ordered: Sequence[Finding], places: Mapping[str, Situation]) -> list[str]:
    """The mutants that are wrong in the same way, each with what its code does and where it was reported."""
    if ordered[0].verdict is Verdict.BROKEN:
        return ["Likely cause: what it raised or returned, with the input above."]
    alike = likely_causes(sampler, ordered, places)
    if not alike:
        return [f"Likely cause: not known. None of the kit's {len(MUTANTS)} mutants is wrong in just this way."]
    lines = ["Likely cause, since a mutant of the kit is wrong in just this way:"]
    for mutant in alike:
        seen = f" (seen in {', '.join(mutant.reports)})" if mutant.reports else ""
        lines.append(f"- {mutant.name}: {mutant.cause}{seen}")
    return lines


def snippet(finding: Finding, situation: Situation | None) -> str:
    """Lines that find it again and nothing else, for a reader who has ``sampler``, and ``situations`` of their own if any."""
    show = "print(*(finding.line for finding in found), sep='\\n')"
    if situation is not None and BY_NAME.get(situation.name) is situation:
        needs, place = "from specdec.conformance.catalogue import BY_NAME\n", f"BY_NAME[{situation.name!r}]"
    elif situation is not None:
        needs, place = "", f"next(s for s in situations if s.name == {situation.name!r})"
    elif finding.tier == "scripted":
        rows = f"scripted.BY_NAME[{finding.where!r}]"
        return f"from specdec.conformance import scripted\nfound = scripted.check_rule(sampler.verify, [{rows}])\n{show}"
    else:
        return "from specdec.conformance.check import report\nprint(report(sampler))"
    return f"{needs}from specdec.conformance.check import in_situation\nfound = in_situation(sampler, {place})\n{show}"
