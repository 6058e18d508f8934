"""The notebook collector itself: every way in which a wrong page might pass, tried on a small book."""

import json
from pathlib import Path

import pytest

from nbval_myst import is_notebook, reference_of

HEAD = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n# A page\n\n"


def cell(source, *tags):
    """Return the text of one code cell."""
    lines = f":tags: [{', '.join(tags)}]\n\n" if tags else ""
    return f"```{{code-cell}} ipython3\n{lines}{source}\n```\n\n"


def record(source, shown=None, measured=False):
    """Return what a reference holds for a cell whose value is shown as the given text."""
    outputs = [{"output_type": "execute_result", "data": {"text/plain": shown}}] if shown else []
    return {"source": source, "outputs": None if measured else outputs}


@pytest.fixture
def book(pytester, monkeypatch):
    """A folder with room for pages, and runs of pytest upon it with nbval, xdist and the collector alone."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\n")

    class Book:
        root = pytester.path

        def write(self, *cells, name="chapters/page.md", reference=None):
            """Write a page and, where given, its reference: pairs of a source and the value shown."""
            page = self.root / name
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(HEAD + "".join(cells), "utf-8")
            path = reference_of(page, self.root)
            if reference:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps([record(*pair) for pair in reference]), "utf-8")
            return path

        def run(self, *arguments):
            plugins = [f"-p{name}" for name in ("nbval.plugin", "xdist.plugin", "nbval_myst", "no:cacheprovider")]
            return pytester.runpytest(*plugins, *arguments)

        def update(self, *arguments):
            return self.run("--update-references", *arguments)

    return Book()


def test_a_page_passes_against_its_own_outputs_and_fails_when_one_changes(book):
    reference = book.write(cell("x = 2\nprint(x)\nx"), cell("x + 1"))
    book.update().assert_outcomes(passed=2)
    book.run().assert_outcomes(passed=2)
    text = reference.read_text("utf-8")
    reference.write_text(text.replace('"text/plain": "3"', '"text/plain": "4"'), "utf-8")
    assert reference.read_text("utf-8") != text
    result = book.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Cell outputs differ*", '*-*"text/plain": "4"', '*+*"text/plain": "3"'])


def test_order_of_outputs_counts(book):
    reference = book.write(cell("print('first')\n1"))
    book.update().assert_outcomes(passed=1)
    records = json.loads(reference.read_text("utf-8"))
    records[0]["outputs"].reverse()
    reference.write_text(json.dumps(records), "utf-8")
    book.run().assert_outcomes(failed=1)


def test_a_missing_reference_fails_even_for_one_cell_without_output(book):
    book.write(cell("x = 1"))
    result = book.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no reference for this cell*make references*"])


@pytest.mark.parametrize(
    "cells",
    [
        [cell("x = 1"), cell("3 - x")],  # same output, other source
        [cell("x = 1"), cell("x + 1"), cell("y = 1")],  # a cell more
        [cell("x = 1")],  # a cell less
        [cell("x = 1"), cell("x + 1", "measured")],  # no longer compared
    ],
    ids=["edited", "added", "removed", "tagged"],
)
def test_a_reference_older_than_its_page_fails(book, cells):
    book.write(*cells, reference=[("x = 1", None), ("x + 1", "2")])
    result = book.run()
    result.assert_outcomes(passed=len(cells) - 1, failed=1)
    result.stdout.fnmatch_lines(["*; look at the change, then renew the reference: make references*"])


def test_a_measured_cell_may_print_anything_but_not_raise(book):
    source = "import os, time\nassert not os.path.exists('broken'), 'broken'\ntime.time_ns()"
    reference = book.write(cell(source, "measured"))
    book.update().assert_outcomes(passed=1)
    assert json.loads(reference.read_text("utf-8"))[0]["outputs"] is None
    book.run().assert_outcomes(passed=1)
    (book.root / "chapters" / "broken").touch()  # also shows that a page runs in its own folder
    book.run().assert_outcomes(failed=1)


@pytest.mark.parametrize("options", [[], ["-x"]], ids=["whole", "interrupted"])
def test_a_cell_that_raises_fails_an_update_and_keeps_the_reference(book, options):
    reference = book.write(cell("1 / 0"), cell("2"), reference=[("1", "1"), ("2", "2")])
    before = reference.read_text("utf-8")
    result = book.update(*options)
    result.stdout.fnmatch_lines(["*ZeroDivisionError*"])
    if options:
        result.assert_outcomes(failed=1)
    else:  # the last cell fails too, and says that nothing was written
        result.assert_outcomes(failed=2)
        result.stdout.fnmatch_lines(["*the reference is left as it was: cells [[]1[]]*"])
    assert reference.read_text("utf-8") == before
    assert [path.name for path in reference.parent.iterdir()] == ["page.json"]


@pytest.mark.parametrize("choice", [["-k", "Cell 2"], ["chapters/page.md::Cell 1"]], ids=["-k", "node"])
def test_a_partial_update_is_refused_and_keeps_the_reference(book, choice):
    reference = book.write(cell("10"), cell("20"), reference=[("1", "1"), ("2", "2")])
    before = reference.read_text("utf-8")
    assert book.update(*choice).ret == pytest.ExitCode.USAGE_ERROR
    assert reference.read_text("utf-8") == before


def test_pictures_and_figures_keep_only_their_text(book):
    show = "from IPython.display import display\n"
    html = "display({'text/html': '<figure><svg></svg></figure>', 'text/plain': 'Figure: a line'}, raw=True)"
    image = "display({'image/png': 'aGk=', 'text/plain': 'a picture'}, raw=True)"
    reference = book.write(cell(show + html + "\n" + image))
    book.update().assert_outcomes(passed=1)
    outputs = json.loads(reference.read_text("utf-8"))[0]["outputs"]
    assert [out["data"] for out in outputs] == [{"text/plain": "Figure: a line"}, {"text/plain": "a picture"}]


def test_an_expected_exception_is_compared_by_name_and_message(book):
    reference = book.write(cell("int('a')", "raises-exception"))
    book.update().assert_outcomes(passed=1)
    book.run().assert_outcomes(passed=1)
    reference.write_text(reference.read_text("utf-8").replace("ValueError", "TypeError"), "utf-8")
    book.run().assert_outcomes(failed=1)


@pytest.mark.parametrize(
    "text",
    [cell("1", "nbval-skip"), cell("# NBVAL_IGNORE_OUTPUT\n1"), cell("1", "measured", "raises-exception")],
)
def test_no_other_way_to_leave_a_cell_out(book, text):
    book.write(text)
    book.run().assert_outcomes(errors=1)


def test_lax_mode_and_regexes_are_not_obeyed(book):
    book.write(cell("2"), reference=[("2", "3")])
    (book.root / "blank.cfg").write_text("[numbers]\nregex: \\d+\nreplace: N\n", "utf-8")
    book.run("--nbval-lax", "--nbval-sanitize-with=blank.cfg").assert_outcomes(failed=1)


def test_two_pages_run_in_parallel_each_in_its_own_kernel(book):
    for name in ("chapters/one.md", "labs/two.md", "intro.md"):
        book.write(cell(f"name = {name!r}"), cell("name"), name=name)
    book.update("-n", "2").assert_outcomes(passed=6)
    book.run("-n", "2").assert_outcomes(passed=6)


def test_only_the_books_pages_are_notebooks(tmp_path):
    page = HEAD + cell("1")
    for name in ("chapters/a.md", "labs/b.md", "intro.md", "README.md", "tests/c.md", "chapters/d.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, "utf-8")
    (tmp_path / "chapters/prose.md").write_text("# Only words\n", "utf-8")
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*") if is_notebook(p, tmp_path)}
    assert found == {"chapters/a.md", "labs/b.md", "intro.md"}


def test_the_page_skeleton_in_contributing_runs_as_it_stands(book):
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text("utf-8")
    skeleton = text.split("`````markdown\n")[1].split("`````\n")[0]
    reference = book.write(name="chapters/copied.md")
    (book.root / "chapters/copied.md").write_text(skeleton, "utf-8")
    book.update().assert_outcomes(passed=4)
    shown = [record["outputs"][0]["data"]["text/plain"] for record in json.loads(reference.read_text("utf-8"))[1:]]
    assert shown[0] == "Figure: Bars at 0.6, 0.3 and 0.1."
    assert shown[1].startswith("Not yet: for p=")
    assert shown[2].startswith("Right: 2 cases agree.")
