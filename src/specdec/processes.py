"""Draft and target in two processes: what waiting and shipping cost, in step or with the draft running ahead.

The target, its verification and their chance stay in the calling process; the draft, made there by a factory so that no weights
travel, has a process and a random stream of its own. A round ships the tokens committed since the last one to the draft, and
back the proposals and, with ``ship="laws"``, the laws q that they were drawn from, as raw float64.

**Same law, other text.** One process takes proposals and verdicts from one stream in turn, two processes from two streams.
Independent uniforms are independent uniforms, so the law of the text is the same; one seed gives another text. ``TwoStreams``
in one process gives the very text of two. The streams must differ: equal seeds tie verdicts to proposals, and the law is wrong.

**Running ahead.** Its proposals sent, the draft goes on: it draws a guess of the bonus and γ proposals behind it. If the
committed tokens turn out to be its proposals and the guess, those are the next round's proposals at once; otherwise they are
thrown away. The law stays exact: verification saw neither the guess nor what lies behind it, and the streams are independent.
So given the text that now stands, and that the guess was right, the ready proposals are still drawn from q behind this text.
Whether they are used depends on tokens *before* them alone. A run ahead is never broken off: where it outlasts the target's
pass it is waited for, and the text does not depend on time.

**Shipping tokens only.** With ``ship="tokens"`` the target verifies against one-hot laws at the proposals. Any proposal that
knows nothing of the verdict's randomness may be seen as fixed, so every rule stays exact; but strict and block then accept x
with p(x), as sample-and-match does: Σ p q instead of Σ min(p, q). Fewer bytes are paid for with acceptance.
"""

import math
import multiprocessing
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Literal, cast

import numpy as np
from threadpoolctl import threadpool_limits

from specdec.chance import Chance, Random
from specdec.decoding import Gamma, Generation, RoundRecord, Speculative, State, Stop, generate
from specdec.law import Array, Transforms
from specdec.models import LanguageModel
from specdec.verification import Verify, strict

Ship = Literal["laws", "tokens"]
MakeDraft = Callable[[], LanguageModel]

PATIENCE = 120.0
"""Seconds to wait for the draft's process before giving it up."""

GRACE = 5.0
"""Seconds that the draft's process has to end by itself when it is closed."""

FACTS = ("vocab_size", "start_token", "exact", "reach", "capacity", "vocabulary")
"""What the target's side must know of the draft."""


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, seen from the target's side. In one process there is only ``ahead``.

    ``ahead``: whether proposals drawn ahead were used (True), thrown away (False), or none were there (None). ``waiting``:
    seconds from the request sent to the reply there. ``drafting``: those the draft worked on this reply, by its own clock; on a
    shared core it may begin before the sending returns. ``shipping``: seconds to encode, send, receive and decode. ``sent`` and
    ``received`` count bytes.
    """

    ahead: bool | None
    waiting: float = 0.0
    drafting: float = 0.0
    shipping: float = 0.0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class ExchangeRecord(RoundRecord):
    """A round's record, with ``synchronising`` (waiting and shipping) among its seconds in the place of ``drafting``."""

    exchange: Exchange = field(default=Exchange(None), compare=False)


@dataclass
class TwoStreams:
    """Proposals from one chance, everything else from another: in one process, the randomness of two."""

    proposing: Chance
    deciding: Chance

    def _of(self, purpose: str) -> Chance:
        return self.proposing if purpose == "propose" else self.deciding

    def uniform(self, purpose: str) -> Any:
        """A uniform of the stream for this purpose."""
        return self._of(purpose).uniform(purpose)

    def accept(self, probability: Any, purpose: str, u: Any = None) -> bool:
        """A verdict of the stream for this purpose."""
        return self._of(purpose).accept(probability, purpose, u)

    def draw(self, weights: Any, purpose: str, u: Any = None) -> int:
        """A draw of the stream for this purpose."""
        return self._of(purpose).draw(weights, purpose, u)


# ---- the draft's side -----------------------------------------------------------------------------------------------


@dataclass
class Drafted:
    """A text as the draft's side knows it: its ``text``, the proposals ``sent`` behind it, and those drawn ahead, ``ready``."""

    text: list[int]
    cache: Any
    sent: list[int] = field(default_factory=list)
    gamma: int = 0
    ready: tuple[list[int], Array] | None = None

    def __len__(self) -> int:
        return len(self.text)


class DraftSide:
    """The draft's half of the protocol. It runs in the draft's process, or by plain calls (``ask``) under any chance.

    To the decoder it looks like the draft model, as far as that is asked for there. Running ahead leaves up to 2γ + 1 tokens
    to rewind, so the draft's reach halves.
    """

    def __init__(self, model: LanguageModel, transforms: Transforms, ahead: bool = False, ship: Ship = "laws") -> None:
        if ship not in ("laws", "tokens"):
            raise ValueError(f"ship is {ship!r}: a draft ships 'laws' or 'tokens'")
        self.vocab_size, self.start_token, self.exact = model.vocab_size, model.start_token, model.exact
        self.reach, self.capacity = (model.reach + 1) / 2 if ahead else model.reach, model.capacity
        self.vocabulary = getattr(model, "vocabulary", None)
        self.model, self.ahead, self.ship = model, ahead, ship
        self.drafter = Speculative(model, model, 0, transforms)  # for its ``propose`` alone
        self.last = Exchange(None)

    def start(self) -> Drafted:
        """A text of which nothing is known."""
        return Drafted([], self.model.start())

    def rewind(self, drafted: Drafted, length: int) -> None:
        """Forget the text behind ``length``; the cache follows when it is next used."""
        del drafted.text[length:]

    def copy(self, drafted: Drafted) -> Drafted:
        """An independent copy."""
        cache = self.model.copy(drafted.cache)
        return Drafted(list(drafted.text), cache, list(drafted.sent), drafted.gamma, drafted.ready)

    def key(self, drafted: Drafted) -> Hashable:
        """All that a reply depends on."""
        ready = None if drafted.ready is None else tuple(drafted.ready[0])
        return tuple(drafted.text), self.model.key(drafted.cache), tuple(drafted.sent), drafted.gamma, ready

    def ask(self, drafted: Drafted, new: list[int], gamma: int, chance: Chance) -> tuple[list[int], Array | None]:
        """The exchange in one process. The draft runs ahead as late as it can, just before it sees the request."""
        if self.ahead:
            self.run_ahead(drafted, chance)
        proposals, q, ahead = self.respond(drafted, len(drafted), new, gamma, chance)
        self.last = Exchange(ahead)
        return proposals, q

    def respond(
        self, drafted: Drafted, held: int, new: list[int], gamma: int, chance: Chance
    ) -> tuple[list[int], Array | None, bool | None]:
        """Up to γ proposals behind ``text[:held] + new``, their laws if shipped, and whether they were ready."""
        fits = None if drafted.ready is None else held == len(drafted) and self.fits(drafted, new)
        drafted.text[held:] = new
        if drafted.ready is not None and fits:
            guess_and_more, q = drafted.ready
            proposals, q = guess_and_more[1 : gamma + 1], q[1 : gamma + 1]
        else:
            proposals, q = self._propose(drafted, drafted.text, gamma, chance)
        drafted.ready = None
        if self.ahead:
            drafted.sent, drafted.gamma = proposals, gamma
        return proposals, q if self.ship == "laws" else None, fits

    def fits(self, drafted: Drafted, new: list[int]) -> bool:
        """Whether the tokens committed are the proposals sent, all of them, and the guess."""
        assert drafted.ready is not None
        return new == drafted.sent + drafted.ready[0][:1]

    def run_ahead(self, drafted: Drafted, chance: Chance) -> None:
        """Draw a guess of the bonus and γ proposals behind it, without knowing the verdict on what was sent."""
        text = drafted.text + drafted.sent
        number = min(drafted.gamma + 1, self.capacity - len(text) + 1)
        if drafted.gamma > 0 and number > 1:
            proposals, q = self._propose(drafted, text, int(number), chance)
            drafted.ready = (proposals, q) if len(proposals) > 1 else None

    def _propose(self, drafted: Drafted, text: list[int], gamma: int, chance: Chance) -> tuple[list[int], Array]:
        if len(drafted.cache) > len(text) - 1:
            self.model.rewind(drafted.cache, len(text) - 1)
        return self.drafter.propose(State(text, 1, {"draft": drafted.cache}), gamma, chance)


# ---- the draft's process --------------------------------------------------------------------------------------------
#
# Messages are 8-byte words. Request: held, γ, the new tokens. Reply: status, number, nanoseconds, the proposals, then their laws.

FAILED, NONE_READY, THROWN_AWAY, USED = range(4)
_STATUS = {None: NONE_READY, False: THROWN_AWAY, True: USED}


def _words(*values: int) -> bytes:
    return np.array(values, dtype=np.int64).tobytes()


def _serve(pipe: Any, make_draft: MakeDraft, transforms: Transforms, seed: int, ahead: bool, ship: Ship) -> None:
    """The life of the draft's process: until an empty request, a failure, or the other end's death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the calling process decides what an interrupt means
    try:
        with threadpool_limits(1):
            side, chance = DraftSide(make_draft(), transforms, ahead, ship), Random(seed)
            pipe.send_bytes(_words(NONE_READY) + pickle.dumps({name: getattr(side, name) for name in FACTS}))
            drafted = side.start()
            while request := pipe.recv_bytes():
                begin = time.perf_counter_ns()
                held, gamma, *new = np.frombuffer(request, np.int64).tolist()
                drafted = drafted if held else side.start()
                proposals, q, fits = side.respond(drafted, held, new, gamma, chance)
                head = _words(_STATUS[fits], len(proposals), time.perf_counter_ns() - begin, *proposals)
                pipe.send_bytes(head if q is None else head + q.tobytes())
                if ahead:
                    side.run_ahead(drafted, chance)
    except BaseException:
        with suppress(OSError):  # nobody may be there to hear it
            pipe.send_bytes(_words(FAILED) + traceback.format_exc().encode())


class Remote:
    """The draft's side seen from the target's: the same calls as ``DraftSide``, each ``ask`` an exchange with the process.

    The cache of a text lists what the draft's process was told of it. The process holds one text: another is told whole. An
    exchange that fails closes the process.
    """

    vocab_size: int
    exact: bool

    def __init__(self, make_draft: MakeDraft, transforms: Transforms, seed: int, ahead: bool, ship: Ship) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        args = (theirs, make_draft, transforms, seed, ahead, ship)
        self.process = context.Process(target=_serve, args=args, daemon=True)
        self.process.start()
        theirs.close()
        self._told: list[int] | None = None
        self._laws, self.last = ship == "laws", Exchange(None)
        with self._closing():
            self._wait()
            vars(self).update(pickle.loads(self._receive()[8:]))
            if self.exact:
                raise ValueError("laws are shipped as float64: run exact models in one process, through DraftSide")

    def start(self) -> list[int]:
        """A text of which nothing was told."""
        return []

    def rewind(self, told: list[int], length: int) -> None:
        """The draft's process hears of it with the next request."""
        del told[length:]

    def copy(self, told: list[int]) -> list[int]:
        """Another text, which the draft's process has not heard of."""
        return list(told)

    def ask(self, told: list[int], new: list[int], gamma: int, chance: Chance) -> tuple[list[int], Array | None]:
        """One exchange; the draft's process takes its own chance."""
        if self._pipe.closed:
            raise RuntimeError("the draft's process was closed")
        with self._closing():
            begin = time.perf_counter()
            if told is not self._told:
                self._told, new = told, told + new
                told.clear()
            request = _words(len(told), gamma, *new)
            with suppress(BrokenPipeError, ConnectionResetError):  # why it ended may still be there to read
                self._pipe.send_bytes(request)
            told += new
            sent = time.perf_counter()
            self._wait()
            there = time.perf_counter()
            reply = self._receive()
            status, number, drafting = np.frombuffer(reply, np.int64, 3).tolist()
            proposals = np.frombuffer(reply, np.int64, number, offset=24).tolist()
            laws = np.frombuffer(reply, np.float64, offset=24 + 8 * number) if self._laws and number else np.empty(0)
            q = laws.reshape(number, self.vocab_size) if self._laws else None
            shipping = time.perf_counter() - there + sent - begin
        ahead = {status: fits for fits, status in _STATUS.items()}[status]
        self.last = Exchange(ahead, there - sent, drafting / 1e9, shipping, len(request), len(reply))
        return proposals, q

    def close(self) -> None:
        """End the draft's process: by asking, and by force where that does not help. Twice is once."""
        with suppress(OSError):
            self._pipe.send_bytes(b"")
        self._pipe.close()
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Close after any failure, an interrupt too: a reply left in the pipe would answer the wrong request."""
        try:
            yield
        except (EOFError, ConnectionResetError) as error:
            self.close()
            raise RuntimeError(f"the draft's process ended unasked, exit code {self.process.exitcode}") from error
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        if not self._pipe.poll(PATIENCE):
            raise TimeoutError(f"the draft's process gave no answer in {PATIENCE} seconds")

    def _receive(self) -> bytes:
        message = self._pipe.recv_bytes()
        if message[:8] == _words(FAILED):
            raise RuntimeError(f"the draft's process failed:\n{message[8:].decode()}")
        return message


# ---- the target's side ----------------------------------------------------------------------------------------------


class TwoProcesses(Speculative):
    """The speculative decoder with a ``DraftSide`` or ``Remote`` in the place of its draft; its records are ExchangeRecords."""

    def propose(self, state: State, gamma: int, chance: Chance) -> tuple[list[int], Array]:
        """Ask the draft's side. Without laws, q is one-hot at the proposals."""
        proposals, q = cast(Any, self.draft).ask(state.caches["draft"], state.pending("draft"), gamma, chance)
        if q is None:
            q = np.eye(self.target.vocab_size, dtype=object if self.target.exact else np.float64)[np.array(proposals, dtype=int)]
        return proposals, q

    def step(self, state: State, chance: Chance) -> tuple[RoundRecord, State]:
        """One round. Raises ``ValueError`` on a stopped state."""
        record, state = super().step(state, chance)
        seconds = {"synchronising" if kind == "drafting" else kind: value for kind, value in record.seconds.items()}
        return ExchangeRecord(**vars(record) | {"seconds": seconds}, exchange=cast(Any, self.draft).last), state


@contextmanager
def two_processes(
    make_draft: MakeDraft,
    target: LanguageModel,
    gamma: Gamma,
    transforms: Transforms | None = None,
    stop: Stop | None = None,
    verify: Verify = strict.verify,
    *,
    seed: int,
    ahead: bool = False,
    ship: Ship = "laws",
) -> Iterator[TwoProcesses]:
    """A decoder whose draft is made by ``make_draft()`` in a new process, which ends with the ``with`` block.

    ``seed`` is that of the draft's stream: give the target's chance another. Factory and transforms must be picklable, and a
    script needs ``if __name__ == "__main__"``, because the process is spawned. Both processes are held to one BLAS thread.
    ``RuntimeError`` where the draft's process fails or dies, ``TimeoutError`` where it gives no answer.
    """
    transforms, stop = transforms or Transforms(), stop or Stop()
    with threadpool_limits(1):
        remote = Remote(make_draft, transforms, seed, ahead, ship)
        try:
            yield TwoProcesses(target, cast(Any, remote), gamma, transforms, stop, verify)
        finally:
            remote.close()


# ---- measuring ------------------------------------------------------------------------------------------------------


def measure(
    alone: Speculative, make_draft: MakeDraft, prompts: Sequence[Sequence[int]], ship: Ship = "laws", seed: int = 0
) -> dict[str, dict[str, float]]:
    """Decode each prompt ``alone`` and with its draft from ``make_draft`` in a process, ``in step`` and ``ahead``, in turn.

    For each form the medians over the prompts: ``seconds`` a committed token, ``times`` those of ``alone`` on the same prompt; a
    round's ``waiting``, ``drafting`` and ``shipping`` seconds and ``sent`` and ``received`` bytes; ``used``, the share of runs
    ahead that were used. The first prompt is decoded once more before, and not counted. The texts alone and in step are equal
    when laws are shipped.
    """
    figures: dict[str, list[dict[str, float]]] = {"alone": [], "in step": [], "ahead": []}
    parts = (alone.target, alone.gamma, alone.transforms, alone.stop, alone.verify)
    proposing, forms, decoders = Random(seed), list(figures), {"alone": alone}
    with ExitStack() as stack:
        for name in forms[1:]:
            decoder = two_processes(make_draft, *parts, seed=seed, ahead=name == "ahead", ship=ship)
            decoders[name] = stack.enter_context(decoder)
        for number, prompt in enumerate([prompts[0], *prompts]):
            for name in forms[number % 3 :] + forms[: number % 3]:
                deciding = Random(seed + 1 + number)
                begin = time.perf_counter()
                made = generate(decoders[name], prompt, TwoStreams(proposing, deciding) if name == "alone" else deciding)
                figures[name].append(_figures(time.perf_counter() - begin, made))
    for texts in figures.values():
        for text, same in zip(texts, figures["alone"], strict=True):
            text["times"] = text["seconds"] / same["seconds"]
    return {name: {kind: _median(texts[1:], kind) for kind in texts[0]} for name, texts in figures.items()}


def _figures(seconds: float, made: Generation) -> dict[str, float]:
    """One text's figures: seconds a token, and means over its rounds."""
    figures = {"seconds": seconds / len(made.tokens)}
    exchanges = [record.exchange for record in made.ledger.records if isinstance(record, ExchangeRecord)]
    if exchanges:
        kinds = ("waiting", "drafting", "shipping", "sent", "received")
        figures |= {kind: fmean(getattr(exchange, kind) for exchange in exchanges) for kind in kinds}
        runs = [exchange.ahead for exchange in exchanges if exchange.ahead is not None]
        figures["used"] = fmean(runs) if runs else math.nan
    return figures


def _median(texts: Sequence[dict[str, float]], kind: str) -> float:
    """The median over the texts that have the figure; NaN if none has."""
    known = [text[kind] for text in texts if not math.isnan(text[kind])]
    return median(known) if known else math.nan
