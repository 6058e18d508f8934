"""The built site in a browser: it asks nothing of other servers, fits a phone, and its quizzes work by keyboard.

Needs `_build/html` (`make book`) and Chromium; without them these tests are skipped, except in CI, where they fail.
"""

import functools
import http.server
import os
import re
import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright import sync_api

ROOT = Path(__file__).parent.parent
SITE = ROOT / "_build" / "html"
PAGES = re.findall(r"^\s*(?:root|- file): *(\S+)$", (ROOT / "_toc.yml").read_text("utf-8"), re.M)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


def without(reason):
    """Skip, or fail where everything is supposed to be there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def built(page):
    """Return the parsed page of the built site."""
    path = SITE / f"{page}.html"
    if not path.exists():
        without(f"{page}.html is not built: run `make book`")
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


@pytest.fixture(scope="module")
def address():
    """The site, served on loopback."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, or the one named by CHROMIUM."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        without("no Chromium: apt install chromium, or set CHROMIUM to its path")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def context(browser):
    """Browser contexts, each made once, so that the theme's fonts and scripts are read once."""

    @functools.cache
    def context(width, scheme, script):
        viewport = {"width": width, "height": 900}
        return browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=script)

    return context


@pytest.fixture
def visit(context, address):
    """Open a page of the site and note what it complains of and what it asks for."""
    pages = []

    def visit(name, width=1280, scheme="light", script=True):
        built(name)
        page = context(width, scheme, script).new_page()
        pages.append(page)
        page.complaints, page.outside = [], []
        page.on("console", lambda message: message.type == "error" and page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("response", lambda answer: answer.status >= 400 and page.complaints.append(answer.url))
        inside = (address, "data:", "blob:")
        page.on("request", lambda request: request.url.startswith(inside) or page.outside.append(request.url))
        page.goto(address + name + ".html")
        return page

    yield visit
    for page in pages:
        page.close()


def test_the_table_of_contents_names_every_page_once():
    assert len(PAGES) == len(set(PAGES)) > 1
    assert yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["root"] == PAGES[0]
    written = [path for folder in ("chapters", "labs") for path in (ROOT / folder).glob("*.md")]
    left_out = {path.relative_to(ROOT).with_suffix("").as_posix() for path in written} - set(PAGES)
    assert not left_out


@pytest.mark.parametrize("name", PAGES)
def test_page_is_quiet_and_needs_no_other_server(visit, name):
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = visit(name, width, scheme)
        assert page.outside == []
        assert page.complaints == []
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"the page is {overflow} pixels wider than a screen of {width}"
        assert page.locator(".math").count() == page.locator(".math > mjx-container").count()
        assert page.locator("mjx-merror, [data-mjx-error]").all_inner_texts() == []


@pytest.mark.parametrize("name", PAGES)
def test_page_repeats_no_id(name):
    ids = Counter(tag["id"] for tag in built(name).find_all(id=True))
    assert [key for key, number in ids.items() if number > 1] == []


@pytest.mark.parametrize("name", PAGES)
def test_page_describes_its_pictures(name):
    article = built(name).select_one("article")
    for picture in article.select(".cell_output svg"):
        assert picture.get("role") == "img"
        assert picture["aria-label"].strip()
        assert picture.find_parent("figure").figcaption.text.strip()
    for picture in article.find_all("img"):
        assert picture.get("alt", "").strip(), picture["src"]


def pages_with_quizzes():
    found = [name for name in PAGES if built(name).select("form.quiz")]
    assert found, "the book has quizzes"
    return found


def test_quizzes_work_by_keyboard_alone(visit):
    for name in pages_with_quizzes():
        page = visit(name)
        for form in page.locator("form.quiz").all():
            button, status = form.locator("button"), form.locator("[role=status]")
            assert not form.locator("details").is_visible()
            button.focus()
            page.keyboard.press("Enter")
            sync_api.expect(status).to_have_text("Choose an answer first.")
            verdicts = [answer(page, form, number) for number in range(form.locator("input").count())]
            first_words = [verdict.split("right.")[0] for verdict in verdicts]
            assert sum(words.endswith(") is ") for words in first_words) == 1, verdicts
            assert sum(words.endswith(") is not ") for words in first_words) == len(verdicts) - 1, verdicts
            assert all(len(verdict.split("right.", 1)[1].strip()) > 10 for verdict in verdicts), "each has a reason"
            assert form.locator("details").is_visible()
        assert page.complaints == []


def answer(page, form, number):
    """Choose an answer with the arrow keys from the first one, check it, and return what the status says."""
    form.locator("input").first.focus()
    page.keyboard.press("Space")
    for _ in range(number):
        page.keyboard.press("ArrowDown")
    assert form.locator("input").nth(number).is_checked()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Check"
    page.keyboard.press("Enter")  # empties the status at once, and fills it a moment later
    status = form.locator("[role=status]")
    sync_api.expect(status).not_to_be_empty()
    return status.inner_text()


def test_quizzes_name_every_field_and_fold_their_reasons_without_javascript(visit):
    name = pages_with_quizzes()[0]
    for field in built(name).select("form.quiz input"):
        assert built(name).select_one(f"form.quiz label[for={field['id']}]").text.strip()
    form = visit(name, script=False).locator("form.quiz").first
    assert not form.locator("button").is_visible()
    assert not form.locator(".quiz-reasons").is_visible()
    form.locator("summary").focus()
    form.page.keyboard.press("Enter")
    assert form.locator(".quiz-reasons").is_visible()


def test_folded_solutions_open_and_hold_their_cells(visit):
    name = next(name for name in PAGES if built(name).select(".solution .cell"))
    page = visit(name)
    solution = page.locator(".solution:has(.cell)").first
    cell = solution.locator(".cell").first
    assert not cell.is_visible()
    solution.locator("button").first.focus()
    page.keyboard.press("Enter")
    cell.wait_for(state="visible", timeout=2000)
