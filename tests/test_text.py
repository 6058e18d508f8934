"""The vocabulary, the docstring reader on a package with every case, and the text of the pinned numpy."""

import hashlib
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  loads the profile of the whole suite
from specdec.models.text import (
    BOOK_HELD_OUT,
    HELD_OUT,
    PRINTABLE,
    Vocabulary,
    book_docstrings,
    clean,
    docstrings,
    numpy_docstrings,
    package_docstrings,
    split,
)

NUMPY_TEXT = {"2.4.6": (131, 1_740_371, "b4677940728af8144545e7e51c02512a")}
"""{numpy version: modules, their characters, start of the SHA-256 of the modules joined by empty lines}."""
MATPLOTLIB_TEXT = {"3.11.2": (135, 1_298_024, "07346b4dc2737846d285be790745bb6a")}
"""The same of matplotlib. Its wheels for Linux, macOS and Windows, Python 3.11 to 3.13, were seen to agree."""


@pytest.fixture(scope="module")
def modules() -> dict[str, str]:
    return numpy_docstrings()


# ---- vocabulary --------------------------------------------------------------------------------------------


@given(st.text(alphabet=PRINTABLE))
def test_decoding_undoes_encoding(text):
    vocabulary = Vocabulary(PRINTABLE)
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_ids_are_places_and_the_start_token_comes_after_them():
    vocabulary = Vocabulary("ABC")
    assert vocabulary.encode("CAB") == [2, 0, 1]
    assert (len(vocabulary), vocabulary.start_token) == (3, 3)
    assert vocabulary.decode([3, 2, 3, 0]) == "CA"
    assert len(Vocabulary(PRINTABLE)) == 96


def test_an_unknown_character_is_named_with_its_place():
    with pytest.raises(ValueError, match=r"'é' at place 2 .*replace it"):
        Vocabulary("ABC").encode("ABéC")


@pytest.mark.parametrize("token", [-1, 4])
def test_decode_refuses_ids_outside(token):
    with pytest.raises(ValueError, match=f"token 1 is {token}: expected an id from 0 to 3"):
        Vocabulary("ABC").decode([0, token])


@pytest.mark.parametrize("symbols", ["", "ABA"])
def test_symbols_must_be_distinct_and_some(symbols):
    with pytest.raises(ValueError, match="distinct"):
        Vocabulary(symbols)


def test_equal_by_symbols_in_order():
    assert Vocabulary("AB") == Vocabulary("AB") and hash(Vocabulary("AB")) == hash(Vocabulary("AB"))
    assert Vocabulary("AB") != Vocabulary("BA")
    assert Vocabulary("AB") != "AB"


# ---- the reader --------------------------------------------------------------------------------------------

MODULE = '''"""Module."""
"not a docstring: it comes second"
import nowhere
raise SystemExit("imported")

class A:
    """Class
       indented \\d
    """
    def method(self):
        "Method."
        x = "no docstring"
    async def later(self):
        """Async."""

def computed(name):
    f"""An f-string is no docstring {name}."""

def bytes_():
    b"Neither are bytes."

add_newdoc("m", "bare", """Bare.""")
add_newdoc("m", "pair", ("attribute", """In a
    tuple."""))
add_newdoc("m", "computed", ("attribute", f"""Left {out}."""))
add_newdoc_for_scalar_type("byte", "(x)", "Scalar.")
_array_method_doc("sort", "axis", "Array method.")
add_docstring(object, "Added.")
other("m", "o", "Other calls.")
x.add_newdoc("m", "o", "Not by that name.")
def last(): """Last."""
'''
EXPECTED = "Module.|Class\nindented \\d|Method.|Async.|Bare.|In a\ntuple.|Scalar.|Array method.|Added.|Last."


@pytest.fixture
def package(tmp_path):
    def write(name: str, source: str) -> None:
        path = tmp_path / "pkg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")

    write("__init__.py", '"""Package."""')
    write("b.py", MODULE)
    write("a/deep.py", '"""Deep\u2014\u00e9."""')
    write("a/__init__.py", '"""Package a."""')
    write("silent.py", "x = 1")
    for passed_over in (
        "tests/t.py",
        "a/tests/t.py",
        "distutils/d.py",
        "__config__.py",
        "_distributor_init_local.py",
    ):
        write(passed_over, '"""Passed over."""')
    return tmp_path / "pkg"


@pytest.mark.filterwarnings("error")
def test_reads_every_docstring_in_source_order_and_nothing_else(package):
    assert docstrings(package)["pkg.b"].split("\n\n") == EXPECTED.split("|")


def test_modules_are_sorted_by_path_and_named_after_it(package):
    assert list(docstrings(package)) == ["pkg", "pkg.a", "pkg.a.deep", "pkg.b"]
    assert docstrings(package)["pkg.a.deep"] == "Deep??."


def test_line_endings_do_not_matter(package):
    before = docstrings(package)
    source = package / "b.py"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert docstrings(package) == before


def test_a_folder_without_docstrings_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "m.py").write_text("x = 1")
    with pytest.raises(ValueError, match=r"no docstring in the folder.*requirements.txt"):
        docstrings(tmp_path)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("  One line.  ", "One line."),
        ("First\n      second\n    third\n", "First\n  second\nthird"),
        ("\n    First\n\n      second  \n  ", "First\n\n  second"),
        ("a\tb\n\tc\n        d", "a       b\nc\nd"),
        ("\u03b1 \x0c\r\x85\u2028.", "? ????."),
        (" \n \n", ""),
    ],
)
def test_cleaning_follows_its_stated_rule(raw, cleaned):
    assert clean(raw) == cleaned


# ---- numpy's text ------------------------------------------------------------------------------------------


def test_numpy_text_is_large_and_printable(modules):
    text = "".join(modules.values())
    assert 1_500_000 < len(text) < 2_500_000
    assert set(text) == set(PRINTABLE)
    assert text.count("?") < 200  # so few characters were replaced at most


def test_numpy_text_holds_python_newdoc_and_method_docstrings_but_no_tests(modules):
    assert "Return evenly spaced numbers over a specified interval." in modules["numpy._core.function_base"]
    assert "Flat iterator object to iterate over arrays." in modules["numpy._core._add_newdocs"]
    assert "a.__array_namespace__(*, api_version=None)" in modules["numpy._core._add_newdocs"]
    assert "Complex number type composed of two" in modules["numpy._core._add_newdocs_scalars"]
    assert not [name for name in modules if {"tests", "distutils", "__config__"} & set(name.split("."))]


def test_every_reader_of_the_pinned_numpy_has_this_text(modules):
    assert np.__version__ in NUMPY_TEXT, "a new numpy is pinned: look at its text, then add its length and digest here"
    digest = hashlib.sha256("\n\n".join(modules.values()).encode()).hexdigest()[:32]
    assert (len(modules), sum(map(len, modules.values())), digest) == NUMPY_TEXT[np.__version__]


def test_a_numpy_without_sources_is_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr("specdec.models.text.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"requirements.txt"):
        numpy_docstrings()


# ---- matplotlib's, and the two together --------------------------------------------------------------------


@pytest.fixture(scope="module")
def matplotlib_modules() -> dict[str, str]:
    return package_docstrings("matplotlib")


def test_every_reader_of_the_pinned_matplotlib_has_this_text(matplotlib_modules):
    assert version("matplotlib") in MATPLOTLIB_TEXT, "a new matplotlib is pinned: look at its text, then add it here"
    digest = hashlib.sha256("\n\n".join(matplotlib_modules.values()).encode()).hexdigest()[:32]
    found = (len(matplotlib_modules), sum(map(len, matplotlib_modules.values())), digest)
    assert found == MATPLOTLIB_TEXT[version("matplotlib")]


def test_matplotlib_text_is_printable_and_holds_what_people_read(matplotlib_modules):
    text = "".join(matplotlib_modules.values())
    assert set(text) == set(PRINTABLE)
    assert text.count("?") < 500
    assert "Plot y versus x as lines and/or markers." in matplotlib_modules["matplotlib.axes._axes"]
    assert not [name for name in matplotlib_modules if "tests" in name.split(".")]


def test_the_books_text_is_numpys_and_then_matplotlibs(monkeypatch):
    monkeypatch.setattr("specdec.models.text.docstrings", lambda folder: {folder.name: "its text"})
    assert list(book_docstrings()) == ["numpy", "matplotlib"]


def test_the_books_split_holds_out_an_eighth_that_the_rest_hardly_copies(modules, matplotlib_modules):
    train, held_out = split(modules | matplotlib_modules, BOOK_HELD_OUT)
    assert 0.11 < len(held_out) / (len(train) + len(held_out)) < 0.13
    assert set(train) == set(held_out) == set(PRINTABLE)
    for name in BOOK_HELD_OUT[len(HELD_OUT) :]:
        assert split(matplotlib_modules, [name])[1] in held_out
    added = split(matplotlib_modules, BOOK_HELD_OUT[len(HELD_OUT) :])
    assert copied(added[1], added[0]) < 0.02  # as the docstring of BOOK_HELD_OUT says


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(ValueError, match=r"nowhere_at_all has no source files here.*requirements.txt"):
        package_docstrings("nowhere_at_all")


# ---- split -------------------------------------------------------------------------------------------------

TOY = {"p": "0", "p.a": "1", "p.a.x": "2", "p.ab": "3", "q": "4"}


def test_split_takes_a_module_with_all_below_it_but_not_its_namesakes():
    assert split(TOY, ["p.a"]) == ("0\n\n3\n\n4", "1\n\n2")
    assert split(TOY, ("q", "p.ab")) == ("0\n\n1\n\n2", "3\n\n4")


@pytest.mark.parametrize("held_out", [("p.c",), ("p", "q"), ()])
def test_split_refuses_unknown_names_and_empty_sides(held_out):
    with pytest.raises(ValueError, match=r"names no module|leaves one side empty"):
        split(TOY, held_out)


def test_numpy_split_holds_out_a_tenth_that_the_rest_hardly_copies(modules):
    train, held_out = split(modules)
    whole = "\n\n".join(modules.values())
    assert len(train) + len(held_out) + 2 == len(whole)
    assert 0.09 < len(held_out) / len(whole) < 0.11
    assert copied(held_out, train) < 0.05  # as the docstring of HELD_OUT says
    assert copied(*reversed(split(modules, ["numpy.polynomial.hermite"]))) > 0.7
    assert HELD_OUT == ("numpy.linalg", "numpy.fft", "numpy.testing")


def copied(text: str, source: str, length: int = 40) -> float:
    """The share of the strings of ``length`` in ``text`` that occur in ``source`` too."""
    known = {source[i : i + length] for i in range(len(source) - length + 1)}
    windows = [text[i : i + length] for i in range(len(text) - length + 1)]
    return sum(window in known for window in windows) / len(windows)
