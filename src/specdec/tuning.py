"""γ from measurements at start-up, and γ that adapts while decoding: both look only at what is already verified."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from specdec.accounting import best_gamma, speedup
from specdec.chance import Chance, Random
from specdec.decoding import Speculative, State, Stop, generate
from specdec.verification import strict

REPEATS, WARM = 15, 4
"""Turns a figure, whose median counts; calls a turn, whose last one counts."""


@dataclass(frozen=True)
class Costs:
    """Median seconds on this machine: of target passes with their laws by number of rows, and of one draft step."""

    passes: dict[int, float]
    draft_step: float

    @property
    def c(self) -> float:
        """A draft step in target steps."""
        return self.draft_step / self.passes[1]

    def v(self, rows: int) -> float:
        """A pass over ``rows`` positions in target steps."""
        return self.passes[rows] / self.passes[1]

    def predicted(self, alpha: float, gamma: int) -> float:
        """The speedup E[K] / (γc + v(γ+1)) that ``accounting.speedup`` gives for these costs."""
        return float(speedup(alpha, gamma, self.c, self.v(gamma + 1)))

    def best_gamma(self, alpha: float) -> tuple[int, float]:
        """The γ of highest predicted throughput among the measured ones, and its predicted speedup."""
        rows = max(self.passes)
        if sorted(self.passes) != list(range(1, rows + 1)):
            raise ValueError(f"passes over {sorted(self.passes)} rows are measured: the best gamma needs every number from 1 on")
        gamma, rate = best_gamma(alpha, draft_step=self.draft_step, verify=lambda g: self.passes[g + 1], largest=rows - 1)
        return gamma, float(rate * self.passes[1])


def measure(decoder: Speculative, prompt: Sequence[int], rows: Sequence[int], repeats: int = REPEATS) -> Costs:
    """Time target passes over each number of ``rows`` after ``prompt``, and as many draft steps as the largest round has.

    They are timed as ``median_seconds`` does.
    """
    if not rows or min(rows) < 1 or repeats < 1:
        raise ValueError(f"rows {list(rows)} and {repeats} repeats: give numbers of at least 1")
    state, chance = decoder.start(prompt), Random(0)
    for name, model in decoder.models.items():
        if len(state.tokens) > 1:
            model.append(state.caches[name], state.tokens[:-1])
    steps = max(1, *rows) - 1 or 1

    def target_pass(number: int) -> int:
        fed = state.tokens[-1:] * number  # which tokens does not matter to the time
        scores = decoder.target.append(state.caches["target"], fed)
        decoder.transforms.laws(scores, state.tokens[1:], fed[1:])
        decoder.target.rewind(state.caches["target"], len(state.tokens) - 1)
        return 1

    def draft_steps() -> int:
        made = len(decoder.propose(state, steps, chance)[0])
        decoder.draft.rewind(state.caches["draft"], min(len(state.caches["draft"]), len(state.tokens) - 1))
        return max(1, made)

    calls: dict[Any, Callable[[], int]] = {number: partial(target_pass, number) for number in sorted({1, *rows})}
    calls["draft"] = draft_steps
    medians = median_seconds(calls, repeats)
    return Costs({name: value for name, value in medians.items() if name != "draft"}, medians["draft"])


def median_seconds(calls: Mapping[Any, Callable[[], int]], repeats: int) -> dict[Any, float]:
    """Median seconds of each call, divided by the number of units that it says it did.

    The calls take turns in an order of chance, so that a slow moment of the machine falls on all of them alike; of WARM calls
    in a row the last counts, as in a text, where a pass finds the processor as passes of its kind left it. The first turn does
    not count.
    """
    seconds: dict[Any, list[float]] = {name: [] for name in calls}
    order, shuffler = list(calls), random.Random(0)
    for _ in range(repeats + 1):
        shuffler.shuffle(order)
        for name in order:
            for _ in range(WARM):
                begin = time.perf_counter()
                units = calls[name]()
                took = (time.perf_counter() - begin) / units
            seconds[name].append(took)
    return {name: median(times[1:]) for name, times in seconds.items()}


def pilot_alpha(decoder: Speculative, prompt: Sequence[int], chance: Chance, length: int = 128) -> float:
    """The share of verified proposals that strict verification accepts in ``length`` tokens after ``prompt``, at γ = 4."""
    pilot = replace(decoder, gamma=4, verify=strict.verify, stop=Stop(length=length))
    accepted, verified = generate(pilot, prompt, chance).ledger.acceptance()
    if not verified:
        raise ValueError("the draft proposed nothing in the pilot: there is no acceptance to choose gamma by")
    return accepted / verified


def tuned(decoder: Speculative, prompt: Sequence[int], chance: Chance, largest: int = 12) -> Speculative:
    """The decoder with the γ up to ``largest`` that the formula prefers, given costs and alpha measured here and now."""
    costs = measure(decoder, prompt, range(1, largest + 2))
    return replace(decoder, gamma=costs.best_gamma(pilot_alpha(decoder, prompt, chance))[0])


@dataclass(frozen=True)
class Adaptive:
    """The next round's γ from the last round: ``up`` more if all was accepted, one fewer if not, from ``least`` to ``most``.

    It looks at rounds that are over and never at the proposals that it is the number of, so the law stays the target's. Hugging
    Face's heuristic schedule moves the same way with ``up`` = 2, without a ceiling. γ counts what was really proposed.
    """

    first: int = 4
    least: int = 1
    most: int = 12
    up: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.first <= self.most or self.up < 1:
            raise ValueError(f"{self}: need 1 <= least <= first <= most, and up of at least 1")

    def __call__(self, state: State) -> int:
        """γ after the rounds of ``state.history``."""
        rounds = (entry for entry in reversed(state.history) if entry[0])  # where nothing was proposed nothing was learnt
        gamma, accepted = next(rounds, (0, 0))
        if gamma == 0:
            return self.first
        return min(self.most, max(self.least, gamma + self.up if accepted == gamma else gamma - 1))
