"""Fixtures for the tests of in-page labs: a page that holds labs and nothing else, and one that runs a module's text.

A test file imports them by name, with `browser`, `free_tabs` and `tab`, which they use. They need Chromium; without it they skip,
except in CI, where they fail.
"""

from collections import defaultdict

import pytest

from specdec.book import site
from test_site import browser, watched  # noqa: F401  (browser is the fixture)

HEAD = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Lab</title>'
HEAD += '<meta name="viewport" content="width=device-width"></head><body>'


def html(*labs):
    """The labs as the site mounts them."""
    bundles = [lab._repr_mimebundle_() for lab in labs]
    shown = [(bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"] for bundle in bundles]
    context = {"body": "".join(shown), "script_files": []}
    site.mount_labs(None, "page", "", context, None)
    return HEAD + context["body"] + "</body></html>"


@pytest.fixture(scope="module")
def free_tabs():
    """Tabs that no test uses at the moment, by width and whether scripts run."""
    return defaultdict(list)


@pytest.fixture
def tab(browser, free_tabs):  # noqa: F811
    """Take an empty tab, one that an earlier test left where there is one: a new one takes the time of three pages."""
    taken = []

    def tab(width=1280, script=True):
        free = free_tabs[width, script]
        page = free.pop() if free else None
        if page is None:
            page = watched(browser.new_page(viewport={"width": width, "height": 900}, java_script_enabled=script))
            page.set_default_timeout(60_000)
        taken.append((free, page))
        return page

    yield tab
    for free, page in taken:
        page.goto("about:blank")
        page.complaints.clear()
        free.append(page)


@pytest.fixture
def open_labs(tab, tmp_path):
    """Open a page of labs from a file; `begin` is the end of its address. No page may have complained at the end."""
    pages = []

    def open_labs(*labs, begin="", **kind):
        path = tmp_path / "page.html"
        path.write_text(html(*labs), "utf-8")
        page = tab(**kind)
        pages.append(page)
        page.goto(path.as_uri() + begin)
        if kind.get("script", True):
            page.wait_for_function(f"document.querySelectorAll('.lab-panel').length === {len(labs)}")
        return page

    yield open_labs
    assert [page.complaints for page in pages if page.complaints] == []


@pytest.fixture
def javascript(tab):
    """Open an empty page that runs the text of a module; return it."""

    def javascript(text):
        page = tab()
        page.add_script_tag(content=f"{text}\nglobalThis.loaded = true;", type="module")
        assert page.complaints == []
        page.wait_for_function("globalThis.loaded")  # a module runs when the browser finds the time
        return page

    return javascript


def settled(page, name):
    """Wait until the address holds a lab's setting and rests, and return it."""
    page.wait_for_function(f"location.hash.includes('{name}:')", timeout=5000)
    before, now = None, page.evaluate("location.hash")
    while now != before:  # it follows a change after a moment
        page.wait_for_timeout(400)
        before, now = now, page.evaluate("location.hash")
    return now


def busy(page, move):
    """Seconds of the page's scripts: their own time on the processor, so that other work on the machine hardly counts."""
    watch = page.context.new_cdp_session(page)
    watch.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent():
        return next(each["value"] for each in watch.send("Performance.getMetrics")["metrics"] if each["name"] == "ScriptDuration")

    page.evaluate(move)  # once before, until the engine knows the script
    before = spent()
    page.evaluate(move)
    return spent() - before
