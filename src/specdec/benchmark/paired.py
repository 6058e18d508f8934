"""Paired timing: every turn runs all arms once, in alternating order, and a speedup is the median of a turn's ratios."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

Arm = Callable[[int], int]
"""Does one text, told the number of the turn, and returns how many tokens it committed."""


@dataclass(frozen=True)
class Paired:
    """Seconds per committed token (turns,) of each arm, and of the baseline's runs beside it, if there were such."""

    seconds: dict[str, np.ndarray]
    beside: dict[str, np.ndarray] = field(default_factory=dict)

    def median(self, arm: str) -> float:
        """Median seconds per committed token."""
        return float(np.median(self.seconds[arm]))

    def speedup(self, arm: str, baseline: str) -> dict[str, float]:
        """How many times as fast as the baseline: median and quartiles of the turns' ratios."""
        ratios = self.beside.get(arm, self.seconds[baseline]) / self.seconds[arm]
        low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        return {"median": float(median), "low": float(low), "high": float(high), "turns": len(ratios)}


def run(
    arms: Mapping[str, Arm], turns: int, baseline: str | None = None, between: Callable[[], None] = lambda: None
) -> Paired:
    """Time ``turns`` turns of all arms; two turns more at the beginning warm up and do not count.

    With a ``baseline`` each other arm has a run of it at its side, before and after in turn: on a machine whose speed changes
    from second to second only neighbours can be compared. ``between`` is called, untimed, before every fourth turn.
    """
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    beside: dict[str, list[float]] = {name: [] for name in arms if baseline and name != baseline}

    def timed(name: str, turn: int) -> float:
        begin = time.perf_counter()
        tokens = arms[name](max(turn, 0))
        return (time.perf_counter() - begin) / tokens

    for turn in range(-2, turns):
        if turn % 4 == 0:
            between()
        for name in list(arms) if turn % 2 else reversed(list(arms)):
            if name in beside and turn % 2:
                beside[name].append(timed(str(baseline), turn))
            seconds[name].append(timed(name, turn))
            if name in beside and not turn % 2:
                beside[name].append(timed(str(baseline), turn))
    return Paired(*({name: np.array(times[2:]) for name, times in each.items()} for each in (seconds, beside)))
