"""Buttons that follow the repository which publishes the book: a fork's site opens the fork.

``_config.yml`` names the repository. Where a workflow publishes, BOOK_REPOSITORY and BOOK_BRANCH take its place.
"""

import os
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+")


def follow(app: Sphinx, config: Config) -> None:
    """Put the publishing repository into the theme's options, from which buttons and notebooks take it."""
    address, branch = os.environ.get("BOOK_REPOSITORY"), os.environ.get("BOOK_BRANCH")
    if address:
        if not ADDRESS.fullmatch(address):
            raise ExtensionError(f"BOOK_REPOSITORY is {address!r}: it must look like https://github.com/OWNER/NAME")
        config.html_theme_options["repository_url"] = address
    if branch:
        config.html_theme_options["repository_branch"] = branch


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("config-inited", follow)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
