"""Pages as notebooks: what the build leaves for readers and for stock tools, and buttons that follow the repository."""

import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from bs4 import BeautifulSoup
from sphinx.errors import ExtensionError

from nbval_myst import is_notebook
from small_site import small_site
from specdec.book import notebooks
from test_site import PAGES, ROOT, SITE, built, without

NOTEBOOKS = [page for page in PAGES if is_notebook(ROOT / f"{page}.md", ROOT)]
LABS = [page for page in NOTEBOOKS if page.startswith("labs/")]
FRONT = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {name: python3, display_name: Python 3, language: python}
---

"""
PAGE = """# Title

```{exercise-start} One
:label: ex-one
```
Asked.

```{code-cell} ipython3
:tags: [stub]

1
```
```{exercise-end}
```

```{solution-start} ex-one
:class: dropdown
```
Told.

```{code-cell} ipython3
:tags: [solution]

2
```

```{code-cell} ipython3
3
```
```{solution-end}
```

Between.

:::{solution} ex-two
Told.
:::

:::{quiz} Which?
- [ ] one

  Told.
- [x] two

  Told.
:::

Last.
"""


def page_of(text):
    made = jupytext.reads(FRONT + text, "md:myst")
    return notebooks.plain(made, "https://example.org/a/b")


def test_a_stub_keeps_questions_and_drops_every_answer():
    cells = notebooks.stub(page_of(PAGE)).cells
    assert [cell.source for cell in cells if cell.cell_type == "code"] == ["1"]
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "Told" not in text and "[x]" not in text and "solution" not in text
    assert all(word in text for word in ("# Title", "Asked.", "exercise-end", "Between.", "- [ ] two", "Last."))


def test_what_is_written_needs_no_kernel_and_carries_nbvals_tag():
    cell = nbformat.v4.new_code_cell("1", metadata={"tags": ["measured"], "mystnb": {}})
    data = {notebooks.LIVE: {"model_id": "gone"}, "text/plain": "1"}
    cell.outputs = [nbformat.v4.new_output("display_data", data)]
    first, second = (notebooks.plain(nbformat.v4.new_notebook(cells=[cell]), "https://example.org/a/b") for _ in "ab")
    assert first == second, "the same file in every build"
    assert first.cells[1].metadata == {"tags": ["measured", "nbval-ignore-output"]}
    assert first.cells[1].outputs[0].data == {"text/plain": "1"}
    assert notebooks.LIVE in cell.outputs[0].data, "the input is left alone"
    assert "https://example.org/a/b" in first.cells[0].source


def opened(path):
    if not path.exists():
        without(f"{path.name} is not built: run `make book`")
    made = nbformat.read(path, as_version=4)
    nbformat.validate(made)
    return made


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_every_page_is_there_executed_for_stock_tools(page):
    made = opened(SITE.parent / "notebooks" / f"{page}.ipynb")
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code), "nbval compares only cells that ran"
    assert any(cell.outputs for cell in code)
    for cell in code:
        tags = cell.metadata.get("tags", [])
        assert ("measured" in tags) == ("nbval-ignore-output" in tags)
    assert (SITE.parent / "notebooks" / "pytest.ini").read_text("utf-8") == "[pytest]\n"


def outputs(cell):
    return str([output.get("text", output.get("data", {}).get("text/plain", "")) for output in cell.outputs])


@pytest.mark.parametrize("page", [page for page in NOTEBOOKS if "[solution]" in (ROOT / f"{page}.md").read_text("utf-8")])
def test_a_page_links_its_notebook_and_its_stub_and_both_open(page):
    links = {link.attrs["href"] for link in built(page).css("a[href$='.ipynb']")}
    whole, stub = (f"{page}{end}.ipynb" for end in ("", notebooks.STUB))
    assert {Path(SITE / f"{page}.html").parent.joinpath(link).resolve() for link in links} == {
        (SITE / "_sources" / name).resolve() for name in (whole, stub)
    }
    first, second = (opened(SITE / "_sources" / name) for name in (whole, stub))
    tagged = [[cell for cell in made.cells if "solution" in cell.metadata.get("tags", [])] for made in (first, second)]
    assert tagged[0] and not tagged[1]
    assert all("Right" in outputs(cell) for cell in tagged[0])
    checks = [cell for cell in second.cells if "stub" in cell.metadata.get("tags", [])]
    assert checks and all("Not yet" in outputs(cell) for cell in checks)
    assert not re.search(r"\{solution|- \[x\]", "".join(cell.source for cell in second.cells))


@pytest.mark.parametrize("page", LABS)
def test_a_lab_says_under_its_title_how_it_can_be_run(page):
    line = built(page).css_first("h1 + p.ways-to-run")
    assert [link.text() for link in line.css("a")] == ["open it on Binder", "download it as a notebook", "without solutions"]
    assert line.css_first("a").attrs["href"].endswith(f"?urlpath=lab/tree/{page}.md")


@pytest.fixture
def build(tmp_path):
    """Build a page with the book's theme; return its outward links."""

    def build():
        (tmp_path / "index.md").write_text(FRONT + "# Page\n\n```{code-cell} ipython3\n1\n```\n", "utf-8")
        options = {"repository_url": "https://github.com/specdec/draft-verify-correct", "repository_branch": "main"}
        options |= {"use_repository_button": True, "launch_buttons": {"binderhub_url": "https://mybinder.org"}}
        settings = {"extensions": ["myst_nb", "specdec.book.repository", "specdec.book.notebooks"]}
        settings |= {"html_theme": "sphinx_book_theme", "html_theme_options": options, "nb_execution_mode": "off"}
        with small_site(tmp_path, tmp_path, settings) as app:
            app.build()
        page = BeautifulSoup((tmp_path / "html" / "index.html").read_text("utf-8"), "html.parser")
        return [link["href"] for link in page.select("a[href^='https://']") if re.search("specdec|someone", link["href"])]

    return build


def test_buttons_open_the_configured_repository(build, monkeypatch):
    monkeypatch.delenv("BOOK_REPOSITORY", raising=False)
    monkeypatch.delenv("BOOK_BRANCH", raising=False)
    links = build()
    assert links and all("specdec/draft-verify-correct" in link for link in links)


def test_a_forks_buttons_open_the_fork(build, monkeypatch, tmp_path):
    monkeypatch.setenv("BOOK_REPOSITORY", "https://github.com/someone/their-book")
    monkeypatch.setenv("BOOK_BRANCH", "trunk")
    links = build()
    assert "https://github.com/someone/their-book" in links
    assert any("/gh/someone/their-book/trunk?" in link for link in links)
    assert not any("specdec" in link for link in links)
    first = opened(tmp_path / "notebooks" / "index.ipynb").cells[0].source
    assert "git+https://github.com/someone/their-book" in first


def test_an_address_that_is_none_is_refused(build, monkeypatch):
    monkeypatch.setenv("BOOK_REPOSITORY", "someone/their-book")
    with pytest.raises(ExtensionError, match="it must look like"):
        build()
