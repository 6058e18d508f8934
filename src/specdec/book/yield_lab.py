"""The lab *yield and cost*: the law of the output count and what a round makes of it, at assumed costs, in the page.

The interface is ``yield_lab.mjs``, the formulas ``yield_rules.mjs``; they are ``specdec.accounting``'s once more, and exact too.
"""

import json
from fractions import Fraction
from typing import Any, ClassVar

from IPython.display import HTML

from specdec.accounting import best_gamma, break_even_alpha, expected_count
from specdec.book import lesson
from specdec.book.lab import Lab
from specdec.book.tables import table

LARGEST = 16
"""The largest γ that the lab takes and looks at."""


def scenarios() -> dict[str, dict[str, str]]:
    """Settings by name: the lesson's three, the book's break-even between them, and a draft that does not pay."""
    trace = lesson.load()
    ms = trace["assumed_ms"]
    first = {
        "alpha": _typed(trace["acceptance"]), "gamma": str(trace["gamma"]), "unit": "ms",
        "draft": _typed(Fraction(ms["draft_together"], trace["gamma"])), "verify": _typed(ms["verification"]), "growth": "0",
        "overhead": _typed(ms["overhead"]), "baseline": _typed(ms["baseline_token"]), "map": "gamma",
    }  # fmt: skip
    return {
        "6 ms verification": first,
        "The target alone": {**first, "gamma": "0"},
        "12 ms verification": {**first, "verify": _typed(ms["slower_verification"])},
        "Break-even": {**first, "verify": "8.76"},
        "No γ pays": {
            **first, "unit": "steps", "alpha": "0.3", "draft": "0.4", "verify": "1", "overhead": "0", "map": "draft",
        },
    }  # fmt: skip


def _typed(number: Any) -> str:
    """A number as a field holds it: a decimal if it is a short one, else a fraction."""
    exact = Fraction(number)
    return f"{float(exact):g}" if Fraction(f"{float(exact):g}") == exact else str(exact)


def round_time(setting: dict[str, str], gamma: int) -> dict[str, Fraction]:
    """A round's time by part, in the setting's unit. γ = 0 is the target alone: one pass over one position."""
    if gamma == 0:
        return {"draft": Fraction(0), "verify": step(setting), "overhead": Fraction(0)}
    draft, verify, growth, overhead = (Fraction(setting[key]) for key in ("draft", "verify", "growth", "overhead"))
    return {"draft": gamma * draft, "verify": verify + gamma * growth, "overhead": overhead}


def step(setting: dict[str, str]) -> Fraction:
    """A step of the target alone. In target steps it is 1, whatever the field holds."""
    return Fraction(1) if setting["unit"] == "steps" else Fraction(setting["baseline"])


class YieldLab(Lab):
    """The lab. Keyword arguments preset its fields, the keys of ``defaults``: ``YieldLab(alpha="0.8", gamma=4)``.

    Costs are texts such as ``0.6`` or ``3/5``, in the unit of ``unit``: ``ms``, or ``steps`` of the target alone. A pass over
    γ + 1 positions takes ``verify`` + γ ``growth``.
    """

    name: ClassVar[str] = "yield"
    modules: ClassVar[tuple[str, ...]] = ("fractions.mjs", "yield_rules.mjs", "yield_lab.mjs")
    defaults: ClassVar[dict[str, str]] = next(iter(scenarios().values()))

    @classmethod
    def facts(cls) -> str:
        """The named settings, as JSON text."""
        return json.dumps({"scenarios": list(scenarios().items())}, ensure_ascii=False)

    def static(self) -> Any:
        """What stands on a page without JavaScript: this setting as two bars, and the scenarios in milliseconds side by side."""
        from specdec.book.accounting_pictures import round_and_alone  # here: the site needs the modules alone, without Matplotlib

        setting, gamma = self.setting, int(self.setting["gamma"])
        count = expected_count(Fraction(setting["alpha"]), gamma)
        unit = "target steps" if setting["unit"] == "steps" else "ms"
        caption = (
            "The shorter bar wins: a round with its parts, and the target alone for as many tokens. "
            "Acceptance is assumed iid, times are assumed."
        )
        drawn = round_and_alone(round_time(setting, gamma), count, step(setting), unit, caption)
        header = ("scenario", "tokens a round", "round, ms", "tokens/s", "times the target alone", "pays from α", "best γ")
        rows = [_line(name, each) for name, each in scenarios().items() if each["unit"] == "ms"]
        told = table(header, rows, "Three scenarios of the lesson and the break-even, α = .6: derived from assumed times")
        return HTML(drawn._repr_mimebundle_()["text/html"] + told._repr_html_())


def _line(name: str, setting: dict[str, str]) -> list[Any]:
    """A scenario's numbers, in milliseconds and tokens a second."""
    alpha, gamma, baseline = Fraction(setting["alpha"]), int(setting["gamma"]), step(setting)
    parts = round_time(setting, gamma)
    count, length = expected_count(alpha, gamma), sum(parts.values())
    even = break_even_alpha(gamma, baseline=baseline, **parts) if gamma else None
    best, _ = best_gamma(
        alpha, draft_step=Fraction(setting["draft"]), verify=lambda g: round_time(setting, g)["verify"],
        overhead=Fraction(setting["overhead"]), largest=LARGEST,
    )  # fmt: skip
    speed = [float(1000 * count / length), float(count * baseline / length)]
    return [name, float(count), float(length), *speed, "" if even is None else float(even), best]
