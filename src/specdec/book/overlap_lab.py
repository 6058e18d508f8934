"""The overlap lab: two laws to move, and what acceptance and correction make of them, in exact numbers."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from specdec import law
from specdec.book.lab import Lab
from specdec.book.tables import table

SYMBOLS = "ABCDEF"

CORRECTIONS: dict[str, Callable[[law.Array, law.Array], law.Array]] = {
    "residual": law.residual,
    "p": lambda p, q: p,
    "argmax": lambda p, q: law.to_law(law.TopK(1)(p, ())),
    "p - q": law.positive_part,
}
"""What replaces a rejected proposal, from p and q. The first is right; the last is not even a law."""


def weights(name: str, text: str) -> law.Array:
    """The law of 2 to 6 symbols whose weights a text lists, such as ``6,3,1``; ``ValueError`` says what is wrong with it."""
    parts = [part.strip() for part in text.split(",")]
    if not 2 <= len(parts) <= len(SYMBOLS):
        raise ValueError(f"{name} has {len(parts)} weights: give 2 to 6, such as 6,3,1")
    for symbol, part in zip(SYMBOLS, parts, strict=False):
        if not (part.isascii() and part.isdigit()) or int(part) > 999:
            raise ValueError(f"the weight of {symbol} in {name} is {part or 'empty'}: give a whole number from 0 to 999")
    if not any(map(int, parts)):
        raise ValueError(f"{name} has no weight above 0: give one symbol at least 1")
    return law.normalise(law.exact(list(map(int, parts))))


def solved(setting: dict[str, str]) -> dict[str, Any]:
    """What the lab shows of a setting: arrays of Fractions by name, ``alpha``, and ``wrong``, the output's distance from p.

    Without a rejection ``residual`` is None.
    """
    p, q, correction = weights("p", setting["p"]), weights("q", setting["q"]), setting["correction"]
    if len(p) != len(q):
        raise ValueError(f"p has {len(p)} weights and q {len(q)}: give both the same number")
    if correction not in CORRECTIONS:
        raise ValueError(f"correction is {correction or 'empty'}: choose one of {', '.join(CORRECTIONS)}")
    accepted, alpha = np.minimum(p, q), law.overlap(p, q)
    corrected = (1 - alpha) * CORRECTIONS[correction](p, q) if alpha < 1 else 0 * p
    output = accepted + corrected
    return {
        "p": p, "q": q, "accepted": accepted, "rejected": law.positive_part(q, p), "refilled": law.positive_part(p, q),
        "residual": law.residual(p, q) if alpha < 1 else None, "output": output, "alpha": alpha,
        "wrong": abs(output - p).sum() * Fraction(1, 2),
    }  # fmt: skip


class OverlapLab(Lab):
    """The lab: ``OverlapLab(p=(5, 3, 2), q=(2, 2, 6))``, weights of 2 to 6 symbols; ``correction`` is a key of CORRECTIONS."""

    name = "overlap"
    modules = ("fractions.mjs", "overlap_rules.mjs", "overlap_lab.mjs")
    defaults: ClassVar = {"p": "6,3,1", "q": "2,3,5", "correction": "residual"}

    @classmethod
    def filled(cls, given: dict[str, Any]) -> dict[str, str]:
        """The defaults with what is given instead; what can't be computed is refused here."""
        setting = super().filled(given)
        solved(setting)
        return setting

    def static(self) -> Any:
        """What stands on a page without JavaScript: this pair, bar by bar."""
        found = solved(self.setting)
        columns = ("p", "q", "accepted", "rejected", "refilled", "residual", "output")
        values = {name: ["none"] * len(found["p"]) if found[name] is None else found[name] for name in columns}
        rows = [[SYMBOLS[i], *(values[name][i] for name in columns)] for i in range(len(found["p"]))]
        ends = "the output is p" if not found["wrong"] else f"the output is {found['wrong']} away from p"
        return table(["", *columns], rows, f"α = {found['alpha']}, and {ends}.")
