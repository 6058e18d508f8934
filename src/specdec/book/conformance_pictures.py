"""Tables for the lab on conformance: mutants by the tiers that catch them, and the kill matrix."""

from collections import defaultdict
from collections.abc import Sequence

from specdec.book.tables import ResultTable, table
from specdec.conformance.matrix import CLASSIC, Line

TIERS = ("exact", "scripted", "black-box", "state", "accounting")
"""The tiers that a build runs. Proofs for all laws need an extra and minutes."""

CAUGHT, NOT = "✗ caught", "–"


def by_evidence(lines: Sequence[Line], caption: str) -> ResultTable:
    """One row for each set of tiers: how many mutants exactly these catch, how many of them pass all classic tests, and one."""
    groups: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[tuple(tier for tier in TIERS if tier in line.caught)].append(line)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows = [
        [", ".join(tiers), len(group), len(unseen := [line for line in group if not line.failed]), (unseen or group)[0].name]
        for tiers, group in ordered
    ]
    return table(["caught by", "mutants", "missed by classic tests", "for example"], rows, caption)


def kill_matrix(lines: Sequence[Line], caption: str) -> ResultTable:
    """A row for each mutant: the situation, then for each tier and each classic test whether it caught it."""
    rows = [
        [
            line.name,
            line.situation,
            *(CAUGHT if tier in line.caught else NOT for tier in TIERS),
            *(CAUGHT if test in line.failed else NOT for test in CLASSIC),
        ]
        for line in lines
    ]
    return table(["mutant", "in situation", *TIERS, *(f"{test} (classic)" for test in CLASSIC)], rows, caption)
