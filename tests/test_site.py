"""The built site: its table of contents, pictures, quizzes and solutions. What each page does in a browser: test_site_pages.py.

Needs `_build/html` (`make book`) and Chromium; without them these tests are skipped, except in CI, where they fail.
"""

import functools
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from playwright import sync_api
from selectolax.lexbor import LexborHTMLParser

from specdec.book import weigh

ROOT = Path(__file__).parent.parent
SITE = ROOT / "_build" / "html"
PAGES = re.findall(r"^\s*(?:root|- file): *(\S+)$", (ROOT / "_toc.yml").read_text("utf-8"), re.M)
OTHERS = ["search", "genindex", "py-modindex", "prf-prf", "404"]  # made by Sphinx and by us, and in no table of contents


def without(reason):
    """Skip, or fail where everything is supposed to be there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def path_of(page):
    """Where a page of the built site is."""
    path = SITE / f"{page}.html"
    if not path.exists():
        without(f"{page}.html is not built: run `make book`")
    return path


@functools.cache
def built(page):
    """Return the parsed page of the built site, which all tests share: leave it as it is."""
    return LexborHTMLParser(path_of(page).read_text("utf-8"))  # BeautifulSoup takes 50 times as long: 11 s for all pages


@pytest.fixture(scope="module")
def address():
    """The site, served on loopback."""
    with weigh.served(SITE) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    """A Chromium; see `weigh.chromium` for which."""
    try:
        program = weigh.chromium()
    except FileNotFoundError as error:
        without(str(error))
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=weigh.FLAGS)
        yield chromium
        chromium.close()


def watched(page):
    """Note what a page complains of."""
    page.complaints = []
    page.on("console", lambda message: message.type == "error" and page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    return page


def guarded(page, address):
    """Note what a page of the site complains of, and what it asks for elsewhere."""
    watched(page).outside = []
    page.on("response", lambda answer: answer.status >= 400 and page.complaints.append(answer.url))
    inside = (address, "data:", "blob:")
    page.on("request", lambda request: request.url.startswith(inside) or page.outside.append(request.url))
    return page


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
        path_of(name)
        page = guarded(context(width, scheme, script).new_page(), address)
        pages.append(page)
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
def test_page_repeats_no_id(name):
    ids = Counter(tag.attrs["id"] for tag in built(name).css("[id]"))
    assert [key for key, number in ids.items() if number > 1] == []


def undescribed(page):
    """The pictures whose alternative text is missing or too short to say what is seen, or whose caption adds nothing."""
    found = [picture.attrs["src"] for picture in page.css("img") if not (picture.attrs.get("alt") or "").strip()]
    captions = {picture.mem_id: figure.css_first("figcaption") for figure in page.css("figure") for picture in figure.css("svg")}
    for picture in page.css(".cell_output svg"):
        caption, alt = captions.get(picture.mem_id), (picture.attrs.get("aria-label") or "").strip()
        caption = caption.text().strip() if caption else ""
        if picture.attrs.get("role") != "img" or len(alt) < 30 or len(caption) < 15 or alt == caption:
            found.append(f"{alt}: say what is seen; {caption}: state the finding")
    return found


@pytest.mark.parametrize("name", PAGES)
def test_page_describes_its_pictures(name):
    assert undescribed(built(name).css_first("article")) == []


ALT, CAPTION = "Two lines that cross at one half of p", "They cross at one half."


@pytest.mark.parametrize(
    ("role", "alt", "caption", "wrong"),
    [("img", ALT, CAPTION, 0), ("", ALT, CAPTION, 1), ("img", "Lines", CAPTION, 1), ("img", ALT, "", 1), ("img", ALT, ALT, 1)],
)
def test_a_picture_without_its_words_is_seen(role, alt, caption, wrong):
    picture = f'<figure><svg role="{role}" aria-label="{alt}"></svg><figcaption>{caption}</figcaption></figure>'
    page = LexborHTMLParser(f'<div class="cell_output">{picture}</div><img src="x.png" alt=" ">')
    assert len(undescribed(page)) == wrong + 1


def pages_with_quizzes():
    found = [name for name in PAGES if built(name).css("form.quiz")]
    assert found, "the book has quizzes"
    return found


def test_quizzes_name_every_field_and_fold_their_reasons_without_javascript(visit):
    name = pages_with_quizzes()[0]
    for field in built(name).css("form.quiz input"):
        assert built(name).css_first(f"form.quiz label[for={field.attrs['id']}]").text().strip()
    form = visit(name, script=False).locator("form.quiz").first
    assert not form.locator("button").is_visible()
    assert not form.locator(".quiz-reasons").is_visible()
    form.locator("summary").focus()
    form.page.keyboard.press("Enter")
    assert form.locator(".quiz-reasons").is_visible()


def test_folded_solutions_open_and_hold_their_cells(visit):
    name = next(name for name in PAGES if built(name).css(".solution .cell"))
    page = visit(name)
    solution = page.locator(".solution:has(.cell)").first
    cell = solution.locator(".cell").first
    assert not cell.is_visible()
    solution.locator("button").first.focus()
    page.keyboard.press("Enter")
    cell.wait_for(state="visible", timeout=2000)
