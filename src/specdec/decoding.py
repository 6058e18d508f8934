"""The generation loops, autoregressive and speculative, and their ledger of counts and seconds.

``step`` is the primitive: one round. ``rounds`` iterates it and ``generate`` drains it. Nothing here draws random numbers;
every choice goes through a ``chance`` object, so ``law_of`` runs these very loops along all their branches.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from specdec.chance import Chance, Weights, law_of_process
from specdec.law import Array, Transforms, by_row, has_weight, is_exact, to_law
from specdec.models import INTEGERS, LanguageModel, check_tokens
from specdec.verification import Round, Verify, block, strict

# ---- the ledger ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundRecord:
    """One line of the ledger: what was proposed, accepted, emitted and committed in a round, and where its time went.

    Emitted tokens past a stop are not committed. ``seconds`` are wall time: ``drafting`` (draft passes and draws),
    ``verifying`` (the target pass and its laws), ``choosing`` (the rule), ``state`` (stop rules and rewinding). A decoder
    that waits for another device adds ``synchronising``; these loops wait for none, so they have no such entry.
    """

    gamma: int
    round: Round
    committed: int
    stop: str | None = None
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def accepted(self) -> int:
        """Proposals accepted by the rule."""
        return self.round.accepted

    @property
    def emitted(self) -> int:
        """Tokens that the rule yielded: accepted plus one."""
        return len(self.round.tokens)

    @property
    def committed_tokens(self) -> tuple[int, ...]:
        """The tokens kept, in order."""
        return self.round.tokens[: self.committed]


@dataclass
class Ledger:
    """A list of round records, and what follows from it. A round without rejections has verified all γ proposals; another
    has verified those up to and including the first rejection, and only these count in the acceptance figures.
    """

    records: list[RoundRecord] = field(default_factory=list)

    def total(self, name: str) -> int:
        """The sum of ``gamma`` (proposals), ``accepted``, ``emitted`` or ``committed`` over the rounds."""
        return sum(getattr(record, name) for record in self.records)

    def seconds(self) -> dict[str, float]:
        """Wall seconds by kind, summed over the rounds."""
        kinds = dict.fromkeys(kind for record in self.records for kind in record.seconds)
        return {kind: sum(record.seconds.get(kind, 0.0) for record in self.records) for kind in kinds}

    def acceptance_by_position(self) -> list[tuple[int, int]]:
        """For each position: (accepted there, verified there). A position is verified only if all before it were accepted."""
        longest = max((record.gamma for record in self.records), default=0)
        return [
            (
                sum(record.accepted > place for record in self.records),
                sum(record.gamma > place and record.accepted >= place for record in self.records),
            )
            for place in range(longest)
        ]

    def acceptance(self) -> tuple[int, int]:
        """(accepted, verified) over all positions. Proposals behind the first rejection were never verified."""
        pairs = self.acceptance_by_position()
        return sum(accepted for accepted, _ in pairs), sum(verified for _, verified in pairs)

    def count_law(self, name: str = "emitted") -> dict[int, float]:
        """The share of rounds with each count, by default of emitted tokens."""
        counts = [getattr(record, name) for record in self.records]
        return {count: counts.count(count) / len(counts) for count in sorted(set(counts))}


# ---- when to stop -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stop:
    """Stop rules on generated tokens: the earliest position wins, whatever the rule. The token that completes a rule is kept.

    ``tokens``: ids that end the text. ``strings``: texts that end it; ``decode`` turns token ids into text and is then needed.
    ``length``: at most so many generated tokens. Where two rules fall on one position, that order names the reason.

    Stop strings ask two things of ``decode``: each token adds at least one character, and the last tokens alone decode to
    the end of the whole text. Rules of the wrong type raise ``ValueError``.
    """

    length: int | None = None
    tokens: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        if self.length is not None and (not isinstance(self.length, int | np.integer) or self.length < 1):
            raise ValueError(f"length cap is {self.length!r}: it must be an integer of at least 1")
        if not isinstance(self.tokens, frozenset) or not all(isinstance(token, int | np.integer) for token in self.tokens):
            raise ValueError(f"stop tokens are {self.tokens!r}: they must be a frozenset of token ids")
        if not isinstance(self.strings, tuple) or not all(isinstance(string, str) for string in self.strings):
            raise ValueError(f"stop strings are {self.strings!r}: they must be a tuple of texts")
        if self.strings and self.decode is None:
            raise ValueError("stop strings need decode, the function from token ids to text")
        if "" in self.strings:
            raise ValueError("an empty stop string would end every text at once")

    @property
    def rules(self) -> bool:
        """Whether there is any rule at all."""
        return self.length is not None or bool(self.tokens) or bool(self.strings)

    def reason(self, generated: Sequence[int]) -> str | None:
        """Why a text stops at the last of its ``generated`` tokens, or None. Asked after each token in turn."""
        if generated[-1] in self.tokens:
            return "stop token"
        if self.decode is not None and any(self._completed(string, generated) for string in self.strings):
            return "stop string"
        return "length" if len(generated) == self.length else None

    def _completed(self, string: str, generated: Sequence[int]) -> bool:
        assert self.decode is not None
        return string in self.decode(generated[-len(string) :])  # a token is a character at least, so this is long enough

    def first(self, generated: Sequence[int], new: Sequence[int]) -> tuple[int, str | None]:
        """How many of the ``new`` tokens are kept after ``generated``, and the reason if a rule cut them."""
        if not self.tokens and not self.strings:  # only the number counts
            left = math.inf if self.length is None else self.length - len(generated)
            if left <= 0:
                raise ValueError(f"{len(generated)} tokens are generated already: the cap of {self.length} is behind them")
            return int(min(len(new), left)), "length" if left <= len(new) else None
        text = list(generated)
        for kept, token in enumerate(new, start=1):
            text.append(token)
            reason = self.reason(text)
            if reason:
                return kept, reason
        return len(new), None


# ---- decoders -----------------------------------------------------------------------------------------------------


@dataclass
class State:
    """A text under way. ``tokens``: the start token, the prompt, and all committed tokens; ``prompt``: how many it began with.

    Invariant between rounds: each cache holds a prefix of ``tokens`` that is shorter than it. The tokens that a cache lacks
    are *pending* and are fed first in the next pass. ``history`` holds (γ, accepted) of each round so far.
    """

    tokens: list[int]
    prompt: int
    caches: dict[str, Any]
    stop: str | None = None
    history: tuple[tuple[int, int], ...] = ()

    @property
    def generated(self) -> list[int]:
        """The committed tokens after the prompt, a copy."""
        return self.tokens[self.prompt :]

    @property
    def length(self) -> int:
        """How many tokens are generated."""
        return len(self.tokens) - self.prompt

    def pending(self, name: str) -> list[int]:
        """The committed tokens that a cache does not hold yet, at least one."""
        return self.tokens[len(self.caches[name]) :]


class Decoder(Protocol):
    """A loop that commits tokens a round at a time: ``Autoregressive`` or ``Speculative``."""

    @property
    def stop(self) -> Stop:
        """When a text ends."""

    @property
    def models(self) -> dict[str, LanguageModel]:
        """The models by the names of their caches."""

    def start(self, prompt: Sequence[int] = ()) -> State:
        """A state that has committed the prompt and computed nothing."""

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """One round. The state is advanced in place and returned; ``copy`` it first to keep it."""


Gamma = int | Callable[[State], int]

DECIDE: tuple[tuple[Verify, Verify], ...] = ((strict.verify, strict.decide), (block.verify, block.decide))
"""(rule, what a decoder calls in its place, without checking again what the decoder has just made)."""

LAWS_KEPT = 2**14
"""How many draft laws a decoder keeps by name, about 2 kB each; those that a draft prepares itself are not counted."""


@dataclass(frozen=True)
class Autoregressive:
    """The baseline: one target pass and one draw a token (purpose ``sample``)."""

    target: LanguageModel
    transforms: Transforms = field(default_factory=Transforms)
    stop: Stop = Stop()

    @property
    def models(self) -> dict[str, LanguageModel]:
        """The target alone."""
        return {"target": self.target}

    def start(self, prompt: Sequence[int] = ()) -> State:
        """A state that has committed the prompt and computed nothing."""
        return _start(self.models, prompt, self.stop)

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """One token. Raises ``ValueError`` on a stopped state."""
        clock = Clock()
        _check_running(state)
        _rewind(state, self.models)
        scores = _append(self.target, state.caches["target"], state.pending("target"))[-1]
        law = self.transforms.law(scores, _prefix(self.transforms, state))
        clock.lap("verifying")
        round_ = Round((chance.draw(law, "sample"),), ("bonus",))
        clock.lap("choosing")
        return _commit(state, self.models, 0, round_, self.stop, clock)


@dataclass(frozen=True)
class Speculative:
    """Draft γ proposals, verify them in one target pass, commit what the rule emits.

    ``gamma`` is a number, or a function of the state before drafting: it may look at whatever is already verified, never at
    proposals of its own round. A cap leaves room for the round's last token: γ ≤ tokens left - 1. The same ``transforms``
    make p from the target's scores and q from the draft's.
    """

    target: LanguageModel
    draft: LanguageModel
    gamma: Gamma
    transforms: Transforms = field(default_factory=Transforms)
    stop: Stop = Stop()
    verify: Verify = strict.verify
    _known: dict[Hashable, Weights | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        same = ("vocab_size", "start_token", "exact")
        theirs = [[getattr(model, name) for name in same] for model in (self.target, self.draft)]
        for name, one, other in zip(same, *theirs, strict=True):
            if one != other:
                raise ValueError(f"target and draft differ in {name}: {one} and {other}; they must share one vocabulary and kind")
        symbols = [getattr(model, "vocabulary", None) for model in (self.target, self.draft)]
        if None not in symbols and symbols[0] != symbols[1]:
            raise ValueError("target and draft have different vocabularies: one token id would mean two things")
        if not callable(self.gamma):
            self._check_gamma(self.gamma)
        if self._named and hasattr(self.draft, "prepared") and _hashable(self.transforms):  # all rows at once, for all decoders
            self._known.update(self.draft.prepared(self.transforms))

    def _check_gamma(self, gamma: int) -> int:
        if not isinstance(gamma, INTEGERS) or gamma < 0:
            raise ValueError(f"gamma is {gamma!r}: it must be an integer of at least 0")
        for name, model in (("target", self.target), ("draft", self.draft)):
            if gamma + 1 > model.reach:
                raise ValueError(
                    f"gamma is {gamma}, but the {name} can only be rewound by {model.reach} tokens: it needs gamma + 1"
                )
        return int(gamma)

    def start(self, prompt: Sequence[int] = ()) -> State:
        """A state that has committed the prompt and computed nothing."""
        return _start(self.models, prompt, self.stop)

    @property
    def models(self) -> dict[str, LanguageModel]:
        """The two models by the names of their caches."""
        return {"target": self.target, "draft": self.draft}

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """One round. Raises ``ValueError`` on a stopped state."""
        clock = Clock()
        proposals, q = self.open_round(state, chance)
        clock.lap("drafting")
        rows = _append(self.target, state.caches["target"], state.pending("target") + proposals)
        return self.close_round(state, proposals, q, rows, chance, clock)

    def open_round(self, state: State, chance: Chance) -> tuple[list[int], Array]:
        """A round up to its target pass: the proposals, and the laws q (γ, V) that they were drawn from."""
        _check_running(state)
        _rewind(state, self.models)
        return self.propose(state, self.round_gamma(state), chance)

    def close_round(
        self, state: State, proposals: list[int], q: Array, rows: Array, chance: Chance, clock: "Clock"
    ) -> tuple[RoundRecord, State]:
        """A round from its target pass on, which gave ``rows`` for the pending tokens and the proposals."""
        rows = check_rows(self.target, rows, len(proposals) + 1)
        p = self.transforms.laws(rows[-len(proposals) - 1 :], _prefix(self.transforms, state), proposals)
        clock.lap("verifying")
        round_ = self._decide(p, q, proposals, chance)
        clock.lap("choosing")
        return _commit(state, self.models, len(proposals), round_, self.stop, clock)

    def round_gamma(self, state: State) -> int:
        """The γ of the next round, cut to what the length cap and the two models' contexts leave room for."""
        gamma = self._check_gamma(self.gamma(state) if callable(self.gamma) else self.gamma)
        held = len(state.tokens)
        room = min(self.target.capacity - held, self.draft.capacity - held + 1)
        if self.stop.length is not None:
            room = min(room, self.stop.length - state.length - 1)
        return int(max(0, min(gamma, room)))

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Up to γ proposals, each drawn from the very q (γ, V) that is returned; fewer if the draft has nothing to propose.

        The last proposal is not fed: no law after it is needed this round.
        """
        proposals: list[int] = []
        laws: list[Array] = []
        feed = state.pending("draft")
        next_law = self._known_law if self._named else self._new_law
        while len(proposals) < gamma and (law := next_law(state, feed, proposals)) is not None:
            laws.append(law.values)
            feed = [chance.draw(law, "propose")]
            proposals += feed
        dtype = object if self.draft.exact else np.float64
        return proposals, np.array(laws, dtype=dtype).reshape(len(laws), self.target.vocab_size)

    @property
    def _decide(self) -> Verify:
        """The rule without its checks, where this very class made p and q: laws, by ``to_law``, with proposals drawn from q."""
        known = (decide for verify, decide in DECIDE if verify is self.verify and type(self) is Speculative)
        return next(known, self.verify)

    @property
    def _named(self) -> bool:
        """Whether q depends on the name of the draft's row alone, so that it can be kept under that name."""
        return self.transforms.prefix_free and hasattr(self.draft, "row")

    def _new_law(self, state: State, feed: list[int], proposals: list[int]) -> Weights | None:
        """Feed the draft; its next q, or None if it has nothing to propose."""
        scores = _append(self.draft, state.caches["draft"], feed)[-1]
        return _draft_law(self.transforms, scores, _prefix(self.transforms, state, proposals))

    def _known_law(self, state: State, feed: list[int], proposals: list[int]) -> Weights | None:
        """The same for named rows: each q is made, checked and summed once."""
        draft: Any = self.draft
        name = draft.feed(state.caches["draft"], feed)
        if name not in self._known:
            if len(self._known) >= LAWS_KEPT:
                self._known.clear()
            self._known[name] = _draft_law(self.transforms, draft.row(name), [])
        return self._known[name]


def copy_state(decoder: Decoder, state: State) -> State:
    """An independent copy of a state, caches included."""
    caches = {name: decoder.models[name].copy(cache) for name, cache in state.caches.items()}
    return State(list(state.tokens), state.prompt, caches, state.stop, state.history)


def state_key(decoder: Decoder, state: State) -> Hashable:
    """Equal only for states with the same future: the text, what each cache really holds, and the history of rounds.

    The history is left out where it can't matter: in the decoders of this module at a fixed γ.
    """
    held = tuple((name, decoder.models[name].key(cache)) for name, cache in state.caches.items())
    forgets = type(decoder) in (Autoregressive, Speculative) and not callable(getattr(decoder, "gamma", 0))
    return tuple(state.tokens), state.prompt, held, state.stop, () if forgets else state.history


def law_of_text(decoder: Decoder, prompt: Sequence[int] = (), *, length: int | None = None) -> dict[tuple[int, ...], Any]:
    """The exact law of the generated text (of its first ``length`` tokens, if given), by composing ``step``.

    {tokens: probability}, through the very code that decodes. Without ``length`` the stop rules must end every text.
    """
    if length is None and not decoder.stop.rules:
        raise ValueError("law_of_text needs a length or a stop rule: an endless text has no law here")
    if length is not None and length < 0:
        raise ValueError(f"length is {length}: it must be at least 0")

    def done(state: State) -> bool:
        return state.stop is not None or (length is not None and state.length >= length)

    return law_of_process(
        lambda state, chance: decoder.step(copy_state(decoder, state), chance)[1],
        decoder.start(prompt),
        done=done,
        key=lambda state: state_key(decoder, state),
        outcome=lambda state: tuple(state.generated[:length]),
    )


def law_of_count(decoder: Speculative, state: State, floor: Any = 0) -> tuple[list[Any], Any]:
    """The law of the strict rule's output count in the round after ``state``: ([P(K = 1), …, P(K = γ+1)], lost).

    P(K > j) is the sum over proposals x_1…x_j of the product of min(p, q) along them, so accepted prefixes follow min(p, q)
    and no enumeration of rejections is needed. Paths of weight below ``floor`` are dropped; ``lost`` is their total weight,
    and bounds the error of every P(K > j). The default drops none; exact models give Fractions. Another rule, a decoder
    with its own ``propose``, and a stopped state raise ``ValueError``: use ``law_of`` on their ``step``.
    """
    _check_running(state)
    if decoder.verify is not strict.verify or type(decoder).propose is not Speculative.propose:
        raise ValueError("law_of_count knows the strict rule on plain proposals only: use law_of on this decoder's step")
    gamma = decoder.round_gamma(state)
    beyond: list[Any] = [1, *([0] * gamma)]
    copy, lost = copy_state(decoder, state), 0

    def visit(path: list[int], weight: Any) -> None:
        nonlocal lost
        prefix = state.tokens + path
        target, draft = (
            _append(model, copy.caches[name], prefix[len(copy.caches[name]) :])[-1] for name, model in decoder.models.items()
        )
        q = _draft_law(decoder.transforms, draft, prefix[1:])
        if q is None:
            return
        common = np.minimum(decoder.transforms.law(target, prefix[1:]), q.values) * weight
        beyond[len(path) + 1] += common.sum()
        if len(path) + 1 < gamma:
            lost += common[common < floor].sum()
            for token in np.flatnonzero((common > 0) & (common >= floor)).tolist():
                visit([*path, token], common[token])
                for name, model in decoder.models.items():
                    model.rewind(copy.caches[name], len(prefix))

    if gamma > 0:
        visit([], 1)
    return [p - after for p, after in zip(beyond, [*beyond[1:], 0], strict=True)], lost


def rounds(decoder: Decoder, prompt: Sequence[int], chance: Chance) -> Iterator[RoundRecord]:
    """Stream the rounds until a stop rule ends the text; without one it never ends."""
    state = decoder.start(prompt)
    while state.stop is None:
        record, state = decoder.step(state, chance)
        yield record


@dataclass(frozen=True)
class Generation:
    """A finished text: its generated tokens, the origin of each, and the ledger."""

    tokens: tuple[int, ...]
    origins: tuple[str, ...]
    ledger: Ledger

    @classmethod
    def of(cls, records: list[RoundRecord]) -> "Generation":
        """The text that some rounds committed."""
        tokens = tuple(token for record in records for token in record.committed_tokens)
        origins = tuple(origin for record in records for origin in record.round.origins[: record.committed])
        return cls(tokens, origins, Ledger(records))


def generate(decoder: Decoder, prompt: Sequence[int], chance: Chance) -> Generation:
    """Decode until a stop rule or the end of the target's context ends the text; one of the two must be there."""
    check_endable(decoder)
    return Generation.of(list(rounds(decoder, prompt, chance)))


def check_endable(decoder: Decoder) -> None:
    """Raise ``ValueError`` if neither a stop rule nor the target's context ends a text."""
    if not decoder.stop.rules and math.isinf(decoder.models["target"].capacity):
        raise ValueError("generate needs a stop rule, such as Stop(length=100); use rounds() for an endless stream")


# ---- shared by both loops -----------------------------------------------------------------------------------------


class Clock:
    """Splits the wall time from its creation on into kinds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def take_up(self, seconds: float, kind: str) -> None:
        """Count a share of a pass that was timed elsewhere, and go on from now."""
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self._last = time.perf_counter()

    def lap(self, kind: str) -> None:
        """Count the time since the last lap under ``kind``."""
        now = time.perf_counter()
        self.seconds[kind] = self.seconds.get(kind, 0.0) + now - self._last
        self._last = now


def _start(models: dict[str, LanguageModel], prompt: Sequence[int], stop: Stop) -> State:
    target = models["target"]
    if not all(0 <= token < target.vocab_size for token in stop.tokens):
        raise ValueError(f"stop tokens {sorted(stop.tokens)} can't all occur: ids run from 0 to {target.vocab_size - 1}")
    check_tokens(prompt, target.vocab_size, target.start_token)
    tokens = [target.start_token, *(int(token) for token in prompt)]
    if max(tokens[1:], default=0) >= target.vocab_size:
        raise ValueError(f"the prompt holds the start token {target.start_token}: leave it out, the decoder feeds it first")
    if len(tokens) > target.capacity:
        raise ValueError(f"a prompt of {len(prompt)} tokens and the start token exceed the target's context of {target.capacity}")
    return State(tokens, len(tokens), {name: model.start() for name, model in models.items()})


def _append(model: LanguageModel, cache: Any, tokens: Sequence[int]) -> Array:
    """``model.append``, with the shape of its answer checked."""
    return check_rows(model, model.append(cache, tokens), 1)


def _hashable(transforms: Transforms) -> bool:
    """Whether every step can be a key: one that can't may change, and its laws are made as they are needed."""
    try:
        hash(transforms)
    except TypeError:
        return False
    return True


def check_rows(model: LanguageModel, scores: Array, least: int) -> Array:
    """Return scores unchanged, or raise ``ValueError`` unless they are ``least`` rows or more, of the model's size and kind."""
    if np.ndim(scores) != 2 or len(scores) < least or scores.shape[1] != model.vocab_size:
        needed = f"rows (n, {model.vocab_size}) are needed, n >= {least}"
        raise ValueError(f"{type(model).__name__}.append gave shape {np.shape(scores)}: {needed}")
    if is_exact(scores) != model.exact:
        raise ValueError(f"{type(model).__name__}.append gave dtype {scores.dtype}, and its exact is {model.exact}")
    return scores


def _prefix(transforms: Transforms, state: State, proposals: Sequence[int] = ()) -> list[int]:
    """The text before a row, without the start token; not copied together where no transform looks at it."""
    return [] if transforms.prefix_free else [*state.tokens[1:], *proposals]


def _rewind(state: State, models: dict[str, LanguageModel]) -> None:
    """Bring each cache back to the committed text, last token excluded: after a round, and after one that was broken off."""
    for name, model in models.items():
        cache = state.caches[name]
        if len(cache) > len(state.tokens) - 1:
            model.rewind(cache, len(state.tokens) - 1)


def _draft_law(transforms: Transforms, scores: Array, prefix: Sequence[int]) -> Weights | None:
    """q from one row of the draft's scores, or None if the draft or a transform leaves nothing to propose."""
    if transforms.steps and has_weight(scores):
        scores = transforms.scores(scores, prefix)
    return _exact_weights(*scores) if is_exact(scores) else _weights(scores)


def _weights(scores: Array) -> Weights | None:
    return Weights.of_rows(to_law(scores)[None])[0] if has_weight(scores) else None


@by_row
def _exact_weights(*scores: Any) -> Weights | None:
    return _weights(np.array(scores, dtype=object))


def _check_running(state: State) -> None:
    if state.stop is not None:
        raise ValueError(f"this text has stopped ({state.stop}): start a new one")


def _commit(
    state: State, models: dict[str, LanguageModel], gamma: int, round_: Round, stop: Stop, clock: Clock
) -> tuple[RoundRecord, State]:
    """Cut the round at the first stop, commit it, and rewind each cache to the committed prefix, last token excluded."""
    size = models["target"].vocab_size
    if not all(isinstance(token, INTEGERS) and 0 <= token < size for token in round_.tokens):
        raise ValueError(f"the rule emitted {round_.tokens}: each must be a token id below {size}")
    committed, reason = stop.first(state.generated, round_.tokens) if stop.rules else (len(round_.tokens), None)
    state.tokens += round_.tokens[:committed]
    if reason is None and len(state.tokens) > models["target"].capacity:
        reason = "context"
    state.stop = reason
    state.history += ((gamma, round_.accepted),)
    _rewind(state, models)
    clock.lap("state")
    return RoundRecord(gamma, round_, committed, reason, clock.seconds), state
