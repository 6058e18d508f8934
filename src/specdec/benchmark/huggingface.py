"""The same weights in Hugging Face transformers: plain and assisted generation beside ours. Needs the extra ``training``.

Much of the distance is the overhead of a general framework, paid for every token.
"""

from typing import Any

import numpy as np
import torch
from transformers import GPT2LMHeadModel

from specdec.benchmark import paired
from specdec.benchmark.speed import LENGTH, plain_loop, prompts
from specdec.chance import Random
from specdec.decoding import Speculative, Stop, generate
from specdec.models import shipped

GAMMA = 3


def compare(target_name: str, draft_name: str, turns: int) -> dict[str, Any]:
    """Seconds per token and ratios: ours plain and speculative, theirs plain and assisted, with the same draft at γ = 3."""
    torch.set_num_threads(1)
    target, draft = shipped.load(target_name), shipped.load(draft_name)
    theirs, assistant = (
        GPT2LMHeadModel.from_pretrained(shipped.FOLDER / name, local_files_only=True).eval() for name in (target_name, draft_name)
    )
    assistant.generation_config.num_assistant_tokens = GAMMA
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    assistant.generation_config.assistant_confidence_threshold = 0.0
    starts = prompts()
    decoder = Speculative(target, draft, GAMMA, stop=Stop(length=LENGTH))

    def hugging_face(turn: int, **options: Any) -> int:
        torch.manual_seed(turn)
        tokens = torch.tensor([[target.start_token, *starts[turn % len(starts)]]])
        with torch.inference_mode():
            out = theirs.generate(
                tokens, attention_mask=torch.ones_like(tokens), do_sample=True, top_k=0, max_new_tokens=LENGTH,
                suppress_tokens=[target.start_token], **options,
            )  # fmt: skip
        return out.shape[1] - tokens.shape[1]

    times = paired.run(
        {
            "ours plain": lambda turn: len(
                plain_loop(target, starts[turn % len(starts)], LENGTH, np.random.default_rng(turn))
            ),
            "theirs plain": hugging_face,
            "ours speculative": lambda turn: len(generate(decoder, starts[turn % len(starts)], Random(turn)).tokens),
            "theirs assisted": lambda turn: hugging_face(turn, assistant_model=assistant),
        },
        turns,
    )
    return {
        "gamma": GAMMA,
        "microseconds_per_token": {name: times.median(name) * 1e6 for name in times.seconds},
        "plain": times.speedup("ours plain", "theirs plain"),
        "speculative": times.speedup("ours speculative", "theirs assisted"),
        "their_assisted_over_their_plain": times.speedup("theirs assisted", "theirs plain"),
    }
