"""The locks: complete for what pyproject.toml asks, without addresses, ending in the package itself."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
BOOK, TESTS = ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"


def pins(path):
    """Return the pinned version of every package in a lock; a package has one pin on every Python."""
    lines = [line.split(";")[0].strip() for line in path.read_text("utf-8").splitlines() if re.match(r"\w", line)]
    pairs = [(canonicalize_name(line.split("==")[0]), line.split("==")[1]) for line in lines]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


@pytest.mark.parametrize(
    ("asked", "lock"),
    [(PROJECT["project"]["dependencies"], BOOK), (PROJECT["dependency-groups"]["test"], TESTS)],
    ids=["book", "tests"],
)
def test_a_lock_holds_what_the_project_asks(asked, lock):
    pinned = pins(lock)
    for wanted in map(Requirement, asked):
        assert pinned[canonicalize_name(wanted.name)] in wanted.specifier, f"{wanted}: run `make lock`"


def test_the_two_locks_agree():
    book, tests = pins(BOOK), pins(TESTS)
    assert {name: book[name] for name in book.keys() & tests.keys()} == {name: tests[name] for name in book.keys() & tests.keys()}


@pytest.mark.parametrize("lock", [BOOK, TESTS], ids=["book", "tests"])
def test_a_lock_names_no_index_and_no_folder(lock):
    text = lock.read_text("utf-8")
    assert "make lock" in text
    assert not re.search(r"://|--(extra-)?index|find-links|@ *file", text)


def test_the_books_lock_ends_in_the_package_itself():
    assert BOOK.read_text("utf-8").rstrip().endswith("\n-e .")
