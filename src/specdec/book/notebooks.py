"""Pages as notebooks: executed and with outputs, or stubs without solutions; for readers to download, and for stock tools.

A Sphinx extension. Nothing runs here: the outputs are those that the build has made.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from nbformat import NotebookNode
from sphinx.application import Sphinx

IGNORE = "nbval-ignore-output"  # nbval's own tag, which `measured` becomes
LIVE = "application/vnd.jupyter.widget-view+json"  # refers to a kernel that is gone
STUB = "-stub"
FENCE = re.compile(r"\s*([`:~]{3,})(.*)")
HEADER = """This notebook is a page of *Draft, Verify, Correct*. It needs the book's library, once in its environment:
`pip install "git+{address}"`"""


def plain(notebook: NotebookNode, address: str) -> NotebookNode:
    """Return an executed page for stock tools: nbval's tag, outputs that need no kernel, the same ids in every build.

    ``address`` is the repository's, from which the first cell says to install the library.
    """
    cells = [_markdown(HEADER.format(address=address))]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cells.append(_markdown(cell.source))
            continue
        tags = cell.metadata.get("tags", [])
        tags = [*tags, IGNORE] if "measured" in tags else tags
        outputs = [NotebookNode(out) for out in cell.outputs]
        for out in outputs:
            if LIVE in out.get("data", {}):
                out["data"] = {mime: data for mime, data in out["data"].items() if mime != LIVE}
        ran = NotebookNode(execution_count=cell.execution_count, outputs=outputs)
        ran.metadata = NotebookNode(tags=tags) if tags else NotebookNode()
        cells.append(NotebookNode(ran, cell_type="code", source=cell.source))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {key: notebook.metadata[key] for key in ("kernelspec", "language_info") if key in notebook.metadata}
    return NotebookNode(nbformat=4, nbformat_minor=5, metadata=NotebookNode(kernel), cells=cells)


def _markdown(text: str) -> NotebookNode:
    """A cell as nbformat's own function makes it; that validates each cell, and `_save` validates the notebook."""
    return NotebookNode(cell_type="markdown", metadata=NotebookNode(), source=text)


def stub(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without solutions: no solution cell, no text of one, no mark and no reason at a quiz's answers."""
    kept, inside = [], False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if not inside and "solution" not in cell.metadata.get("tags", []):
                kept.append(cell)
            continue
        text, inside = _without_solutions(cell.source, inside)
        if text:
            kept.append(NotebookNode(cell, source=text))
    return NotebookNode(notebook, cells=kept)


def _without_solutions(text: str, inside: bool) -> tuple[str, bool]:
    """Return the text outside of solutions, and whether its end stands inside one; ``inside`` says so of its begin."""
    kept: list[str] = []
    directive, close = "", ""  # the directive that the line stands in, and the fence that ends it
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if close:
            ends = fence is not None and fence[1].startswith(close) and not fence[2].strip()
            if directive == "quiz" and not ends and line.strip():
                if not line.startswith(" "):
                    kept.append(line.replace("- [x]", "- [ ]"))
            elif not inside and not directive.startswith("solution"):
                kept.append(line)
            if ends:
                inside, directive, close = inside and directive != "solution-end", "", ""
            continue
        if fence and fence[2].startswith("{"):
            directive, close = fence[2][1:].split("}")[0], fence[1]
            inside = inside or directive == "solution-start"
        if not inside and not directive.startswith("solution"):
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n"), inside


def offer(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Link the stub of a page in the theme's download menu; a lab also says under its title how it can be run."""
    menus = {menu["label"]: menu["buttons"] for menu in context.get("header_buttons", []) if "buttons" in menu}
    if "download-buttons" not in menus or not _built(app, page).exists():
        return
    whole, part = (f"{context['pathto']('_sources', 1)}/{page}{end}.ipynb" for end in ("", STUB))
    links = [f'<a href="{whole}" download>download it as a notebook</a>, with outputs']
    if write(app, page):
        button = {"type": "link", "url": part, "text": "no solutions", "icon": "fas fa-pencil", "label": "download-stub-button"}
        menus["download-buttons"].insert(1, button | {"tooltip": "Download the notebook without solutions"})
        links.append(f'or <a href="{part}" download>without solutions</a>')
    if page.startswith("labs/"):
        links[:0] = [f'<a href="{button["url"]}">open it on {button["text"]}</a>' for button in menus.get("launch-buttons", [])]
        line = f'<p class="ways-to-run">To run this lab: {", ".join(links)}.</p>'
        context["body"] = context["body"].replace("</h1>", "</h1>\n" + line, 1)


def write(app: Sphinx, page: str) -> bool:
    """Write a page as the build has run it: into the site, where `offer` links it, and for stock tools beside the site.

    Returns whether there is a stub too. In ``notebooks`` an empty pytest.ini keeps a plain ``pytest --nbval`` from reading
    the settings of this repository.
    """
    site, build = Path(app.outdir) / "_sources", Path(app.outdir).parent
    whole = plain(_executed(app, page), app.config.html_theme_options.get("repository_url", ""))
    _save(whole, site / f"{page}.ipynb", build / "notebooks" / f"{page}.ipynb")
    (build / "notebooks" / "pytest.ini").write_text("[pytest]\n", "utf-8")
    solved = _has_solutions(whole)
    if solved:
        _save(stub(whole), site / f"{page}{STUB}.ipynb", build / "stubs" / f"{page}{STUB}.ipynb")
    return solved


def _built(app: Sphinx, page: str) -> Path:
    """Return where MyST-NB leaves a page that it ran."""
    return Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"


def _executed(app: Sphinx, page: str) -> NotebookNode:
    """Return a page with its outputs. From a page that it took from the cache, MyST-NB leaves the code alone."""
    notebook = nbformat.read(_built(app, page), as_version=4)
    settings: Any = app.env.mystnb_config  # type: ignore[attr-defined]
    if settings.execution_mode == "cache":
        with suppress(KeyError):
            _, notebook = get_cache(settings.execution_cache_path).merge_match_into_notebook(notebook)
    return notebook


def _has_solutions(notebook: NotebookNode) -> bool:
    return any("solution" in cell.metadata.get("tags", []) for cell in notebook.cells)


def _save(notebook: NotebookNode, *paths: Path) -> None:
    text = nbformat.writes(notebook) + "\n"
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("html-page-context", offer, priority=900)  # after the theme has made its menus
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
