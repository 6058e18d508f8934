"""Other people's samplers, unmodified: Hugging Face transformers' speculative sampling function and its ``generate``.

Needs the extra: ``pip install -e ".[peers]"``. Nothing is downloaded: the models are tiny, made from a config, with random
weights. ``RESULTS`` holds what was found with these and other packages, measured on the stated day with the stated versions.
"""

import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from specdec.chance import Chance
from specdec.conformance.intercept import torch_calls
from specdec.conformance.situations import Text
from specdec.law import Array, Transforms

RESULTS: list[dict[str, Any]] = json.loads(resources.files("specdec.conformance").joinpath("peers.json").read_text("utf-8"))
"""One entry a sampler and question: package, version, what, tier, verdict, distance, note, date, versions."""


def _torch_and_transformers() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ImportError('this sampler needs torch and transformers: pip install -e ".[peers]"') from error
    return torch, transformers


# ---- the function -----------------------------------------------------------------------------------------------------


def huggingface_rule(target: Array, draft: Array, proposals: Sequence[int], chance: Chance) -> Text:
    """transformers' ``_speculative_sampling`` as a rule: the emitted tokens. Its random calls are answered by the chance.

    Rows (γ+1, V) and (γ, V), exact or float, become float64 logits log p, so it is exact up to rounding only.
    """
    torch, _ = _torch_and_transformers()
    from transformers.generation.utils import _speculative_sampling

    candidates = torch.tensor([[0, *proposals]])  # behind a token of context, as generate has it
    with torch_calls(chance):
        tokens, _ = _speculative_sampling(candidates, _logits(draft), len(proposals), _logits(target))
    return tuple(tokens[0].tolist())


def _logits(rows: Array) -> Any:
    """Rows (n, V) of laws as a tensor (1, n, V) of their logarithms."""
    torch, _ = _torch_and_transformers()
    return torch.tensor(np.asarray(rows, dtype=np.float64)).log()[None]


# ---- generate ---------------------------------------------------------------------------------------------------------

PLAIN = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "pad_token_id": 0}
"""Options of ``generate`` for sampling from the model's own law. Its default for ``top_k`` is 50."""


def tiny_model(seed: int, vocab_size: int = 3) -> Any:
    """A GPT-2 of one layer with random weights, large enough that its laws differ from token to token."""
    torch, transformers = _torch_and_transformers()
    shape = {"vocab_size": vocab_size, "n_positions": 64, "n_embd": 8, "n_layer": 1, "n_head": 1}
    config = transformers.GPT2Config(**shape, bos_token_id=None, eos_token_id=None, initializer_range=0.3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.GPT2LMHeadModel(config).eval()


def target_law(
    model: Any, prompt: Sequence[int], length: int, transforms: Transforms | None = None, stop: int | None = None
) -> dict[Text, float]:
    """The law of the next ``length`` tokens, from the model's own logits on every prefix: {text: probability}.

    A text ends behind the token ``stop``. Zeros are left out.
    """
    torch, _ = _torch_and_transformers()
    vocab_size = model.config.vocab_size
    law: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        longer = {text: weight for text, weight in law.items() if stop is not None and text[-1:] == (stop,)}
        for text in law.keys() - longer.keys():
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *text]])).logits[0, -1].double().numpy()
            row = (transforms or Transforms()).law(logits, [*prompt, *text])
            longer |= {(*text, token): float(law[text] * row[token]) for token in range(vocab_size) if row[token]}
        law = longer
    return law


def huggingface_text(model: Any, prompt: Sequence[int], length: int, **options: Any) -> Text:
    """The tokens behind the prompt from one call of ``model.generate``: ``length`` of them, or fewer behind ``eos_token_id``.

    ``options`` are generate's own, above PLAIN: ``assistant_model=…`` or ``prompt_lookup_num_tokens=…`` make it speculative.
    """
    torch, _ = _torch_and_transformers()
    ids = torch.tensor([list(prompt)])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, **{**PLAIN, **options})
    return tuple(out[0, len(prompt) :].tolist())


def huggingface_program(model: Any, prompt: Sequence[int], length: int, **options: Any) -> Callable[[Chance], Text]:
    """``huggingface_text`` with its random calls, the draft's too, answered by a chance: ``law_of`` of it is generate's law."""

    def program(chance: Chance) -> Text:
        with torch_calls(chance):
            return huggingface_text(model, prompt, length, **options)

    return program


def huggingface_sample(model: Any, prompt: Sequence[int], length: int, **options: Any) -> Callable[[int, int], list[Text]]:
    """``sample(number, seed)`` for the black-box tier: independent texts from torch's own generator."""
    torch, _ = _torch_and_transformers()

    def sample(number: int, seed: int) -> list[Text]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return [huggingface_text(model, prompt, length, **options) for _ in range(number)]

    return sample
