"""What models share whose state is simply the list of tokens held, and whose rows depend on the last few of them."""

import math
from collections.abc import Hashable

from specdec.models import check_rewind


class Window:
    """Start, rewind, copy and key of a list of tokens. ``window`` is how many last tokens a row depends on."""

    reach: float = math.inf
    capacity: float = math.inf
    window: int
    start_token: int

    def start(self) -> list[int]:
        """A state that holds nothing."""
        return []

    def rewind(self, state: list[int], length: int) -> None:
        """Keep the first ``length`` tokens."""
        check_rewind(len(state), length, self.reach)
        del state[length:]

    def copy(self, state: list[int]) -> list[int]:
        """A copy of the list."""
        return list(state)

    def key(self, state: list[int]) -> Hashable:
        """The tokens held."""
        return tuple(state)

    def context(self, state: list[int]) -> tuple[int, ...]:
        """The last ``window`` tokens, padded on the left with start tokens."""
        missing = self.window - len(state)
        return (self.start_token,) * missing + tuple(state[max(0, -missing) :])
