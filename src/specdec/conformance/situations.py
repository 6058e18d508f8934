"""Situations that a sampler is put into: two exact models, γ by round, and requests with their transforms and stop rules.

The law that must come out is the target's own, by the chain rule over its processed rows; no decoding code has a part in it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from specdec.decoding import Stop
from specdec.law import Array, Transforms
from specdec.models import LanguageModel

Text = tuple[int, ...]
Law = dict[Any, Any]


@dataclass(frozen=True)
class Request:
    """One text to be generated: its prompt, its sampling transforms, and when it ends. A cap keeps enumeration short."""

    prompt: Text = ()
    transforms: Transforms = field(default_factory=Transforms)
    stop: Stop = Stop(length=4)

    def shown(self, text: Sequence[int], tokens: int) -> Text:
        """The first ``tokens`` of a text; all of it where it should have ended by then, so that a longer one is seen."""
        capped = self.stop.length is not None and self.stop.length <= tokens
        return tuple(text if capped else text[:tokens])


@dataclass(frozen=True)
class Situation:
    """What the sampler is given, and how many ``tokens`` of each text are compared: the first ones.

    ``gammas[r]`` is the γ of round r, and the last one goes on.

    ``draft_size`` is the draft's own vocabulary, where it is smaller or larger than what the two models share: its laws come
    padded with zeros, and so do the target's.
    """

    name: str
    shows: str
    target: LanguageModel
    draft: LanguageModel
    gammas: tuple[int, ...] = (2,)
    requests: tuple[Request, ...] = (Request(),)
    tokens: int = 4
    draft_size: int | None = None

    @property
    def request(self) -> Request:
        """The only request; ``ValueError`` for a batch."""
        if len(self.requests) != 1:
            raise ValueError(f"situation {self.name!r} is a batch of {len(self.requests)} requests")
        return self.requests[0]

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """For each request the law of its first tokens under the target alone, {text: probability}."""
        return tuple(text_law(self.target, request, self.tokens) for request in self.requests)

    @cached_property
    def law(self) -> Law:
        """The joint law of all texts, {(text, …): probability}: requests do not know of each other."""
        joint: Law = {(): 1}
        for law in self.laws:
            joint = {(*texts, text): weight * more for (texts, weight), (text, more) in product(joint.items(), law.items())}
        return joint


def row_after(model: LanguageModel, transforms: Transforms, text: Text) -> Array:
    """The processed law (V,) after a text, computed from nothing."""
    return transforms.law(model.append(model.start(), [model.start_token, *text])[-1], text)


def text_law(model: LanguageModel, request: Request, tokens: int) -> Law:
    """The law of the first tokens of the text that a request asks for, {text: probability}, by the chain rule.

    A stop rule is asked after every token, so some texts are shorter.
    """
    law: dict[Text, Any] = defaultdict(int)
    going: dict[Text, Any] = {(): 1}
    while going:
        following: dict[Text, Any] = {}
        for text, weight in going.items():
            row = row_after(model, request.transforms, request.prompt + text)
            for token in np.flatnonzero(row).tolist():
                longer = (*text, token)
                over = len(longer) == tokens or request.stop.reason(longer)
                (law if over else following)[longer] = weight * row[token]
        going = following
    return dict(law)
