"""Characters as tokens, and texts that every reader has: the docstrings of the installed numpy and matplotlib.

They are read from the packages' source files with ``ast``, so a pinned package gives the same characters on every
Python and platform. Nothing is imported or downloaded.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

PRINTABLE = "\n" + "".join(map(chr, range(32, 127)))
"""Newline and the printable ASCII characters: the 96 symbols of the numpy text."""

NOT_READ = ("tests", "distutils", "__config__.py", "_distributor_init_local.py")
"""Passed over: numpy's tests, whose docstrings are poor, and what differs by Python version or platform."""

DOCUMENTING_CALLS = ("add_newdoc", "add_newdoc_for_scalar_type", "add_docstring", "_array_method_doc")
"""How numpy documents compiled objects: the text is the last argument of a call, or ends a tuple there."""


class Vocabulary:
    """Distinct characters with their places as ids; ``start_token`` is V, which stands for no character."""

    def __init__(self, symbols: str) -> None:
        self._ids = {symbol: token for token, symbol in enumerate(symbols)}
        if not symbols or len(self._ids) < len(symbols):
            raise ValueError(f"symbols {symbols!r} must be distinct, and at least one")
        self.symbols = symbols
        self.start_token = len(symbols)

    def __len__(self) -> int:
        return len(self.symbols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols

    def __hash__(self) -> int:
        return hash(self.symbols)

    def __repr__(self) -> str:
        return f"Vocabulary({self.symbols!r})"

    def encode(self, text: str) -> list[int]:
        """The id of each character. ``ValueError`` names the first one that has none."""
        try:
            return [self._ids[character] for character in text]
        except KeyError:
            place = next(i for i, character in enumerate(text) if character not in self._ids)
            fault = f"character {text[place]!r} at place {place} is not in the vocabulary"
            raise ValueError(f"{fault}: replace it, or add it to the symbols") from None

    def decode(self, tokens: Sequence[int]) -> str:
        """The ids' characters; the start token decodes to nothing, any id beyond raises ``ValueError``."""
        for place, token in enumerate(tokens):
            if not 0 <= token <= self.start_token:
                raise ValueError(f"token {place} is {token}: expected an id from 0 to {self.start_token}")
        return "".join(self.symbols[token] for token in tokens if token != self.start_token)


# ---- docstrings --------------------------------------------------------------------------------------------


def numpy_docstrings() -> dict[str, str]:
    """The docstrings of the installed numpy, module by module: ``docstrings`` of its folder."""
    return package_docstrings("numpy")


def package_docstrings(package: str) -> dict[str, str]:
    """The docstrings of an installed package, module by module: ``docstrings`` of its folder."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ValueError(
            f"{package} has no source files here: install the version that requirements.txt pins from its wheel"
        )
    return docstrings(Path(spec.origin).parent)


def book_docstrings() -> dict[str, str]:
    """The text of the book's transformers: the docstrings of numpy and matplotlib, 3.04 million characters."""
    return numpy_docstrings() | package_docstrings("matplotlib")


def docstrings(package_folder: Path) -> dict[str, str]:
    """{module name: its docstrings, cleaned, an empty line between two}, sorted by path.

    A module's docstrings stand in source order: its own, those of its classes and functions, and the literal
    texts in DOCUMENTING_CALLS (f-strings and computed texts are left out). NOT_READ and modules without any
    are passed over. No docstring in the whole folder raises ``ValueError``.
    """
    modules = {}
    files = {path.relative_to(package_folder): path for path in package_folder.rglob("*.py")}
    for inner, path in sorted(files.items(), key=lambda file: file[0].as_posix()):
        texts = [] if set(inner.parts) & set(NOT_READ) else [clean(text) for text in _docstrings_of(path)]
        if any(texts):
            name = ".".join((package_folder.name, *inner.with_suffix("").parts)).removesuffix(".__init__")
            modules[name] = "\n\n".join(text for text in texts if text)
    if not modules:
        raise ValueError(
            f"no docstring in the folder {package_folder.name!r}: its .py files are missing or stripped;"
            " install the version that requirements.txt pins from its wheel"
        )
    return modules


def _docstrings_of(path: Path) -> list[str]:
    """The raw docstrings of one source file, in source order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in old docstrings
        tree = ast.parse(text := path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if any(name in text for name in DOCUMENTING_CALLS) else _statements(tree)
    found = [literal for node in nodes if (literal := _documentation(node))]
    found.sort(key=lambda literal: (literal.lineno, literal.col_offset))
    return [str(literal.value) for literal in found]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and the statements inside, without their expressions: most of a tree, and no docstring stands in them."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(child)


def _documentation(node: ast.AST) -> ast.Constant | None:
    """The string literal by which a node documents something, if it does."""
    text: ast.AST | None = None
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if node.body and isinstance(node.body[0], ast.Expr):
            text = node.body[0].value
    elif isinstance(node, ast.Call) and node.args and getattr(node.func, "id", None) in DOCUMENTING_CALLS:
        text = node.args[-1]
        if isinstance(text, ast.Tuple) and text.elts:
            text = text.elts[-1]
    return text if isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def clean(docstring: str) -> str:
    """A docstring over PRINTABLE, by a rule of its own: ``inspect.cleandoc`` changes between Python versions.

    Tabs become spaces up to the next multiple of 8; the first line loses its leading spaces, the others the
    indentation that they share; spaces at the ends of lines and empty lines at both ends go; every character
    that is still not PRINTABLE becomes ``?``.
    """
    first, *others = [line.rstrip(" ") for line in docstring.expandtabs(8).split("\n")]
    margin = min((len(line) - len(line.lstrip(" ")) for line in others if line), default=0)
    text = "\n".join([first.lstrip(" "), *(line[margin:] for line in others)]).strip("\n")
    return re.sub(r"[^\n -~]", "?", text)


# ---- train and held-out ------------------------------------------------------------------------------------

HELD_OUT = ("numpy.linalg", "numpy.fft", "numpy.testing")
"""A tenth of the numpy text, as whole subpackages, because sibling modules copy each other.

Of the 40-character strings in these three, 4 % also occur in the rest. With every tenth module it would be 10
to 36 %, with ``numpy.polynomial.hermite`` alone 76 %.
"""


BOOK_HELD_OUT = (*HELD_OUT, *(f"matplotlib.{name}" for name in ("colors", "sphinxext", "ticker", "transforms", "tri")))
"""An eighth of numpy and matplotlib together; 0.4 to 2 % of the added 40-character strings also occur in the rest."""


def split(modules: dict[str, str], held_out: Sequence[str] = HELD_OUT) -> tuple[str, str]:
    """(training text, held-out text): ``held_out`` names modules, or packages with everything below them.

    The order is that of ``modules``, with an empty line between two. A name that matches nothing, or a side
    left empty, raises ``ValueError``.
    """
    for name in held_out:
        if not any(_lies_in(module, name) for module in modules):
            raise ValueError(f"{name} names no module here: choose among {', '.join(list(modules)[:5])}, …")
    sides: tuple[list[str], list[str]] = ([], [])
    for module, text in modules.items():
        sides[any(_lies_in(module, name) for name in held_out)].append(text)
    if not all(sides):
        raise ValueError(f"holding out {tuple(held_out)} of {len(modules)} modules leaves one side empty")
    return "\n\n".join(sides[0]), "\n\n".join(sides[1])


def _lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
