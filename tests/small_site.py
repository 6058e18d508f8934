"""Sphinx on a folder of a few pages, for tests: builds of one process share nothing."""

import gc
from contextlib import contextmanager

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace


@contextmanager
def small_site(folder, out, settings, warning=None):
    """An application that builds the folder's pages into ``out / "html"``; it ends with the block.

    Sphinx's defaults of both settings are objects that extensions change in place: the next build would begin with them changed.
    """
    own = {"templates_path": [], "source_suffix": {".rst": "restructuredtext"}}
    try:
        with docutils_namespace():  # a second build registers the same names again
            yield Sphinx(folder, None, out / "html", out / "trees", "html", own | settings, status=None, warning=warning)
    finally:
        gc.enable()  # `site` turns it off, and at the end leaves all as it is, for a process that only builds
        gc.unfreeze()
