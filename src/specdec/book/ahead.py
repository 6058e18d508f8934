"""Pages run several at a time while Sphinx reads the others; MyST-NB alone would run one after another.

A Sphinx extension. MyST-NB's own client runs a page and puts it into the cache, where it is when Sphinx reads the page.
"""

import os
import threading
from functools import wraps
from multiprocessing.pool import AsyncResult, ThreadPool
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

from jupyter_cache import get_cache
from jupyter_cache.cache.main import JupyterCacheBase
from myst_nb.core.execute import ExecutionError, create_client
from myst_nb.core.loggers import SphinxDocLogger
from myst_nb.core.read import NbReader, create_nb_reader
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from specdec.book import forked

_cache, _caching = JupyterCacheBase.cache_notebook_bundle, threading.Lock()


@wraps(_cache)
def _cache_one_at_a_time(*arguments: Any, **settings: Any) -> Any:
    """Let no two runs enter the cache at once: one drops old records by two queries, and takes what came between for old."""
    with _caching:
        return _cache(*arguments, **settings)


JupyterCacheBase.cache_notebook_bundle = _cache_one_at_a_time  # type: ignore[method-assign]


class Ahead:
    """The runs of one build, by page."""

    def __init__(self) -> None:
        self.runs: dict[str, AsyncResult[None]] = {}

    def start(self, app: Sphinx, env: Any, pages: list[str]) -> None:
        """Let the pages with cells run, as many at a time as there are cores, and move them behind the others.

        Those named by ``run_first`` start first: the longest, or one would still run when all others have ended. Those named by
        ``run_alone`` are left to MyST-NB, which runs them after all others, since they are read last.
        """
        if "myst_nb" not in app.extensions or env.mystnb_config.execution_mode != "cache":
            return
        forked.use()
        get_cache(env.mystnb_config.execution_cache_path).db  # noqa: B018  # made here, since two runs would both make it
        alone = [page for page in app.config.run_alone if page in pages]
        found = {page: reader for page in pages if page not in alone and (reader := _reader(env, page))}
        first = [page for page in app.config.run_first if page in found]
        order = dict.fromkeys([*first, *found])
        pages[:] = [page for page in pages if page not in found and page not in alone] + [*order, *alone]
        self.pool = ThreadPool(os.cpu_count())  # its threads end with the build, even one that is interrupted
        self.runs = {page: self.pool.apply_async(_run, (env, page, found[page])) for page in order}
        self.pool.close()

    def wait(self, app: Sphinx, page: str, content: list[str]) -> None:
        """Wait until a page that Sphinx is about to read has run; ``ExtensionError`` tells of the cell that failed."""
        if run := self.runs.pop(page, None):
            try:
                run.get()
            except ExecutionError as failed:
                raise ExtensionError(f"{page}: a cell fails\n{failed.__cause__}") from failed


def _reader(env: Any, page: str) -> NbReader | None:
    """How MyST-NB reads a page, if it is a notebook."""
    path = env.doc2path(page)
    return create_nb_reader(path, env.myst_config, env.mystnb_config, Path(path).read_text("utf-8"))


def _run(env: Any, page: str, reader: NbReader) -> None:
    """Run a page as MyST-NB does, unless the cache has it; what fails is told under the page's name."""
    path = env.doc2path(page)
    notebook = reader.read(Path(path).read_text("utf-8"))
    logger = SphinxDocLogger(Namespace(settings=Namespace(env=Namespace(docname=page))))
    with create_client(notebook, path, env.mystnb_config, logger, reader.read_fmt):
        pass


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    ahead = Ahead()
    for name in ("run_first", "run_alone"):
        app.add_config_value(name, [], "")
    app.connect("env-before-read-docs", ahead.start)
    app.connect("source-read", ahead.wait)
    app.connect("build-finished", lambda app, failure: forked.leave())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
