"""The built site by keyboard, by finger and on paper: focus is seen, controls are large enough, printed pages are whole.

Needs `_build/html` (`make book`) and Chromium; without them these tests are skipped, except in CI, where they fail.
"""

import pytest
from playwright import sync_api

from test_site import PAGES, SITE, address, browser, built, context, visit  # noqa: F401  (fixtures)
from test_site_access import STILL

FOCUSED = """() => {
  const element = document.activeElement, box = element.getBoundingClientRect();
  const shown = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const inside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const point = [(Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2,
                 (Math.max(box.top, 0) + Math.min(box.bottom, innerHeight)) / 2];
  const over = document.elementFromPoint(...point);
  const covered = over && !element.contains(over) && !over.contains(element) && !!over.closest(".bd-header-article");
  const style = getComputedStyle(element);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== "none"
    || style.textDecorationLine !== "none" && parseFloat(style.textDecorationThickness) >= 2;
  return { what: element.outerHTML.slice(0, 120), shown, inside, covered, ring, size: [box.width, box.height] };
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_focus_is_always_seen(visit, width):  # noqa: F811
    """A hundred tab stops of a lesson: each in view, not under the bar at the top, with a ring."""
    page = visit(PAGES[1], width)
    page.add_style_tag(content=STILL)
    for _ in range(100):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found["what"].startswith("<body"):
            break
        assert found["shown"] and found["inside"] and not found["covered"] and found["ring"], found


def test_solutions_unfold_by_keyboard(visit):  # noqa: F811
    name = next(name for name in PAGES if built(name).css(".solution.dropdown"))
    page = visit(name)
    solution = page.locator(".solution.dropdown").first
    button = solution.locator("button.toggle-button")
    assert button.get_attribute("aria-expanded") == "false"
    for key, unfolded in (("Enter", "true"), ("Space", "false")):
        button.focus()
        page.keyboard.press(key)
        sync_api.expect(button).to_have_attribute("aria-expanded", unfolded)


def test_code_that_scrolls_once_unfolded_is_a_tab_stop(visit):  # noqa: F811
    page = visit(PAGES[0], 390)
    fold = page.locator("details.hide").first
    fold.locator("summary").first.focus()
    page.keyboard.press("Enter")
    sync_api.expect(fold.locator("pre").first).to_have_attribute("tabindex", "0")


def test_a_quiz_on_paper_asks_and_gives_its_reasons_whether_it_was_tried_or_not(visit):  # noqa: F811
    page = visit(next(name for name in PAGES if built(name).css("form.quiz")))
    form = page.locator("form.quiz").first
    for tried in (False, True):
        if tried:
            form.locator("input").first.check()
            form.locator("button").click()
            sync_api.expect(form.locator(".quiz-status")).not_to_be_empty()
        reasons = form.locator(".quiz-reasons li")
        assert not reasons.first.is_visible(), "on the screen they are folded"
        page.emulate_media(media="print")
        assert all(reason.is_visible() and reason.bounding_box()["height"] > 10 for reason in reasons.all())
        assert all(circle.is_visible() for circle in form.locator("input").all()), "circles to mark"
        assert not form.locator(".quiz-status").is_visible() and not form.locator("button").is_visible()
        page.emulate_media(media="screen")


def test_search_works_from_a_file_too(visit):  # noqa: F811
    page = visit("search")
    page.goto((SITE / "search.html").as_uri() + "?q=residual")
    page.locator("#search-results li a").first.wait_for()
    found = page.locator("#search-results li a").evaluate_all("all => all.map((link) => link.href)")
    assert any("/chapters/one-token.html" in link for link in found)
    assert all(link.startswith("file:") for link in found)


def test_pages_lead_to_the_next_and_the_one_before():
    for before, name, after in zip([None, *PAGES[:-1]], PAGES, [*PAGES[1:], None], strict=True):
        for way, there in (("left-prev", before), ("right-next", after)):
            link = built(name).css_first(f"a.{way}")
            assert (link and (SITE / f"{name}.html").parent.joinpath(link.attrs["href"]).resolve()) == (
                there and (SITE / f"{there}.html").resolve()
            )


def test_every_page_has_the_books_own_icon():
    for name in PAGES:
        icon = built(name).css_first('link[rel="icon"]').attrs["href"]
        assert (SITE / f"{name}.html").parent.joinpath(icon).exists()
