"""Small result tables: HTML with header scopes on the page, aligned text elsewhere. Fractions print exactly."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResultTable:
    """A table that Jupyter and the site show as HTML, and a terminal as text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str

    def __repr__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([self.caption, *text])

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            first, *rest = (html.escape(cell) for cell in cells)
            scope = "col" if tag == "th" else "row"
            body = "".join(f'<th scope="col">{cell}</th>' if tag == "th" else f"<td>{cell}</td>" for cell in rest)
            return f'<tr><th scope="{scope}">{first}</th>{body}</tr>'

        caption = html.escape(self.caption)
        body = "".join(row("td", cells) for cells in self.rows)
        return (
            f'<div class="result-table" role="region" aria-label="{caption}" tabindex="0"><table><caption>{caption}</caption>'
            f"<thead>{row('th', self.header)}</thead><tbody>{body}</tbody></table></div>"
        )


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> ResultTable:
    """A table of results; the caption states what it shows. Floats are shown to 4 significant digits, all else by ``str``."""
    cells = tuple(tuple(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) for row in rows)
    if not caption.strip():
        raise ValueError("a table needs a caption that says what it shows")
    for number, row in enumerate(cells):
        if len(row) != len(header):
            raise ValueError(f"table row {number} has {len(row)} cells, the header {len(header)}")
    return ResultTable(tuple(header), cells, caption)
