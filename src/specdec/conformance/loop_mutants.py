"""Wrong decoders: realistic mistakes in drafting, transforms, caches, stops, counts and batches.

Each differs from the right code in one place. Symptom, cause and public reports stand with the names in ``specimens``. The
look-alikes among them say that they are no mistake.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from specdec import batch
from specdec.chance import Chance
from specdec.conformance.samplers import speculative
from specdec.conformance.situations import Request, Situation
from specdec.decoding import RoundRecord, Speculative, State, Stop
from specdec.law import Array, Step, Transforms, is_exact, to_law
from specdec.models import LanguageModel
from specdec.verification import strict


def changed(situation: Situation, **changes: Any) -> Speculative:
    """Our own decoder in a situation, with other parts."""
    return replace(speculative(situation), **changes)


# ---- what is drawn is not what is told ----------------------------------------------------------------------------------

Change = Callable[[Transforms], Transforms]


def none(transforms: Transforms) -> Transforms:
    """No transform at all."""
    return Transforms()


def without(kind: type) -> Change:
    """The declared transforms but those of one kind."""
    return lambda transforms: Transforms(tuple(step for step in transforms.steps if not isinstance(step, kind)))


def then(step: Step) -> Change:
    """The declared transforms, and one step more."""
    return lambda transforms: Transforms((*transforms.steps, step))


class RawRatio(Speculative):
    """Draws from the transformed draft law, forms the ratio with the raw one."""

    def propose(
        self, state: State, gamma: int, chance: Chance
    ) -> tuple[list[int], Array]:
        """The right proposals, the wrong q."""
        proposals, _ = super().propose(state, gamma, chance)
        return proposals, _untransformed(self, state, proposals)


def _untransformed(decoder: Speculative, state: State, proposals: Sequence[int]) -> Array:
    """The draft's own laws (γ, V) at the proposals, recomputed without any transform."""
    return _laws_at(decoder, Transforms(), state, proposals)


def _laws_at(decoder: Speculative, transforms: Transforms, state: State, proposals: Sequence[int]) -> Array:
    """The draft's laws (γ, V) at the proposals, from a fresh pass."""
    rows = decoder.draft.append(decoder.draft.start(), [*state.tokens, *proposals])[len(state.tokens) - 1 : -1]
    return transforms.laws(rows, state.tokens[1:], proposals) if proposals else rows


@dataclass(frozen=True)
class Retold(Speculative):
    """Draws its proposals with some transforms and tells the verifier the law of others; each a change of the declared ones."""

    drawn: Change = lambda transforms: transforms
    told: Change = lambda transforms: transforms

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """The proposals of one, the q of the other."""
        drafter = Speculative(self.target, self.draft, self.gamma, self.drawn(self.transforms))
        proposals, _ = drafter.propose(state, gamma, chance)
        return proposals, _laws_at(self, self.told(self.transforms), state, proposals)


def retold(situation: Situation, **changes: Change) -> Speculative:
    """The decoder that mistells q; a proposal with q = 0 counts as p/q = infinity, as on floats."""
    made = speculative(situation)
    return Retold(made.target, made.draft, made.gamma, made.transforms, made.stop, strict.decide, **changes)


@dataclass(frozen=True)
class Rounded:
    """A step that rounds each score to some significant bits: 8 are those of bfloat16."""

    bits: int
    prefix_free = True

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores of the same shape and kind."""
        return np.array([self._one(value) for value in scores.flat], dtype=scores.dtype).reshape(scores.shape)

    def _one(self, value: Any) -> Any:
        if value == 0 or value == -np.inf:
            return value
        power = self.bits - 1 - int(np.floor(np.log2(abs(float(value)))))
        unit = Fraction(2) ** -power
        return type(value)(round(Fraction(value) / unit) * unit)


class ArgmaxDraft(Speculative):
    """Proposes the draft's most likely token, then verifies it as if it had been drawn from the soft law."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Greedy proposals, the soft q."""
        return super().propose(state, gamma, _Argmax())  # type: ignore[arg-type]


class OneHotDraft(ArgmaxDraft):
    """No mistake: proposes the draft's most likely token and says so, with q one-hot at it."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Greedy proposals, the one-hot q."""
        proposals, soft = super().propose(state, gamma, chance)
        return proposals, np.eye(self.target.vocab_size, dtype=soft.dtype)[np.array(proposals, dtype=int)]


class _Argmax:
    def draw(self, weights: Array, purpose: str) -> int:
        return int(np.argmax(weights))


# ---- transforms in the wrong place ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Misplaced(Transforms):
    """Transforms that reach the draft as declared; the target's rows and the bonus's row have transforms of their own."""

    rows: Transforms = field(default_factory=Transforms)
    bonus: Transforms = field(default_factory=Transforms)

    @property
    def prefix_free(self) -> bool:
        """Whether no step anywhere looks at the prefix."""
        return all(transforms.prefix_free for transforms in (Transforms(self.steps), self.rows, self.bonus))

    def laws(self, scores: Array, prefix: Sequence[int], proposals: Sequence[int]) -> Array:
        """The processed laws (n, V) of the target's rows, of which the last is the bonus's."""
        bonus = self.bonus.law(scores[-1], [*prefix, *proposals])
        return np.concatenate([self.rows.laws(scores, prefix, proposals)[:-1], bonus[None]])


def misplaced(situation: Situation, draft: Change, rows: Change, bonus: Change) -> Speculative:
    """The decoder whose three places have each a change of the declared transforms."""
    declared = situation.request.transforms
    return changed(situation, transforms=Misplaced(draft(declared).steps, rows(declared), bonus(declared)))


@dataclass(frozen=True)
class Shortsighted(Transforms):
    """Shows steps of one kind the committed text alone, without the proposals before their row."""

    kind: type = object

    def laws(self, scores: Array, prefix: Sequence[int], proposals: Sequence[int]) -> Array:
        """The processed laws (n, V) of the target's rows."""
        rows = []
        for i, row in enumerate(scores):
            for step in self.steps:
                row = step(row, prefix if isinstance(step, self.kind) else [*prefix, *proposals[:i]])
            rows.append(row)
        return to_law(np.array(rows, dtype=scores.dtype))


@dataclass(frozen=True)
class Farsighted(Transforms):
    """Shows every row all the proposals, also those behind it."""

    def laws(self, scores: Array, prefix: Sequence[int], proposals: Sequence[int]) -> Array:
        """The processed laws (n, V) of the target's rows."""
        return to_law(np.array([self.scores(row, [*prefix, *proposals]) for row in scores], dtype=scores.dtype))


@dataclass(frozen=True)
class CutTo:
    """A step that leaves the first ``size`` tokens alone possible."""

    size: int
    prefix_free = True

    def __call__(self, scores: Array, prefix: Sequence[int]) -> Array:
        """Scores without weight behind the first ``size``."""
        kept = np.arange(scores.shape[-1]) < self.size
        return np.where(kept, scores, 0 if is_exact(scores) else -np.inf)


def cut_to_draft(situation: Situation) -> Speculative:
    """The decoder that cuts the target's laws to the draft's vocabulary, "so that the shapes agree"."""
    size = situation.draft_size or situation.target.vocab_size

    def cut(transforms: Transforms) -> Transforms:
        return then(CutTo(size))(transforms)

    return misplaced(situation, lambda transforms: transforms, cut, cut)


# ---- caches -------------------------------------------------------------------------------------------------------------


class ShortCache:
    """A draft whose cache misses an entry: of several pending tokens it feeds only the last.

    That happens after full acceptance, when the last proposal is pending beside the bonus. The text's law stays exact, since
    any q is a legal draft; cached rows differ from recomputed ones, and acceptance falls.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def append(self, state: Any, tokens: Sequence[int]) -> Array:
        """Feeds an empty state all the tokens, any other only the last."""
        fed = tokens if len(state) == 0 else tokens[-1:]
        return self._model.append(state, fed)


class BonusOverProposal(ShortCache):
    """A draft whose cache gets the bonus in the place of the last proposal as well: the length is right, an entry is not."""

    def append(self, state: Any, tokens: Sequence[int]) -> Array:
        """Feeds an empty state all the tokens, any other the last one, as often as tokens are due."""
        fed = tokens if len(state) == 0 else list(tokens[-1:]) * len(tokens)
        return self._model.append(state, fed)


@dataclass
class Held:
    """A state that claims a length, whatever it really holds."""

    inner: Any
    length: int = 0

    def __len__(self) -> int:
        return self.length


class Unrewound:
    """A model whose rewind does something else to what is really held: ``rewind(model, inner, length) -> inner``."""

    def __init__(self, model: LanguageModel, rewind: Callable[[LanguageModel, Any, int], Any]) -> None:
        self._model, self._rewind = model, rewind

    def __getattr__(self, name: str) -> Any:
        if name in ("row", "feed"):
            raise AttributeError(name)  # rows by name are not needed
        return getattr(self._model, name)

    def start(self) -> Held:
        """An empty state."""
        return Held(self._model.start())

    def append(self, state: Held, tokens: Sequence[int]) -> Array:
        """Feeds what is really held."""
        state.length += len(tokens)
        return self._model.append(state.inner, tokens)

    def rewind(self, state: Held, length: int) -> None:
        """Claims the right length."""
        state.inner, state.length = self._rewind(self._model, state.inner, length), length

    def copy(self, state: Held) -> Held:
        """An independent copy."""
        return Held(self._model.copy(state.inner), state.length)

    def key(self, state: Held) -> Hashable:
        """What is really held, and the length claimed."""
        return self._model.key(state.inner), state.length


def rewinds_nothing(model: LanguageModel, inner: Any, length: int) -> Any:
    """Rejected tokens stay."""
    return inner


def rewinds_to_start(model: LanguageModel, inner: Any, length: int) -> Any:
    """All is forgotten, and nothing is fed again."""
    return model.start()


def rewinds_too_little(model: LanguageModel, inner: Any, length: int) -> Any:
    """One rejected token stays."""
    model.rewind(inner, min(len(inner), length + 1))
    return inner


def rewinds_too_far(model: LanguageModel, inner: Any, length: int) -> Any:
    """One committed token is lost."""
    model.rewind(inner, min(len(inner), max(0, length - 1)))
    return inner


# ---- stops and counts ---------------------------------------------------------------------------------------------------


class LateStop(Stop):
    """Looks for stop tokens at the end of a round alone."""

    def first(self, generated: Sequence[int], new: Sequence[int]) -> tuple[int, str | None]:
        """All of the new tokens, and the reason that the last one gives."""
        return len(new), self.reason([*generated, *new])


class CapFirst(Stop):
    """Looks at the length cap before it looks for stop tokens: they are not looked for in a round that reaches the cap."""

    def first(self, generated: Sequence[int], new: Sequence[int]) -> tuple[int, str | None]:
        """Cut at the cap if the new tokens reach it, else at the first stop token."""
        if self.length is not None and len(generated) + len(new) >= self.length:
            return self.length - len(generated), "length"
        return super().first(generated, new)


def other_stop(situation: Situation, kind: type[Stop]) -> Speculative:
    """The decoder with the declared stop rules in another class."""
    return changed(situation, stop=kind(**vars(situation.request.stop)))


class CountsPastStop(Speculative):
    """Reports every emitted token as committed, also those past a stop."""

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """The right text, the wrong count."""
        record, state = super().step(state, chance)
        return replace(record, committed=record.emitted), state


def accepted_of_drafted(records: list[RoundRecord]) -> tuple[int, int]:
    """Counts also the proposals behind a rejection, which nobody verified, as if they had been rejected."""
    return sum(record.accepted for record in records), sum(record.gamma for record in records)


# ---- one seed for two ---------------------------------------------------------------------------------------------------


class _Replayed:
    """Reads a tape of uniforms from its beginning, and lengthens it where it ends."""

    def __init__(self, chance: Chance, tape: list[Any]) -> None:
        self._chance, self._tape, self._read = chance, tape, 0

    def uniform(self, purpose: str) -> Any:
        if self._read == len(self._tape):
            self._tape.append(self._chance.uniform(purpose))
        self._read += 1
        return self._tape[self._read - 1]

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        return self._chance.accept(probability, purpose, u=self.uniform(purpose) if u is None else u)

    def draw(self, weights: Any, purpose: str, u: Any = None) -> int:
        return self._chance.draw(weights, purpose, u=self.uniform(purpose) if u is None else u)


class _SameSeed:
    """The draft's chance and the verifier's, seeded alike: each reads the same uniforms from the beginning."""

    def __init__(self, chance: Chance) -> None:
        tape: list[Any] = []
        self._draft, self._verifier = _Replayed(chance, tape), _Replayed(chance, tape)

    def _of(self, purpose: str) -> _Replayed:
        return self._draft if purpose == "propose" else self._verifier

    def uniform(self, purpose: str) -> Any:
        return self._of(purpose).uniform(purpose)

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        return self._of(purpose).accept(probability, purpose, u=u)

    def draw(self, weights: Any, purpose: str, u: Any = None) -> int:
        return self._of(purpose).draw(weights, purpose, u=u)


class SameSeed(Speculative):
    """Seeds the draft's generator and the verifier's alike in every round: the uniform that drew a proposal judges it."""

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """The right round, from uniforms used twice."""
        return super().step(state, _SameSeed(chance))


# ---- several texts ------------------------------------------------------------------------------------------------------


def one_seed_for_all(chance: Chance, number: int) -> list[Chance]:
    """Seeds every text of a batch alike: each has the right law, but they are drawn with the same uniforms."""
    tape: list[Any] = []
    return [_Replayed(chance, tape) for _ in range(number)]


class NeighboursRows:
    """A target whose batched pass hands each text the rows of the one before it."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def append_batch(self, states: Sequence[Any], tokens: Sequence[Sequence[int]]) -> list[Array]:
        """The right rows in the wrong order."""
        rows = [self._model.append(state, fed) for state, fed in zip(states, tokens, strict=True)]
        return rows[-1:] + rows[:-1]


def one_chance(chance: Chance, number: int) -> list[Chance]:
    """No mistake: the texts take their decisions from one chance in turn."""
    return [chance] * number


def in_batches(
    situation: Situation,
    chance: Chance,
    chances: Callable[[Chance, int], list[Chance]] = one_chance,
    target: Callable[[LanguageModel], Any] = lambda model: model,
    of: Callable[[Sequence[Request], int], Request] = lambda requests, i: requests[i],
) -> list[tuple[int, ...]]:
    """A text for each request by ``batch.generate``; those of equal transforms and stop rules share a batch.

    The chances of a batch, the target model, and the request whose transforms row i gets are parameters. γ is the first round's.
    """
    requests = situation.requests
    settings = [(of(requests, i).transforms, request.stop) for i, request in enumerate(requests)]
    texts: dict[int, tuple[int, ...]] = {}
    for transforms, stop in dict.fromkeys(settings):
        rows = [i for i, setting in enumerate(settings) if setting == (transforms, stop)]
        decoder = Speculative(target(situation.target), situation.draft, situation.gammas[0], transforms, stop)
        made = batch.generate(decoder, [requests[i].prompt for i in rows], chances(chance, len(rows)))
        texts.update((i, generation.tokens) for i, generation in zip(rows, made, strict=True))
    return [texts[i] for i in range(len(requests))]


# ---- rounds whose length depends on their own proposals ----------------------------------------------------------------
#
# Ending a draft is right as long as every token that was drawn is kept: what is drawn next, or not at all, may depend on it.

DOUBT = Fraction(3, 10)
"""A proposal with a smaller q is in doubt."""


class EndsBehindDoubt(Speculative):
    """No mistake, though it looks like one: ends the draft behind a proposal in doubt, which it keeps."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Draws one proposal after the other."""
        proposals: list[int] = []
        q = np.empty((0, self.target.vocab_size), dtype=object if self.draft.exact else np.float64)
        while len(proposals) < gamma and not in_doubt(proposals, q):
            ahead = replace(state, tokens=[*state.tokens, *proposals])  # of the same caches
            more, law = super().propose(ahead, 1, chance)
            if not more:
                break
            proposals, q = proposals + more, np.concatenate([q, law])
        return proposals, q


class DropsDoubt(EndsBehindDoubt):
    """Drops the proposal in doubt, as not worth a row of the target's: those that are left are no longer drawn from q."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """The right proposals but the last, if that is in doubt."""
        proposals, q = super().propose(state, gamma, chance)
        kept = len(proposals) - in_doubt(proposals, q)
        return proposals[:kept], q[:kept]


def in_doubt(proposals: Sequence[int], q: Array) -> bool:
    """Whether the last proposal is."""
    return bool(proposals) and bool(q[-1][proposals[-1]] < DOUBT)


class SilentInDoubt:
    """No mistake either: a draft that proposes nothing where its next law has no token of at least ``sure``.

    It looks at the law before anything is drawn from it.
    """

    def __init__(self, model: LanguageModel, sure: Any) -> None:
        self._model, self._sure = model, sure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def append(self, state: Any, tokens: Sequence[int]) -> Array:
        """Rows without weight where the draft is not sure."""
        scores = self._model.append(state, tokens)
        unsure = to_law(scores).max(axis=-1) < self._sure
        return np.where(unsure[:, None], 0 if self._model.exact else -np.inf, scores)
