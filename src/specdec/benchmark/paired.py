"""Paired timing: every turn runs all arms once, in alternating order, and a speedup is the median of a turn's ratios."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Arm = Callable[[int], int]
"""Does one text, told the number of the turn, and returns how many tokens it committed."""


@dataclass(frozen=True)
class Paired:
    """Seconds per committed token (turns,) of each arm."""

    seconds: dict[str, np.ndarray]

    def median(self, arm: str) -> float:
        """Median seconds per committed token."""
        return float(np.median(self.seconds[arm]))

    def speedup(self, arm: str, baseline: str) -> dict[str, float]:
        """How many times as fast as the baseline: median and quartiles of the turns' ratios."""
        ratios = self.seconds[baseline] / self.seconds[arm]
        low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        return {"median": float(median), "low": float(low), "high": float(high), "turns": len(ratios)}


def run(arms: Mapping[str, Arm], turns: int) -> Paired:
    """Time ``turns`` turns of all arms; two turns more at the beginning warm up and do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(-2, turns):
        for name in list(arms) if turn % 2 else reversed(list(arms)):
            begin = time.perf_counter()
            tokens = arms[name](max(turn, 0))
            seconds[name].append((time.perf_counter() - begin) / tokens)
    return Paired({name: np.array(times[2:]) for name, times in seconds.items()})
