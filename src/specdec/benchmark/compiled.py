"""A plain loop over the same weights in torch: one function for a step, static caches, compiled where a compiler is there.

The yardstick for our own plain loop: is numpy the reason that it is slow? Needs the extra ``training``.
"""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from specdec.benchmark import paired
from specdec.benchmark.speed import LENGTH, plain_loop, prompts
from specdec.chance import Random
from specdec.decoding import Speculative, Stop, generate
from specdec.models import shipped
from specdec.models.transformer import Transformer
from specdec.verification import block

Step = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def step_function(model: Transformer) -> Step:
    """``step(token (1,), place (1,), keys, values) -> logits`` on our folded matrices; caches (layers, heads, window, depth)."""
    layers = [tuple(torch.from_numpy(matrix) for matrix in layer) for layer in model.layers]
    tokens, places, unembed = (torch.from_numpy(a) for a in (model._tokens, model._places, model._out))
    heads, epsilon, positions = model.heads, float(model._epsilon), torch.arange(model.window)

    def norm(x: Tensor) -> Tensor:
        return x * torch.rsqrt((x * x).sum() + epsilon)

    def step(token: Tensor, place: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        x = (tokens.index_select(0, token) + places.index_select(0, place))[0]
        visible = (positions <= place)[None, None]
        for layer, (qkv, out, up, down) in enumerate(layers):
            q, k, v = (norm(x) @ qkv[:-1] + qkv[-1]).view(3, heads, 1, -1)
            keys[layer].index_copy_(1, place, k)
            values[layer].index_copy_(1, place, v)
            mixed = functional.scaled_dot_product_attention(q, keys[layer], values[layer], visible, scale=1.0)
            x = x + mixed.reshape(-1) @ out[:-1] + out[-1]
            x = x + torch.relu(norm(x) @ up[:-1] + up[-1]) @ down[:-1] + down[-1]
        return norm(x) @ unembed[:-1] + unembed[-1]

    return step


def loop(step: Step, model: Transformer, prompt: list[int], length: int) -> list[int]:
    """Plain decoding with ``step``; the prompt is fed token by token."""
    shape = (len(model.layers), model.heads, model.window, model.width // model.heads)
    keys, values = torch.zeros(shape), torch.zeros(shape)
    text = [model.start_token, *prompt]
    with torch.inference_mode():
        for place in range(len(prompt) + length):
            logits = step(torch.tensor([text[place]]), torch.tensor([place]), keys, values)
            if place >= len(prompt):
                text.append(int(torch.multinomial(torch.softmax(logits, -1), 1)))
    return text[1 + len(prompt) :]


def compare(target_name: str, draft_name: str, gamma: int, turns: int) -> dict[str, Any]:
    """Our plain and speculative decoding (block) against the torch loop, as it is and compiled. The torch loops feed the
    prompt one token at a time, PROMPT steps that ours takes in one pass; their times are scaled to the steps that they took.
    """
    torch.set_num_threads(1)
    target, draft = shipped.load(target_name), shipped.load(draft_name)
    assert isinstance(target, Transformer)
    starts, eager = prompts(), step_function(target)
    decoder = Speculative(target, draft, gamma, stop=Stop(length=LENGTH), verify=block.verify)
    steps = {"torch eager": eager}
    if shutil.which("g++"):
        steps["torch compiled"] = torch.compile(step_function(target), dynamic=False)

    def torch_arm(step: Step) -> paired.Arm:
        def arm(turn: int) -> int:
            prompt = starts[turn % len(starts)]
            torch.manual_seed(turn)
            return len(loop(step, target, prompt, LENGTH)) + len(prompt)  # steps taken

        return arm

    arms: dict[str, paired.Arm] = {
        "ours plain": lambda turn: len(plain_loop(target, starts[turn % len(starts)], LENGTH, np.random.default_rng(turn))),
        "ours speculative": lambda turn: len(generate(decoder, starts[turn % len(starts)], Random(turn)).tokens),
        **{name: torch_arm(step) for name, step in steps.items()},
    }
    times = paired.run(arms, turns)
    return {
        "gamma": gamma,
        "microseconds_per_token": {name: times.median(name) * 1e6 for name in arms},
        **{f"{ours} over {name}": times.speedup(ours, name) for ours in ("ours plain", "ours speculative") for name in steps},
    }
