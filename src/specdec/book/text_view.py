"""A generated text with its accepted, corrected and bonus characters told apart: by underlines and boxes, and in plain signs.

No mark rests on colour; all take the page's own, so they read in light and dark. The plain form is for terminals and for
readers who hear the page.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from specdec.decoding import Generation
from specdec.models.text import Vocabulary

STYLES = {
    "prompt": "opacity: 0.75",
    "drawn": "",
    "accepted": "text-decoration: underline; text-decoration-thickness: 1px; text-underline-offset: 3px",
    "correction": "outline: 1.5px solid currentColor; outline-offset: -1px; font-weight: bold",
    "bonus": "text-decoration: underline double; text-decoration-thickness: 1px; text-underline-offset: 3px; font-weight: bold",
}
"""Inline, so that Jupyter shows the same as the site."""

PAGE = (
    "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.8; letter-spacing: 0.06em; background: none; color: inherit"
)

SIGNS = {"prompt": "{}", "drawn": "{}", "accepted": "{}", "correction": "‹{}›", "bonus": "{}⁺"}
"""Outside ASCII, so that no character of the text is taken for a sign."""


class MarkedText:
    """The characters of a text, each with its origin: ``prompt``, ``accepted``, ``correction``, ``bonus`` or ``drawn``."""

    def __init__(self, characters: str, origins: Sequence[str]) -> None:
        if len(characters) != len(origins):
            raise ValueError(f"{len(characters)} characters with {len(origins)} origins: each needs one")
        self.characters, self.origins = characters, tuple(origins)

    def runs(self) -> Iterator[tuple[str, str]]:
        """(text, origin) of each stretch of one origin; a correction or bonus stands alone, and its newline is shown."""
        pairs = enumerate(zip(self.characters, self.origins, strict=True))
        single = ("correction", "bonus")
        for (origin, _), run in groupby(pairs, lambda pair: (pair[1][1], pair[0] if pair[1][1] in single else -1)):
            yield "".join(character for _, (character, _) in run), origin

    def __repr__(self) -> str:
        return "".join(SIGNS[origin].format(_shown(text, origin)) + _break(text, origin) for text, origin in self.runs())

    def _repr_html_(self) -> str:
        marked = "".join(_span(html.escape(_shown(text, origin)), origin) + _break(text, origin) for text, origin in self.runs())
        present = [origin for origin in STYLES if origin in self.origins]
        legend = ", ".join(f"{_span(origin, origin)} ({self.origins.count(origin)})" for origin in present)
        signed = {"correction", "bonus"} & set(present)
        signs = (
            "<details><summary>The same in plain signs: ‹correction›, bonus⁺</summary>"
            f'<pre style="{PAGE}">{html.escape(repr(self))}</pre></details>'
        )
        return (
            '<figure class="book-figure marked-text" style="margin: 1em 0; text-align: start; color: inherit">'
            f'<figcaption style="text-align: start; color: inherit">{legend}</figcaption>'
            f'<pre style="{PAGE}">{marked}</pre>{signs if signed else ""}</figure>'
        )


class SideBySide:
    """Marked texts in columns under their titles, one below the other where the page is narrow."""

    def __init__(self, columns: Mapping[str, MarkedText]) -> None:
        self.columns = dict(columns)

    def __repr__(self) -> str:
        return "\n\n".join(f"{title}\n{text!r}" for title, text in self.columns.items())

    def _repr_html_(self) -> str:
        column = '<div style="flex: 1 1 18rem; min-width: 0"><p style="margin: 0.5em 0 0"><strong>{}</strong></p>{}</div>'
        columns = (column.format(html.escape(title), text._repr_html_()) for title, text in self.columns.items())
        return f'<div style="display: flex; flex-wrap: wrap; gap: 0 2em">{"".join(columns)}</div>'


def marked(generation: Generation, vocabulary: Vocabulary, prompt: str = "") -> MarkedText:
    """The text of a generation after its prompt, ready to be shown. Where nothing was ever proposed, all of it is ``drawn``."""
    text = prompt + vocabulary.decode(generation.tokens)
    origins = generation.origins if generation.ledger.total("gamma") else ("drawn",) * len(generation.tokens)
    return MarkedText(text, ("prompt",) * len(prompt) + origins)


def _shown(text: str, origin: str) -> str:
    return "↵" if text == "\n" and origin in ("correction", "bonus") else text


def _break(text: str, origin: str) -> str:
    return "\n" if _shown(text, origin) != text else ""


def _span(escaped: str, origin: str) -> str:
    return f'<span style="{STYLES[origin]}">{escaped}</span>'
