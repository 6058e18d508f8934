"""Fixtures for the tests of in-page labs: a page that holds labs and nothing else, and one that runs a module's text.

A test file imports them by name, `browser` too. They need Chromium; without it they skip, except in CI, where they fail.
"""

import pytest

from specdec.book import site
from test_site import browser, watched  # noqa: F401  (browser is the fixture)

HEAD = '<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Lab</title></head><body>'


def html(*labs):
    """The labs as the site mounts them."""
    bundles = [lab._repr_mimebundle_() for lab in labs]
    shown = [(bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"] for bundle in bundles]
    context = {"body": "".join(shown), "script_files": []}
    site.mount_labs(None, "page", "", context, None)
    return HEAD + context["body"] + "</body></html>"


@pytest.fixture
def open_labs(browser, tmp_path):  # noqa: F811
    """Open a page of labs from a file; `begin` is the end of its address. No page may have complained at the end."""
    pages = []

    def open_labs(*labs, begin="", width=1280, script=True, **options):
        path = tmp_path / "page.html"
        path.write_text(html(*labs), "utf-8")
        page = browser.new_page(viewport={"width": width, "height": 900}, java_script_enabled=script, **options)
        pages.append(watched(page))
        page.goto(path.as_uri() + begin)
        if script:
            page.wait_for_function(f"document.querySelectorAll('.lab-panel').length === {len(labs)}")
        return page

    yield open_labs
    for page in pages:
        assert page.complaints == []
        page.close()


@pytest.fixture
def javascript(browser):  # noqa: F811
    """Open an empty page that runs the text of a module; return it."""
    pages = []

    def javascript(text):
        page = watched(browser.new_page())
        pages.append(page)
        page.set_default_timeout(60_000)
        page.add_script_tag(content=f"{text}\nglobalThis.loaded = true;", type="module")
        assert page.complaints == []
        page.wait_for_function("globalThis.loaded")  # a module runs when the browser finds the time
        return page

    yield javascript
    for page in pages:
        page.close()


def settled(page, name):
    """Wait until the address holds a lab's setting and rests, and return it."""
    page.wait_for_function(f"location.hash.includes('{name}:')", timeout=5000)
    before, now = None, page.evaluate("location.hash")
    while now != before:  # it follows a change after a moment
        page.wait_for_timeout(600)
        before, now = now, page.evaluate("location.hash")
    return now
