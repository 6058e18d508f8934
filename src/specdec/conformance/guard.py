"""Other people's code under test: what it raises becomes a finding with its input, and what never ends is ended."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from specdec.chance import Chance, Weights
from specdec.law import Array

DECISIONS = 200
"""More in one round is no round: it never ends."""
BRANCHES, PATIENCE = 50_000, 30
"""More branches of one round, or of one batch of texts, are not enumerated, nor those that take more seconds."""
SECONDS = 60
"""Code that has not come back after so long never will."""


class BrokenError(Exception):
    """The sampler raised, did not end, or returned what is no text. The message names the fault and its input."""


class OutOfReachError(Exception):
    """The tier can't judge this sampler here; the message says why."""


class Branches:
    """Counts the runs of an enumeration: one that has too many, or takes too long over them, is given up."""

    def __init__(self) -> None:
        self._runs, self._began = 0, time.perf_counter()

    def next(self) -> None:
        """One more run. ``OutOfReachError`` if that is one too many."""
        self._runs += 1
        if self._runs > BRANCHES or time.perf_counter() - self._began > PATIENCE:
            raise OutOfReachError(f"not enumerated: more than {self._runs - 1:,} branches")


class Limited:
    """Passes decisions on and counts them: a run that asks for too many raises ``BrokenError``."""

    def __init__(self, chance: Chance) -> None:
        self._chance, self._asked = chance, 0

    def _count(self) -> None:
        self._asked += 1
        if self._asked > DECISIONS:
            raise BrokenError(f"it never ends: more than {DECISIONS} random decisions in one round")

    def uniform(self, purpose: str) -> Any:
        """The inner chance's uniform."""
        self._count()
        return self._chance.uniform(purpose)

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        """The inner chance's decision."""
        self._count()
        return self._chance.accept(probability, purpose, u=u)

    def draw(self, weights: Array | Weights, purpose: str, u: Any = None) -> int:
        """The inner chance's draw."""
        self._count()
        return self._chance.draw(weights, purpose, u=u)


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise ``BrokenError`` in the code inside after SECONDS. Without effect off the main thread and on Windows."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise BrokenError(f"it did not end within {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
