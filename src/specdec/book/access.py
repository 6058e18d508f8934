"""Pages for everyone: small repairs of the theme's HTML that axe-core asks for, and a page for addresses that do not exist."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment
from sphinx.application import Sphinx

# What is found, what stands there instead. Each is a fault of the theme or of an extension, not of a page of ours.
REPAIRS = (
    # A name that leaves out the words on the control: who says "click Show code cell source" is not understood.
    (r'(<summary) aria-label="Toggle hidden content"', r"\1"),
    (r'(<button class="[^"]*search-button-field[^>]*?) title="Search" aria-label="Search"', r"\1"),
    # The switch's name again: its icon has the mode as a title, which is text that the name leaves out.
    (r'(<svg class="[^"]*\btheme-switch\b[^>]*?) role="img"><title>[^<]*</title>', r'\1 aria-hidden="true">'),
    # The title of the book stands in no landmark.
    (r'<div class="sidebar-primary-item">(?=\s*<a class="navbar-brand)', '<div class="sidebar-primary-item" role="banner">'),
    # The link's line begins under the space before it.
    (r"Solution to(<a\b[^>]*>) ", r"Solution to \1"),
    # A list whose children are no items, and a role that ARIA has withdrawn.
    (r'<div role="list" class="citation-list">', '<div class="citation-list">'),
    (r' role="doc-(?:biblioentry|backlink)"', ""),
    # The corner of a table heads nothing.
    (r"<th\b[^>]*></th>|<th\b[^>]*><p></p></th>", "<td></td>"),
    # The contents beside a page open at the section in sight, by script: the first is open from the start, or the rest jumps.
    (r'(<nav id="pst-page-toc-nav"[^>]*>\s*<ul[^>]*>\s*<li class="toc-h2 nav-item toc-entry)"', r'\1 active"'),
    # Emoji in the table of runs: empty boxes where no font has them, and read out as "white heavy check mark".
    (r">\u2705<", ">ran<"),
    (r">\u274c<", ">failed<"),
)


def repaired(page: str) -> str:
    """Return a page with the repairs. Twice is once."""
    for found, instead in REPAIRS:
        page = re.sub(found, instead, page)
    return page


def missing(app: Sphinx) -> str:
    """Return the page for a wrong address. It stands alone, and its links work at any depth."""
    env = app.builder.env
    root = str(app.config.root_doc)
    link = {name: (env.titles[name].astext(), app.builder.get_target_uri(name)) for name in env.all_docs}
    trees = env.tocs[root].findall(_is_toctree)
    parts = [(tree["caption"] or "Pages", [name for _, name in tree["entries"] if name in link]) for tree in trees]
    repository = urlsplit(str(app.config.html_theme_options.get("repository_url", ""))).path.rstrip("/")
    folder = f"/{repository.rsplit('/', 1)[-1]}/" if repository else "/"
    template = Environment(autoescape=True).from_string(Path(__file__).with_name("missing.html.jinja").read_text("utf-8"))
    return template.render(title=app.config.html_title, folder=folder, root=root, pages=link, parts=parts)


def _is_toctree(node: Any) -> bool:
    return bool(node.tagname == "toctree")


def finish(app: Sphinx, error: Exception | None) -> None:
    """Add the page for wrong addresses."""
    if not error and app.builder.format == "html":
        (Path(app.outdir) / "404.html").write_text(missing(app), "utf-8")


def setup(app: Sphinx) -> None:
    """Add the page when all others stand."""
    app.connect("build-finished", finish)
