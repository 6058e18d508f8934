"""What the cards of all trained models share: the text, the vocabulary, and what others need for the same text."""

import hashlib
import lzma
from importlib.metadata import version

from specdec.models.ngram import NGram, bits_per_character
from specdec.models.text import BOOK_HELD_OUT, Vocabulary

ORDERS = range(4, 9)
"""Of the n-grams tried: on the book's text the best one lies well inside."""

HOW_COMPARED = {
    "xz_alone": "8 × the bytes of `xz -9e` of the held-out text, a character",
    "xz_after_training": "8 × (the bytes of `xz -9e` of training and held-out text in one stream, less those of the training"
    " text), a held-out character; xz's window holds both texts",
    "witten_bell": f"NGram of the best order of {ORDERS[0]} to {ORDERS[-1]}, over the whole held-out text",
}
"""How each figure of ``comparisons`` was found."""


def digest(content: str | bytes) -> str:
    """SHA-256 in hexadecimal; a text counts as UTF-8."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def text(training: str, held_out: str) -> dict[str, object]:
    """Where the two sides of the book's text come from, and which they are."""
    return {
        "source": "docstrings, by specdec.models.text.book_docstrings",
        "packages": {package: version(package) for package in ("numpy", "matplotlib")},
        "held_out_modules": list(BOOK_HELD_OUT),
        "training": {"characters": len(training), "sha256": digest(training)},
        "held_out": {"characters": len(held_out), "sha256": digest(held_out)},
    }


def vocabulary(characters: Vocabulary) -> dict[str, object]:
    """The symbols in the order of their ids, the start token's id, and what ``text.clean`` writes for other characters."""
    return {"symbols": characters.symbols, "start_token": characters.start_token, "fallback": "?"}


def comparisons(training: str, held_out: str, characters: Vocabulary) -> dict[str, object]:
    """Bits per character of the held-out text by xz and by the best n-gram (see HOW_COMPARED)."""
    alone, before, both = (_compressed(side) for side in (held_out, training, training + held_out))
    tokens, scored = (characters.encode(side) for side in (training, held_out))
    found = {order: bits_per_character(NGram(tokens, characters, order), scored) for order in ORDERS}
    best = min(found, key=found.__getitem__)
    return {
        "xz_alone": round(8 * alone / len(held_out), 4),
        "xz_after_training": round(8 * (both - before) / len(held_out), 4),
        "witten_bell": {"order": best, "bits": round(found[best], 4)},
    }


def _compressed(side: str) -> int:
    """Bytes of a text after ``xz -9e``."""
    return len(lzma.compress(side.encode(), preset=9 | lzma.PRESET_EXTREME))
