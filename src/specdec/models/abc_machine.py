"""The running example of the book: the ABC machine, a target and a draft over three symbols, all in tenths."""

from specdec.law import exact
from specdec.models.table import Table

SYMBOLS = "ABC"
P = exact([6, 3, 1], 10)
"""The target's first row, and its only one when it forgets: the lesson's trace."""
Q = exact([2, 3, 5], 10)
"""The draft's first row. alpha = 3/5, and the residual is (1, 0, 0): degenerate, so see P2 and Q2 as well."""
P2 = exact([5, 3, 2], 10)
Q2 = exact([2, 2, 6], 10)
"""A second pair of laws whose residual, (3/4, 1/4, 0), tells the right correction from its look-alikes."""


def forgetful() -> tuple[Table, Table]:
    """Target and draft with the same rows after every prefix: acceptances are iid, as a theorem."""
    return Table(P), Table(Q)


def remembering() -> tuple[Table, Table]:
    """Target and draft whose rows depend on the last symbol; alpha is .7 after A, .4 after B, .6 after C and at the start."""
    target = exact([[1, 6, 3], [7, 1, 2], [2, 2, 6], [6, 3, 1]], 10)
    draft = exact([[4, 5, 1], [1, 6, 3], [6, 2, 2], [2, 3, 5]], 10)
    return Table(target), Table(draft)
