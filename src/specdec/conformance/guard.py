"""Other people's code under test: what it raises becomes a finding with its input, and what never ends is ended."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from specdec.chance import ReplayError

DECISIONS = 200
"""More in one round is no round: it never ends."""
BRANCHES, PATIENCE = 50_000, 30
"""More branches of one round, or of one batch of texts, are not enumerated, nor those that take more seconds of this thread."""
SECONDS = 60
"""Code that has not come back after so long never will."""


class BrokenError(Exception):
    """The sampler raised, did not end, or returned what is no text. The message names the fault and its input."""


class OutOfReachError(Exception):
    """The tier can't judge this sampler here; the message says why."""


class _Rang(BaseException):
    """The time limit. Not an ``Exception``: code under test that catches those, and goes on, would swallow it."""


def described(error: BaseException) -> str:
    """An exception in one line, the same on every Python: what a ``Fraction`` says of a division by zero is not."""
    by_zero = isinstance(error, ZeroDivisionError) and str(error).startswith("Fraction(")
    return f"{type(error).__name__}: {'division by zero' if by_zero else error}".splitlines()[0]


@contextmanager
def blamed(input_: Callable[[], str] = str, what: str = "it") -> Iterator[None]:
    """Turn whatever the code inside raises, but Ctrl-C, into ``BrokenError`` with its input; the kit's own errors pass.

    A program that can't be run twice alike is ``OutOfReachError``: it may be right, and only can't be enumerated.
    """
    try:
        yield
    except (BrokenError, OutOfReachError, KeyboardInterrupt, _Rang):
        raise
    except ReplayError as error:
        remedy = "keep what changes in the state that step returns, or adapt it with black_box()"
        raise OutOfReachError(f"it can't be replayed, since it remembers something from run to run: {remedy}") from error
    except BaseException as error:
        known = input_()
        raise BrokenError(f"{what} raised {described(error)}{known and '; '}{known}") from error


class Branches:
    """Counts the runs of an enumeration: one that has too many, or takes too long over them, is given up."""

    def __init__(self) -> None:
        self._runs, self._began, self._worked = 0, time.perf_counter(), time.thread_time()

    def next(self) -> None:
        """One more run. ``OutOfReachError`` if that is one too many."""
        self._runs += 1
        late = time.perf_counter() - self._began > PATIENCE  # asked first: a thread's time costs a call of the system
        if self._runs > BRANCHES or (late and time.thread_time() - self._worked > PATIENCE):
            raise OutOfReachError(f"not enumerated: more than {self._runs - 1:,} branches")


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise ``BrokenError`` if the code inside takes more than SECONDS. Without effect off the main thread and on Windows.

    An alarm that was set before, such as a test runner's, goes on afterwards, less the time that has passed; one that is due
    sooner shortens the limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Rang

    outer, interval = signal.getitimer(signal.ITIMER_REAL)
    limit, began = min(SECONDS, outer or SECONDS), time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    except _Rang:
        raise BrokenError(f"it did not end within {limit:.3g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            left = outer - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), interval)
