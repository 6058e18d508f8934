"""The pages' sources: complete front matter, known tags, exercises that check themselves, no stray reference."""

import ast
import json
import re
import warnings
from pathlib import Path

import jupytext
import pytest
import yaml

from nbval_myst import FOLDERS, ROOT_PAGES, is_notebook, reference_of

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / name for name in ROOT_PAGES] + [path for folder in FOLDERS for path in (ROOT / folder).glob("*.md")])
NOTEBOOKS = [path for path in PAGES if path.exists() and is_notebook(path, ROOT)]
TAGS = {"measured", "raises-exception", "stub", "solution"}
TAGS |= {f"{verb}-{part}" for verb in ("hide", "remove") for part in ("input", "output", "cell")}


def reference_pages():
    """The pages of the part "Reference", which need no exercises."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    return {page["file"] for part in parts if part["caption"] == "Reference" for page in part["chapters"]}


def name(path):
    return path.relative_to(ROOT).with_suffix("").as_posix()


LESSONS = [path for path in PAGES if name(path) not in {"intro", *reference_pages()}]
notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
lessons = pytest.mark.parametrize("path", LESSONS, ids=name)


def code_cells(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


def shown(output):
    """Return the text of an output as kept in a reference."""
    return output.get("text", "") + output.get("data", {}).get("text/plain", "")


def tagged(path, tag):
    """Return what the cells with a tag print, by the page's reference."""
    reference, cells = reference_of(path, ROOT), code_cells(path)
    records = json.loads(reference.read_text("utf-8")) if reference.exists() else []
    if len(records) != len(cells):
        pytest.fail(f"the reference of {name(path)} is missing or out of date: make references")
    pairs = zip(cells, records, strict=True)
    return ["\n".join(map(shown, record["outputs"] or [])) for cell, record in pairs if tag in cell.metadata.get("tags", [])]


def says(text, words):
    """Does a line of the text begin with these words? A cell may print more than its check."""
    return any(line.startswith(words) for line in text.splitlines())


@notebooks
def test_front_matter_is_complete(path):
    """The launch buttons need every line of it."""
    matter = yaml.safe_load(path.read_text("utf-8").split("---\n")[1])
    assert matter["jupytext"]["text_representation"] == {"extension": ".md", "format_name": "myst"}
    assert matter["kernelspec"] == {"display_name": "Python 3", "language": "python", "name": "python3"}


@notebooks
def test_every_code_cell_stands_at_the_top_level(path):
    """A cell inside a directive would be shown and never run; `{exercise-start}` lets cells stand inside an exercise."""
    written = re.findall(r"^\s*[`:~]{3,}\s*\{code-cell\}", path.read_text("utf-8"), re.M)
    assert len(code_cells(path)) == len(written)


@notebooks
def test_tags_are_known(path):
    for number, cell in enumerate(code_cells(path), 1):
        assert set(cell.metadata.get("tags", [])) <= TAGS, f"cell {number}"


@lessons
def test_two_exercises_or_more_each_with_a_folded_solution(path):
    text = path.read_text("utf-8")
    exercises = re.findall(r"\{exercise(?:-start)?\}[^\n]*\n(?::\w+:[^\n]*\n)*?:label: *(\S+)", text)
    solutions = re.findall(r"\{solution(?:-start)?\} *(\S+)\n(?::\w+:[^\n]*\n)*?:class: *dropdown", text)
    assert len(exercises) >= 2
    assert sorted(solutions) == sorted(exercises)


@lessons
def test_an_exercise_checks_itself_before_and_after(path):
    stubs, solutions = tagged(path, "stub"), tagged(path, "solution")
    assert stubs
    assert all(says(text, "Not yet") and not says(text, "Right") for text in stubs), stubs
    assert solutions
    assert all(says(text, "Right") and not says(text, "Not yet") for text in solutions), solutions


@lessons
def test_length_is_a_sittings(path):
    """A warning only: a page may have its reasons."""
    prose = re.sub(r"```\{code-cell\}.*?```|\A---.*?\n---\n", "", path.read_text("utf-8"), flags=re.S)
    words = len(prose.split())
    if not 1000 <= words <= 2800:
        warnings.warn(f"{name(path)} has {words} words; 1,000 to 2,800 are a sitting", stacklevel=1)


def test_every_reference_has_its_page_and_names_no_folder_of_this_machine():
    kept = sorted((ROOT / "tests" / "reference").rglob("*.json"))
    assert set(kept) <= {reference_of(path, ROOT) for path in NOTEBOOKS}, "delete references whose page is gone"
    assert [path.name for path in kept if str(ROOT) in path.read_text("utf-8")] == []


def test_the_repositorys_address_is_the_same_everywhere():
    address = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["repository"]["url"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["repository-code"] == address
    assert address in (ROOT / "README.md").read_text("utf-8")


@notebooks
def test_every_picture_comes_with_its_words(path):
    """A figure is shown by `figures.figure`, which asks for both texts; a cell that draws by itself would show one without."""
    for number, cell in enumerate(code_cells(path), 1):
        assert unworded(cell.source) == [], f"cell {number}"


def unworded(code):
    """Return what in a cell would show a picture without alternative text and caption."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    named = [(call, getattr(call.func, "attr", getattr(call.func, "id", ""))) for call in calls]
    shown = [call for call, name in named if name == "figure"]
    wrong = [ast.unparse(call) for call in shown if not {"alt", "caption"} <= {word.arg for word in call.keywords}]
    wrong += [word for word in ("pyplot", "plt", "pylab", "%matplotlib") if re.search(rf"(?<!\w){word}\b", code)]
    drawn = any(ast.unparse(call.func) == "figures.new" for call in calls)
    return wrong + ["figures.new without figures.figure"] * (drawn and not shown)


@pytest.mark.parametrize(
    "code",
    [
        "figures.figure(fig, alt='A line')",
        "figures.figure(fig, caption='It rises')",
        "fig, ax = figures.new()\nfig",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
    ],
)
def test_a_picture_without_its_words_is_noticed(code):
    assert unworded(code)
    assert not unworded("fig, ax = figures.new()\nfigures.figure(fig, alt='A line', caption='It rises')")
