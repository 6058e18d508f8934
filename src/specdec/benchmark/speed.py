"""Speculative against plain decoding on the shipped models: speedup, the share of the ideal, and where a round's time goes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from specdec.accounting import expected_count
from specdec.benchmark import paired
from specdec.chance import Random
from specdec.decoding import Autoregressive, Generation, Ledger, Speculative, Stop, generate
from specdec.law import Transforms
from specdec.models import LanguageModel
from specdec.models.text import BOOK_HELD_OUT, PRINTABLE, Vocabulary, book_docstrings, split
from specdec.tuning import Costs, measure
from specdec.verification import Verify, block, strict

RULES: dict[str, Verify] = {"strict": strict.verify, "block": block.verify}
PROMPT, LENGTH = 32, 192
"""Characters of a prompt, and committed tokens of a text: together they fit a window of 256 with γ up to 31."""


@cache
def prompts(number: int = 8) -> list[list[int]]:
    """Prompts of PROMPT tokens from the held-out text, spread evenly, each from the beginning of a line."""
    text = split(book_docstrings(), BOOK_HELD_OUT)[1]
    begins = [text.index("\n", place) + 1 for place in np.linspace(0, len(text) - 4096, number).astype(int)]
    return [Vocabulary(PRINTABLE).encode(text[begin : begin + PROMPT]) for begin in begins]


def plain_loop(target: LanguageModel, prompt: Sequence[int], length: int, generator: np.random.Generator) -> list[int]:
    """The fastest plain decoding that we know how to write: no ledger, no checks, no transforms. For the baseline only."""
    state = target.start()
    row = target.append(state, [target.start_token, *prompt])[-1]
    tokens: list[int] = []
    while True:
        row -= row.max()
        cumulative = np.exp(row, out=row).cumsum()
        tokens.append(int(cumulative.searchsorted(generator.random() * cumulative[-1], side="right")))
        if len(tokens) == length:
            return tokens
        row = target.append(state, tokens[-1:])[0]


def compare(
    target: LanguageModel, draft: LanguageModel, gammas: Sequence[int], turns: int, transforms: Transforms | None = None,
    rules: Sequence[str] = ("strict", "block"),
) -> dict[str, Any]:  # fmt: skip
    """Plain loop, ``Autoregressive`` and ``Speculative`` with each rule at each γ on the same prompts, LENGTH tokens a text."""
    transforms, starts = transforms or Transforms(), prompts()
    stop = Stop(length=LENGTH)
    decoder = Speculative(target, draft, max(gammas), transforms, stop)
    measured: list[Costs] = []
    texts: dict[str, list[Generation]] = {}

    def decoding(name: str, decoder: Autoregressive | Speculative) -> paired.Arm:
        texts[name] = []

        def arm(turn: int) -> int:
            made = generate(decoder, starts[turn % len(starts)], Random(turn))
            texts[name].append(made)
            return len(made.tokens)

        return arm

    def costs_now() -> None:
        """Measured among the turns, since the machine's speed drifts."""
        middle = starts[0] * (LENGTH // 2 // PROMPT + 1)  # as long as a text is on average
        measured.append(measure(decoder, middle, [1, *(gamma + 1 for gamma in gammas)], repeats=10))

    def plain(turn: int) -> int:
        return len(plain_loop(target, starts[turn % len(starts)], LENGTH, np.random.default_rng(turn)))

    arms: dict[str, paired.Arm] = {"autoregressive": decoding("autoregressive", Autoregressive(target, transforms, stop))}
    if not transforms.steps:  # the plain loop knows none
        arms = {"plain loop": plain, **arms}
    for rule in rules:
        for gamma in gammas:
            name = f"{rule} {gamma}"
            arms[name] = decoding(name, replace(decoder, gamma=gamma, verify=RULES[rule]))
    baseline = next(iter(arms))
    times = paired.run(arms, turns, baseline, costs_now)
    costs = Costs(
        {n: median(each.passes[n] for each in measured) for n in measured[0].passes},
        median(each.draft_step for each in measured),
    )
    return {
        "baseline": baseline,
        "microseconds_per_token": {name: times.median(name) * 1e6 for name in arms},
        "costs": {"pass_us": {str(n): t * 1e6 for n, t in costs.passes.items()}, "draft_step_us": costs.draft_step * 1e6},
        "rounds": [
            {"rule": rule, "gamma": gamma, "speedup": times.speedup(f"{rule} {gamma}", baseline),
             **account(texts[f"{rule} {gamma}"][2:], times.seconds[f"{rule} {gamma}"], gamma, costs)}
            for rule in rules for gamma in gammas
        ],
    }  # fmt: skip


def account(texts: Sequence[Generation], per_token: np.ndarray, gamma: int, costs: Costs) -> dict[str, Any]:
    """Counts and times of the texts of one arm; counts are of rounds with all γ proposals, which a cap or a draft may cut.

    ``ideal_share`` is γ draft steps and one pass, measured alone, over the time of a round: medians both, since the machine's
    speed jumps. ``ledger_share`` is what the ledger's parts add up to, over the wall clock.
    """
    ledger = Ledger([record for text in texts for record in text.ledger.records])
    full = Ledger([record for record in ledger.records if record.gamma == gamma])
    if not full.records:
        raise ValueError(f"no round had all {gamma} proposals: this draft has no figures at that gamma")
    accepted, verified = full.acceptance()
    by_position = full.acceptance_by_position()
    seconds, wall = ledger.seconds(), float(per_token.sum() * LENGTH)
    rounds = len(full.records)
    per_round = full.total("emitted") / rounds
    spent = median(sum(record.seconds.values()) for record in full.records)
    alpha = accepted / verified
    return {
        "tokens_per_round": per_round,
        "alpha": alpha,
        "iid_prediction": float(expected_count(alpha, gamma)),
        "sum_of_positions": 1 + sum(a for a, _ in by_position) / rounds,
        "acceptance_by_position": [a / v if v else None for a, v in by_position],
        "wasted_rows": 1 - per_round / (gamma + 1),
        "seconds_share": {kind: value / sum(seconds.values()) for kind, value in seconds.items()},
        "bookkeeping": (seconds["choosing"] + seconds["state"]) / sum(seconds.values()),
        "ledger_share": sum(seconds.values()) / wall,
        "ideal_share": (gamma * costs.draft_step + costs.passes[gamma + 1]) / spent,
    }


def best(rounds: Sequence[dict[str, Any]], rule: str) -> dict[str, Any]:
    """The γ of the highest median speedup of a rule."""
    return max((row for row in rounds if row["rule"] == rule), key=lambda row: row["speedup"]["median"])


