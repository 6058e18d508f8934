"""What a tier found, what all tiers together say of a sampler, and how that is shown: as text, in a terminal, as HTML."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text


class Verdict(StrEnum):
    """What was shown. The order is that of gravity: a report's verdict is the gravest of its findings."""

    PROVED = "PROVED"
    """For all laws of a size."""
    LOSSLESS = "LOSSLESS on the catalogue"
    """Exact, in every situation that was tried."""
    NOT_REFUTED = "NOT REFUTED"
    """Nothing found against it, by samples up to a stated distance, or by scripted uniforms up to a stated width."""
    AGREES = "AGREES"
    """Caches or counts are as they should be. Of the text's law this says nothing."""
    MISREPORTED = "MISREPORTED"
    """Right law, wrong counts."""
    INEFFICIENT = "INEFFICIENT"
    """Right law, fewer accepted than by the rule that the sampler declares."""
    LOSSY = "LOSSY"
    """Another law than the target's."""
    BROKEN = "BROKEN"
    """No law at all: it raised, did not end, or returned what is no text."""


ACCUSED = (Verdict.MISREPORTED, Verdict.INEFFICIENT, Verdict.LOSSY, Verdict.BROKEN)
TIERS = ("all laws", "exact", "scripted", "black-box", "state", "accounting")
NAMED = 6
"""So many situations are named in a line, and the others counted."""


@dataclass(frozen=True)
class Witness:
    """The shortest path on which two laws differ: after ``path``, ``token`` has ``found`` where ``expected`` is due.

    Probabilities are conditional on the path; ``weight`` is the path's own probability under the target.
    """

    path: tuple[Any, ...]
    token: Any
    expected: Any
    found: Any
    weight: Any = 1


@dataclass(frozen=True)
class Finding:
    """One tier's result in one situation: what it says in one or two sentences, and the evidence.

    ``law`` is the law of the texts that was found, {outcome: probability}, and ``distance`` its total variation from the
    right one, where the tier knows them.
    """

    tier: str
    where: str
    verdict: Verdict
    says: str
    witness: Witness | None = None
    distance: Any = None
    seconds: float = 0.0
    law: dict[Any, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def accused(self) -> bool:
        """Whether it speaks against the sampler."""
        return self.verdict in ACCUSED

    @property
    def line(self) -> str:
        """The finding in one line: verdict, place, tier, and what it says."""
        return f"{self.verdict} in {self.where!r}, {self.tier}: {self.says}"


def listed(names: Sequence[str]) -> str:
    """Names in one line; of many the first ones and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


@dataclass(frozen=True, repr=False)
class Report:
    """All findings on one sampler; the tiers that could not be reached, each with the reason; and so the situations.

    ``tolerance`` is the sampler's own: the total variation up to which laws were taken for the same. ``bounds`` says how large
    the situations are, in words.
    """

    sampler: str
    declares: str | None
    findings: Sequence[Finding]
    skipped: dict[str, str] = field(default_factory=dict)
    unjudged: dict[str, str] = field(default_factory=dict)
    tolerance: float = 0.0
    bounds: str = ""

    @property
    def accusations(self) -> list[Finding]:
        """The findings against the sampler, gravest first."""
        order = list(Verdict)
        return sorted((f for f in self.findings if f.accused), key=lambda f: -order.index(f.verdict))

    @property
    def verdict(self) -> Verdict | None:
        """The gravest of the accusations; without any the strongest that was shown; None if no tier was reached.

        Where a situation could not be judged, it is not LOSSLESS on the catalogue.
        """
        if self.accusations:
            return self.accusations[0].verdict
        strongest = min((finding.verdict for finding in self.findings), key=list(Verdict).index, default=None)
        return Verdict.NOT_REFUTED if strongest is Verdict.LOSSLESS and self.unjudged else strongest

    @property
    def title(self) -> str:
        """The sampler and the verdict, in one line: a proof with its sizes, and what was left unjudged by name."""
        said = str(self.verdict or "nothing shown, no tier could be reached")
        if self.verdict is Verdict.PROVED:
            sizes = [f"({finding.where})" for finding in self.findings if finding.verdict is Verdict.PROVED]
            also = f"; {Verdict.LOSSLESS}" if any(finding.verdict is Verdict.LOSSLESS for finding in self.findings) else ""
            said = f"{Verdict.PROVED} for all laws of {', '.join(sizes)}{also}"
        left = f"; not judged exactly: {listed(list(self.unjudged))}" if self.unjudged else ""
        return f"{self.sampler}: {said}{left}"

    @property
    def scope(self) -> str:
        """What the comparison was good for: the tolerance and the bounds of the situations."""
        if not any(finding.tier == "exact" for finding in self.findings):
            return ""
        slack = f"up to a total variation of {self.tolerance:g}, the sampler's own tolerance" if self.tolerance else "exactly"
        return f"Laws were compared {slack}.{' ' if self.bounds else ''}{self.bounds}"

    def by_tier(self) -> Iterator[tuple[str, str, str]]:
        """One row a tier: its name, its verdict, and what it says: the gravest finding, or why it was not reached."""
        for tier in TIERS:
            findings = [finding for finding in self.findings if finding.tier == tier]
            accusations = [finding for finding in self.accusations if finding.tier == tier]
            if accusations:
                more = f" ({len(accusations)} of {len(findings)} situations)" if len(findings) > 1 else ""
                yield tier, accusations[0].verdict, f"{accusations[0].where}: {accusations[0].says}{more}"
            elif findings:
                places = ", ".join(f"({f.where})" for f in findings) if tier == "all laws" else f"{len(findings)} situations"
                says = findings[0].says if len(findings) == 1 else f"nothing against it in {places}"
                yield tier, findings[0].verdict, says + self._limits(tier)
            else:
                yield tier, "not run", self.skipped.get(tier) or self._limits(tier)

    def _limits(self, tier: str) -> str:
        """What a tier did not look at, and why."""
        seen = [finding.where for finding in self.findings if finding.tier == tier]
        unseen = [f.where for f in self.accusations if f.tier == "exact" and f.where not in seen]
        if tier == "exact":
            reasons = dict.fromkeys(self.unjudged.values())
            left = {reason: [name for name, why in self.unjudged.items() if why == reason] for reason in reasons}
            alone = f"; {self.skipped['batches']}" if "batches" in self.skipped else ""
            return "".join(f"; not judged in {len(n)} ({listed(n)}): {why}" for why, n in left.items()) + alone
        if tier == "all laws" and tier in self.skipped:
            return f"; no answer at another size: {self.skipped[tier]}"
        if tier == "scripted" and seen:
            return "; a cell of its uniforms that ends at no threshold and is narrower than 1/16 may be missed"
        if tier in ("state", "accounting") and unseen:
            why = "the law is wrong: counts of a wrong law tell nothing" if tier == "accounting" else "no text came out"
            return f"; not looked at in {len(unseen)}, where {why}" if seen else why
        return ""

    def __rich__(self) -> Group:
        """For rich's ``print``: the tiers as a table, then every accusation."""
        table = Table("tier", "verdict", "what it says", title=self.title, title_justify="left")
        for tier, verdict, says in self.by_tier():
            style = "bold red" if verdict in ACCUSED else "green" if verdict in list(Verdict) else "dim"
            table.add_row(tier, Text(verdict, style), Text(says))
        return Group(table, *(Text(line) for line in (self.scope, *(finding.line for finding in self.accusations)) if line))

    def __str__(self) -> str:
        """The same as plain text, 130 columns wide."""
        out = io.StringIO()
        Console(file=out, width=130, no_color=True, force_jupyter=False, force_terminal=False).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same for a notebook: a table with a caption, in a region that scrolls, and a list of the accusations."""
        head = "".join(f'<th scope="col">{name}</th>' for name in ("tier", "verdict", "what it says"))
        body = "".join(
            f'<tr><th scope="row">{tier}</th><td>{escape(verdict)}</td><td>{escape(says)}</td></tr>'
            for tier, verdict, says in self.by_tier()
        )
        against = "".join(f"<li>{escape(finding.line)}</li>" for finding in self.accusations)
        region = f'<div class="result-table" role="region" aria-label="{escape(self.title)}" tabindex="0">'
        caption = f"<caption>{escape(self.title)}</caption>"
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        scope = f"<p>{escape(self.scope)}</p>" if self.scope else ""
        return f"{region}{table}</div>{scope}" + (f"<ul>{against}</ul>" if against else "")

    def as_page(self) -> str:
        """The HTML form as a page of its own."""
        style = "table{border-collapse:collapse}th,td{border:1px solid;padding:.3em .6em;text-align:left;vertical-align:top}"
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title><style>{style}</style>'
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{self._repr_html_()}</body></html>\n'
