"""Pages run ahead of Sphinx: several at a time, each once, beside their own files; a cell that fails stops the build."""

import re
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbformat.v4 import new_code_cell, new_notebook
from sphinx.errors import ExtensionError

from small_site import small_site
from specdec.book import ahead, outlines, site
from test_notebooks import FRONT
from test_site import PAGES, ROOT

# Two pages that end only if both run at the same time: each leaves its own mark, and waits for the other's.
MEET = """import time
from pathlib import Path

with Path("{mine}").open("a") as marks:
    print("ran", file=marks)
until = time.monotonic() + {seconds}
while not Path("{other}").exists() and time.monotonic() < until:
    time.sleep(0.05)
assert Path("{other}").exists(), "alone"
"""

# 2 in a build's kernel, which has the imports that pages share (book/forked.py).
FORKED = 'import sys\n1 + (sys.platform != "linux" or "matplotlib" in sys.modules)'


def page(title, *cells, more=""):
    return FRONT + f"# {title}\n\n## Part\n\n" + "".join(f"```{{code-cell}} ipython3\n{cell}\n```\n" for cell in cells) + more


@pytest.fixture
def build(tmp_path):
    """Build pages {name: text} under an index that lists them; return the application and the names of what was written."""

    def build(pages, extensions=("specdec.book.ahead",), **settings):
        index = "# Index\n\n```{toctree}\n" + "\n".join(pages) + "\n```\n\n```{nb-exec-table}\n```\n"
        for name, text in {"index": index, **pages}.items():
            path = tmp_path / f"{name}.md"
            path.parent.mkdir(exist_ok=True)
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")
        settings = deepcopy(settings)
        settings |= {"extensions": ["myst_nb", *extensions], "exclude_patterns": ["build"]}
        settings |= {"nb_execution_mode": "cache", "nb_execution_raise_on_error": True}
        out, written = tmp_path / "build", set()
        with small_site(tmp_path, out, settings) as app:
            app.connect("html-page-context", lambda app, page, template, context, tree: tree is not None and written.add(page))
            app.build()
        return app, written

    return build


def meeting(seconds):
    return {
        "part/a": page("A", MEET.format(mine="a.txt", other="b.txt", seconds=seconds)),
        "part/b": page("B", MEET.format(mine="b.txt", other="a.txt", seconds=seconds), FORKED),
    }


def test_pages_run_at_the_same_time_each_once_in_its_own_folder_and_the_build_takes_what_they_left(build, tmp_path, monkeypatch):
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    app, written = build(meeting(60))
    assert written == {"index", "part/a", "part/b"}
    marks = {path.name: path.read_text("utf-8") for path in (tmp_path / "part").glob("*.txt")}
    assert marks == {"a.txt": "ran\n", "b.txt": "ran\n"}
    runs = {name: data["exec_data"] for name, data in app.env.nb_metadata.items() if "exec_data" in data}
    assert runs.keys() == {"part/a", "part/b"} and all(run["runtime"] > 0 and run["succeeded"] for run in runs.values())
    status = (tmp_path / "build" / "html" / "index.html").read_text("utf-8")
    assert all(f"<p>{round(run['runtime'], 2)}</p>" in status for run in runs.values())
    assert re.search(r">2\s*</pre>", (tmp_path / "build" / "html" / "part" / "b.html").read_text("utf-8"))


def test_no_run_enters_the_cache_while_another_drops_old_records(tmp_path):
    # jupyter-cache asks which records to keep, then which are not among them: one that came between is lost, or its page fails.
    cache = get_cache(tmp_path)
    cache.change_cache_limit(1000)  # makes the database too, before the threads
    runs = [CacheBundleIn(new_notebook(cells=[new_code_cell(str(number))]), "page") for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda run: cache.cache_notebook_bundle(run, check_validity=False), runs))
    assert len(cache.list_cache_records()) == 40


def test_one_page_at_a_time_would_be_noticed(build, monkeypatch):
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 1)
    with pytest.raises(ExtensionError, match="part/a: a cell fails"):
        build(meeting(1))


def test_a_cell_that_fails_stops_every_build_and_is_told_with_its_page(build):
    pages = {"good": page("Good", "1"), "bad": page("Bad", "before = 0", "1 / before")}
    for _ in range(2):
        with pytest.raises(ExtensionError, match=r"(?s)bad: a cell fails.*1 / before.*ZeroDivisionError"):
            build(pages)


def test_the_longest_pages_run_first_and_what_runs_is_read_last(monkeypatch):
    class Pool:
        def __init__(self, *_):
            pass

        def apply_async(self, run, arguments):
            return arguments[1]

        def close(self):
            pass

    monkeypatch.setattr(ahead, "ThreadPool", Pool)
    monkeypatch.setattr(ahead, "get_cache", lambda path: ahead.Namespace(db=None))
    monkeypatch.setattr(ahead, "_reader", lambda env, name: name if name.startswith("run") else None)
    env = ahead.Namespace(mystnb_config=ahead.Namespace(execution_mode="cache", execution_cache_path=""))
    config = ahead.Namespace(run_first=["run-long", "not here"], run_alone=["run-alone", "nor here"])
    app = ahead.Namespace(extensions=["myst_nb"], config=config)
    pages, runs = ["run-a", "run-alone", "run-long", "text-a", "text-b"], ahead.Ahead()
    runs.start(app, env, pages)
    assert list(runs.runs) == ["run-long", "run-a"]
    assert pages == ["text-a", "text-b", "run-long", "run-a", "run-alone"]


def test_the_pages_that_run_first_or_alone_are_pages():
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["sphinx"]["config"]
    assert {*settings["run_first"], *settings["run_alone"]} <= set(PAGES)


def test_a_change_of_a_text_writes_its_page_and_those_that_tell_of_it(build, tmp_path):
    pages = {"a": page("A", "1"), "b": page("B", "2"), "c": page("C", "3")}
    extensions = ("specdec.book.ahead", "specdec.book.notebooks")
    theme = {"html_theme": "sphinx_book_theme", "html_theme_options": {"repository_url": "https://github.com/a/b"}}
    left = tmp_path / "build" / "notebooks"
    _, first = build(pages, extensions, **theme)
    assert first == {"index", *pages}
    before = {name: (left / f"{name}.ipynb").stat().st_mtime_ns for name in pages}
    _, second = build(pages | {"b": pages["b"] + "\nMore.\n"}, extensions, **theme)
    assert second == {"index", "b"}
    after = {name: (left / f"{name}.ipynb").stat().st_mtime_ns for name in pages}
    assert [name for name in pages if after[name] != before[name]] == ["b"]
    assert "More." in (left / "b.ipynb").read_text("utf-8")
    _, third = build(pages | {"b": pages["b"] + "\nMore.\n"}, extensions, **theme)
    assert third == set()


def test_a_change_of_a_static_file_or_of_a_lab_is_seen(build, tmp_path):
    style = tmp_path / "_static" / "own.css"
    style.parent.mkdir()
    style.write_text("p { color: red }", "utf-8")
    lab = 'print("Some.")', 'from IPython.display import HTML\nHTML(\'<div class="book-lab kv-lab" data-lab="kv">form</div>\')'
    pages = {"a": page("A", lab[0]), "b": page("B", lab[1])}
    settings = {"html_static_path": ["_static"], "html_theme": "basic", "nb_mime_priority_overrides": [["html", "text/html", 5]]}
    app, _ = build(pages, ("specdec.book.site",), **settings)
    modules = {name for name, files in app.env.dependencies.items() if any(file.endswith("kv_lab.mjs") for file in files)}
    assert modules == {"b"}
    style.write_text("p { color: blue }", "utf-8")
    _, written = build(pages, ("specdec.book.site",), **settings)
    assert written == {"index"} and "blue" in (tmp_path / "build" / "html" / "_static" / "own.css").read_text("utf-8")
    _, written = build(pages, ("specdec.book.site",), **settings)
    assert written == set()


def sidebars(build, tmp_path):
    pages = {"a": "# A\n\n## One\n\n### Two\n\n```{toctree}\nb\n```\n", "b": "# B\n\n## One\n\n### Two\n"}
    build(pages | {"c": "# C *d*\n"}, ("specdec.book.site",), html_theme="sphinx_book_theme")
    made = (tmp_path / "build" / "html").glob("?.html")
    parsed = {path.name: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in made}
    return {name: str(parsed[name].select_one("nav.bd-docs-nav")) for name in parsed}


@pytest.mark.parametrize("cut", [False, True])
def test_a_sidebar_of_titles_is_the_themes_own(build, tmp_path, monkeypatch, cut):
    if cut:  # a wrong twin: titles without the pages below them
        monkeypatch.setattr(site, "_titles", lambda toc: type(toc)("", *(type(item)("", item[0].deepcopy()) for item in toc)))
    ours = sidebars(build, tmp_path)
    assert all("toctree-l1" in text and "#one" not in text for text in ours.values())
    monkeypatch.setattr(site, "shallow_sidebar", lambda *_: None)
    for path in Path(tmp_path / "build" / "html").glob("*.html"):
        path.unlink()
    assert (sidebars(build, tmp_path) == ours) is not cut


NUMBERED = """# {title}

```{{code-block}} python
:caption: {title}
:name: code-{title}
1
```

````{{exercise}} {title}
:label: exercise-{title}
```{{figure}} picture.svg
:name: figure-{title}
In an exercise.
```
````

```{{table}} {title}
:name: table-{title}
| a |
|---|
| 1 |
```

{{numref}}`figure-B` {{numref}}`exercise-B` {{numref}}`table-B` {{numref}}`code-B`
"""


def half(env, node):
    """A wrong twin: what stands in something numbered has no number."""
    copy = true_outline(env, node)
    if copy is not None and "exercise" in node.tagname:
        copy.clear()
    return copy


true_outline = outlines.outline


@pytest.mark.parametrize("made", [true_outline, half])
def test_outlines_give_the_numbers_that_pages_give(build, tmp_path, monkeypatch, made):
    monkeypatch.setattr(outlines, "outline", made)
    (tmp_path / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", "utf-8")
    pages = {name: NUMBERED.format(title=name) for name in ("A", "B", "C")}
    extensions = ("sphinx_exercise", "specdec.book.outlines")
    numbers = []
    for text in ("", "\nMore.\n", "# D\n"):  # all pages are new; one is read again; the first one is gone
        if text == "# D\n":
            (tmp_path / "A.md").unlink()
            pages = {"B": pages["B"], "C": pages["C"], "D": text}
        else:
            pages["B"] += text
        app, _ = build(pages, extensions, numfig=True)
        numbers.append(app.env.toc_fignumbers)
        assert "get_doctree" not in vars(app.env) and app.env.outlines.keys() == {"index", *pages}
    page = BeautifulSoup((tmp_path / "build" / "html" / "B.html").read_text("utf-8"), "html.parser")
    whole, _ = build(pages, ("sphinx_exercise",), numfig=True, project="all pages are read")
    assert (numbers[2] == whole.env.toc_fignumbers) is (made is true_outline)
    if made is true_outline:
        assert numbers[0] == numbers[1] and numbers[1]["B"]["figure"] == {"figure-b": (2,)}
        assert [link.text for link in page.select("p a .std-numref")] == ["Fig. 1", "Exercise 1", "Table 1", "Listing 1"]
