"""Numbers of figures, exercises and proofs from an outline of each page.

A Sphinx extension. Sphinx numbers them in every build that reads a page, and for that loads and walks all pages' trees.
"""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def outline(env: BuildEnvironment, node: nodes.Element) -> nodes.Element | None:
    """Return what numbers depend on in a page's tree: sections, trees of pages, what is numbered, and what holds these."""
    found = [(child, outline(env, child)) for child in node.children if isinstance(child, nodes.Element)]
    whole = isinstance(node, nodes.document | nodes.section | addnodes.toctree)
    numbered = not whole and any(domain.get_enumerable_node_type(node) for domain in env.domains.values())
    # A domain looks at an element's children to tell whether it is numbered: without a title or caption it isn't.
    parts = [part or _text(child) for child, part in found if part or numbered]
    if not (whole or numbered or parts):
        return None
    copy = nodes.document(None, None) if isinstance(node, nodes.document) else node.copy()
    copy += parts
    return copy


def _text(node: nodes.Element) -> nodes.Element:
    return node.deepcopy() if isinstance(node, nodes.title | nodes.caption) else node.copy()


def _outlines(env: Any) -> dict[str, nodes.Element]:
    """The outlines of all pages that were read, kept with the environment."""
    if not hasattr(env, "outlines"):
        env.outlines = {}
    return env.outlines  # type: ignore[no-any-return]


def keep(app: Sphinx, doctree: nodes.document) -> None:
    """Outline a page that was read."""
    made = outline(app.env, doctree)
    assert made is not None, "a document is always outlined"
    for node in made.findall():
        node.document = None  # or the environment would hold the whole page
    _outlines(app.env)[app.env.docname] = made


def forget(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    """Drop the outline of a page that is read again or gone."""
    _outlines(env).pop(page, None)


def show(app: Sphinx, env: Any) -> list[str]:
    """Let Sphinx number the outlines, where a page has one."""
    load, outlines = env.get_doctree, _outlines(env)
    env.get_doctree = lambda page: outlines[page] if page in outlines else load(page)
    return []


def hide(app: Sphinx, env: Any) -> list[str]:
    """Let it see the pages again."""
    del env.get_doctree
    return []


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("doctree-read", keep, priority=1000)
    app.connect("env-purge-doc", forget)
    app.connect("env-get-updated", show, priority=1)
    app.connect("env-get-updated", hide, priority=1000)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
