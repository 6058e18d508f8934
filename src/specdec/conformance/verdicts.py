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
    """By samples, up to a stated distance."""
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


@dataclass(frozen=True, repr=False)
class Report:
    """All findings on one sampler; the tiers that could not be reached, each with the reason; and so the situations."""

    sampler: str
    declares: str | None
    findings: Sequence[Finding]
    skipped: dict[str, str] = field(default_factory=dict)
    unjudged: dict[str, str] = field(default_factory=dict)

    @property
    def accusations(self) -> list[Finding]:
        """The findings against the sampler, gravest first."""
        order = list(Verdict)
        return sorted((f for f in self.findings if f.accused), key=lambda f: -order.index(f.verdict))

    @property
    def verdict(self) -> Verdict | None:
        """The gravest of the accusations; without any the strongest that was shown; None if no tier was reached."""
        if self.accusations:
            return self.accusations[0].verdict
        shown = [f.verdict for f in self.findings]
        strongest = min(shown, key=list(Verdict).index, default=None)
        exact = any(f.tier == "exact" for f in self.findings)
        return Verdict.NOT_REFUTED if strongest is Verdict.LOSSLESS and not exact else strongest

    @property
    def title(self) -> str:
        """The sampler and the verdict, in one line."""
        judged = sum(finding.tier == "exact" for finding in self.findings)
        left = f", {judged} of {judged + len(self.unjudged)} situations judged exactly" if self.unjudged else ""
        return f"{self.sampler}: {self.verdict or 'nothing shown, no tier could be reached'}{left}"

    def by_tier(self) -> Iterator[tuple[str, str, str]]:
        """One row a tier: its name, its verdict, and what it says: the gravest finding, or why it was not reached."""
        for tier in TIERS:
            findings = [finding for finding in self.findings if finding.tier == tier]
            accusations = [finding for finding in self.accusations if finding.tier == tier]
            if accusations:
                more = f" ({len(accusations)} of {len(findings)} situations)" if len(findings) > 1 else ""
                yield tier, accusations[0].verdict, f"{accusations[0].where}: {accusations[0].says}{more}"
            elif findings:
                says = findings[0].says if len(findings) == 1 else f"nothing against it in {len(findings)} situations"
                left = f"; not judged in {len(self.unjudged)}: {', '.join(self.unjudged)}" if tier == "exact" else ""
                yield tier, findings[0].verdict, says + (left if self.unjudged else "")
            else:
                yield tier, "not run", self.skipped.get(tier, "")

    def __rich__(self) -> Group:
        """For rich's ``print``: the tiers as a table, then every accusation."""
        table = Table("tier", "verdict", "what it says", title=self.title, title_justify="left")
        for tier, verdict, says in self.by_tier():
            style = "bold red" if verdict in ACCUSED else "green" if verdict in list(Verdict) else "dim"
            table.add_row(tier, Text(verdict, style), Text(says))
        return Group(table, *(Text(finding.line) for finding in self.accusations))

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
        listed = "".join(f"<li>{escape(finding.line)}</li>" for finding in self.accusations)
        region = f'<div class="result-table" role="region" aria-label="{escape(self.title)}" tabindex="0">'
        caption = f"<caption>{escape(self.title)}</caption>"
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{region}{table}</div>" + (f"<ul>{listed}</ul>" if listed else "")

    def as_page(self) -> str:
        """The HTML form as a page of its own."""
        style = "table{border-collapse:collapse}th,td{border:1px solid;padding:.3em .6em;text-align:left;vertical-align:top}"
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title><style>{style}</style>'
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{self._repr_html_()}</body></html>\n'
