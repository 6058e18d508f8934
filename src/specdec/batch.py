"""Several texts decoded side by side: one target pass for all of them, and for each its own draft, verification and chance.

Rounds are ragged: every text keeps what its own verification accepts, so the texts run apart in length. No text can see
another, so each has the law that it has alone; where a batched pass rounds as a single one does, it has the very same tokens.
"""

from collections.abc import Sequence
from typing import Any

from specdec.chance import Chance
from specdec.decoding import Clock, Generation, RoundRecord, Speculative, State, check_endable
from specdec.law import Array


def append_all(model: Any, states: Sequence[Any], tokens: Sequence[Sequence[int]]) -> list[Array]:
    """Scores (n_i, V) after the tokens fed to each state: in one pass if the model has ``append_batch``, else one by one."""
    if hasattr(model, "append_batch"):
        return model.append_batch(states, tokens)
    return [model.append(state, fed) for state, fed in zip(states, tokens, strict=True)]


def step(decoder: Speculative, states: Sequence[State], chances: Sequence[Chance]) -> list[RoundRecord]:
    """One round of every text, advanced in place. A stopped text raises ``ValueError`` before any is touched.

    The seconds of the shared pass are divided evenly among the records.
    """
    if len(states) != len(chances):
        raise ValueError(f"{len(states)} texts and {len(chances)} chances: each text needs its own")
    stopped = [i for i, state in enumerate(states) if state.stop is not None]
    if stopped:
        raise ValueError(f"text {stopped[0]} has stopped ({states[stopped[0]].stop}): leave it out of the batch")
    clocks, drafts = [], []
    for state, chance in zip(states, chances, strict=True):
        clocks.append(Clock())
        drafts.append(decoder.open_round(state, chance))
        clocks[-1].lap("drafting")
    shared = Clock()
    feeds = [state.pending("target") + proposals for state, (proposals, _) in zip(states, drafts, strict=True)]
    rows = append_all(decoder.target, [state.caches["target"] for state in states], feeds)
    shared.lap("verifying")
    records = []
    for clock, state, (proposals, q), its_rows, chance in zip(clocks, states, drafts, rows, chances, strict=True):
        clock.take_up(shared.seconds["verifying"] / len(states), "verifying")
        records.append(decoder.close_round(state, proposals, q, its_rows, chance, clock)[0])
    return records


def generate(decoder: Speculative, prompts: Sequence[Sequence[int]], chances: Sequence[Chance]) -> list[Generation]:
    """Decode all prompts until each has stopped; a text that stops leaves the batch. ``chances``: one for each prompt."""
    check_endable(decoder)
    if len(prompts) != len(chances):
        raise ValueError(f"{len(prompts)} prompts and {len(chances)} chances: each text needs its own")
    states = [decoder.start(prompt) for prompt in prompts]
    records: list[list[RoundRecord]] = [[] for _ in states]
    while running := [i for i, state in enumerate(states) if state.stop is None]:
        made = step(decoder, [states[i] for i in running], [chances[i] for i in running])
        for i, record in zip(running, made, strict=True):
            records[i].append(record)
    return [Generation.of(its) for its in records]
