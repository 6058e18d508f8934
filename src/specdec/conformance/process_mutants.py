"""Wrong twins of the two-process protocol, and two look-alikes that are right: what may be reused is a matter of independence.

Any law is a legal q, even one behind a text that no longer stands, if it is the law that the proposals were really drawn from
and verification has not looked at them. Stale proposals then change acceptance, not the law of the text.
"""

from collections.abc import Hashable

from specdec.chance import Chance
from specdec.law import Array
from specdec.processes import Drafted, DraftSide


class UncheckedGuess(DraftSide):
    """Uses what it drew ahead whenever all was accepted, whatever the bonus. Right, since it ships the laws behind its guess."""

    def fits(self, drafted: Drafted, new: list[int]) -> bool:
        """The guess is not compared."""
        return len(new) == len(drafted.sent) + 1


class RelabelledGuess(UncheckedGuess):
    """The same, with q looked up behind the text that stands: not the laws that the proposals were drawn from."""

    def respond(
        self, drafted: Drafted, held: int, new: list[int], gamma: int, chance: Chance
    ) -> tuple[list[int], Array | None, bool | None]:
        """The right proposals for the guess, the laws for the bonus."""
        proposals, q, fits = super().respond(drafted, held, new, gamma, chance)
        if fits and proposals:
            scores = self.model.append(self.model.start(), drafted.text + proposals)[len(drafted.text) - 1 : -1]
            q = self.drafter.transforms.laws(scores, drafted.text[1:], proposals)
        return proposals, q, fits


class Salvage(DraftSide):
    """After a rejection it proposes what lay behind it once more, with the laws that it was drawn from.

    Right under the strict rule, which never looks behind a rejection; wrong under block, which has judged it already.
    """

    def respond(
        self, drafted: Drafted, held: int, new: list[int], gamma: int, chance: Chance
    ) -> tuple[list[int], Array | None, bool | None]:
        """What was proposed last and lies behind the new tokens, if anything; else new proposals."""
        sent, q = drafted.ready or ([], None)
        drafted.ready = None
        drafted.text[held:] = new
        if q is not None and len(new) < len(sent):
            proposals, q = sent[len(new) :][:gamma], q[len(new) :][:gamma]
            self.model.rewind(drafted.cache, min(len(drafted.cache), len(drafted.text) - 1))
        else:
            proposals, q, _ = super().respond(drafted, held, new, gamma, chance)
        drafted.ready = None if q is None else (proposals, q)
        return proposals, q, None

    def key(self, drafted: Drafted) -> Hashable:
        """The laws too: they depend on the token rejected, which nothing else remembers."""
        return super().key(drafted), None if drafted.ready is None else tuple(map(tuple, drafted.ready[1]))
