"""The built site for everyone: how axe-core is asked, and that what the theme brings (search, menu, switch) works.

Needs `_build/html` (`make book`) and Chromium, like test_site.py.
"""

import functools
import re
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import TimeoutError, expect

from specdec.book import access, weigh
from test_site import OTHERS, PAGES, SITE, address, browser, built, context, path_of, visit  # noqa: F401  (fixtures among them)

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# Outside WCAG's tags, but the theme broke them.
MORE = ["label-content-name-mismatch", "region", "empty-table-header", "aria-deprecated-role"]

# Faults of the theme's that stand for now: page, axe's rule, and the upstream reason. An entry that is not needed fails.
KNOWN: dict[str, dict[str, str]] = {}

# Colours fade when the theme changes, and would be judged half-way.
STILL = "*, ::before, ::after { transition: none !important; animation: none !important }"


# A word's contrast follows from its look, and axe takes 6 ms for a word: of thousands of a look it judges two, as one may be out
# of its sight. A look is a word's own colours, whether WCAG takes it for large, and what is behind it, as far as one can see. The
# words of drawings axe leaves to people, whatever their colour: test_figures.py and test_lab.py judge those.
# The pages of a site share most looks: one with which two pages had no fault is not judged again.
FAULTLESS = Counter()
WORDS = """(known) => {
  const seen = new Map(known.map((look) => [look, 2])), grounds = new Map([[null, ""]]);
  const ground = (box) => {
    if (!grounds.has(box)) {
      const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(box);
      const behind = ground(box.parentElement), opaque = backgroundColor.startsWith("rgb(") && !behind.includes("through");
      const own = [backgroundColor, backgroundImage, opacity === "1" ? "" : `through ${opacity}`, position];
      const plain = ["rgba(0, 0, 0, 0)", "none", "", "static", "relative"];
      grounds.set(box, (opaque ? "" : behind) + own.filter((part) => !plain.includes(part)));
    }
    return grounds.get(box);
  };
  for (const element of document.body.querySelectorAll("*:not(mjx-container *, svg *)")) {
    const worded = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!worded && !element.matches("input, select, textarea")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element), points = 0.75 * parseFloat(fontSize);
    const look = [color, points >= 18 || (points >= 14 && fontWeight >= 700), textShadow, ground(element)].join();
    seen.set(look, (seen.get(look) ?? 0) + 1);
    if (seen.get(look) <= 2) element.dataset.judged = "";
  }
  return [...seen.keys()];
}"""
# What no rule has a say on, most of a page: words that are not judged, in a line or in code, become plain text; so do formulas
# in a line, whose letters have its colour, and what other formulas say to screen readers; and the shapes of drawings, each one
# picture to a screen reader, go unless they can be reached or have a role of their own.
PLAIN = """() => {
  const backwards = (selector) => [...document.querySelectorAll(selector)].reverse();
  for (const formula of backwards("main mjx-container:not([display])")) formula.replaceWith(formula.textContent);
  document.querySelectorAll("mjx-math").forEach((formula) => formula.replaceChildren());
  document.querySelectorAll("mjx-assistive-mml > math").forEach((formula) => formula.replaceChildren(formula.textContent));
  for (const word of backwards("main :is(em, strong, code, span:is(.math, .std, .doc), :is(pre, .sig) span)"))
    if (word.getAttributeNames().every((name) => name === "class") && !word.querySelector("[data-judged]"))
      word.replaceWith(...word.childNodes);
  for (const shape of backwards("svg:is([role=img], [aria-hidden=true], button *) :not(title, desc)"))
    if (!shape.childElementCount && !shape.matches("a, [id], [role], [tabindex]")
      && !shape.getAttributeNames().some((name) => name.startsWith("aria-"))) shape.remove();
  document.body.normalize();
}"""


# Formulas that scroll and that Tab does not reach. axe is shown the rest of a page only.
UNREACHED = """() => [...document.querySelectorAll("mjx-container[display]")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1 && box.tabIndex !== 0).map((box) => box.outerHTML.slice(0, 200))"""


# Code and tables that scroll, once the theme has looked at it again, which it does a while after a change of size.
REACHED = """() => [...document.querySelectorAll("main :is(pre, .pst-scrollable-table-container)")]
  .every((box) => box.scrollWidth <= box.clientWidth || box.tabIndex === 0)"""
DRESSES = ((390, "dark"), (1280, "light"))


def dress(page, width, theme):
    """Show a loaded page at a width in a theme, as its own switch would."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)  # the page for wrong addresses has no switch
    page.evaluate("theme => Object.assign(document.documentElement.dataset, { theme, mode: theme })", theme)


def waited(page, condition, patience):
    """Wait until a condition holds, or patience ends: what does not hold is found afterwards, and named."""
    with suppress(TimeoutError):
        page.wait_for_function(condition, timeout=patience)


def violations(page):
    """What axe finds: rules and elements."""
    options = {"resultTypes": ["violations"], "preload": False, "runOnly": {"type": "tag", "values": WCAG}}
    options["rules"] = {rule: {"enabled": True} for rule in MORE}
    found = page.evaluate("options => axe.run({ exclude: [['mjx-math']] }, options)", options)["violations"]
    return {rule["id"]: [node["html"][:200] for node in rule["nodes"]] for rule in found}


def barriers(page, patience=5_000):
    """What stands in a reader's way on a loaded page, by width and theme: rules and elements. The page is a torso afterwards.

    What a page is made of depends on its width and not on the theme, its colours on the theme and not on the width.
    """
    page.add_style_tag(content=STILL)
    page.evaluate(AXE.read_text("utf-8") + "; axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-judged]' }] })")
    found, looks, known = {}, set(), [look for look, pages in FAULTLESS.items() if pages >= 2]
    for width, theme in DRESSES:
        dress(page, width, theme)
        looks |= set(page.evaluate(WORDS, known))
        waited(page, f"({UNREACHED})().length === 0", patience)  # formulas are looked at again after a change of size
        found[width, theme] = {"formula-out-of-reach": page.evaluate(UNREACHED)}
    page.evaluate(PLAIN)
    for width, theme in reversed(DRESSES):
        dress(page, width, theme)
        waited(page, REACHED, patience)
        found[width, theme] |= violations(page)
    if not any("color-contrast" in rules for rules in found.values()):
        FAULTLESS.update(looks)
    return {look: {rule: where for rule, where in rules.items() if where} for look, rules in found.items()}


PALE, NARROW = "color: #bbb; background: #fff", "display: block; width: 5em; overflow: auto; overflow-wrap: normal"
HIDDEN = f'<p hidden style="{PALE}">alike</p>'
FAULTS = [  # a rule, what breaks it, and in how many dresses
    ("image-alt", '<img class="FAULT" src="../_static/favicon.svg">', 2),
    ("color-contrast", f'{2 * HIDDEN}<p class="FAULT" style="{PALE}">shown</p>', 2),
    ("color-contrast", f'<pre>{"<span>in</span> " * 9}<span class="FAULT" style="color: #222">not in</span></pre>', 1),
    ("color-contrast", f'{"<code>in</code> " * 9}<b style="background: #eee"><code class="FAULT">not in</code></b>', 1),
    ("label", '<input class="FAULT">', 2),
    ("label-content-name-mismatch", '<button class="FAULT" aria-label="Open menu">Look here</button>', 2),
    ("scrollable-region-focusable", f'<div class="FAULT" style="{NARROW}">{"wide" * 99}</div>', 2),
    ("formula-out-of-reach", f'<mjx-container class="FAULT" display style="{NARROW}">{"wide" * 99}</mjx-container>', 2),
    ("target-size", 2 * '<button class="FAULT" style="all: unset; font-size: 9px">i</button>', 2),
]


def test_each_barrier_is_seen(visit):  # noqa: F811
    """A wrong twin for each kind of fault: put into a page without any."""
    page = visit("chapters/notation")
    html = "".join(html.replace("FAULT", f"fault-{i}") for i, (_, html, _) in enumerate(FAULTS))
    page.evaluate("html => document.querySelector('article').insertAdjacentHTML('beforeend', html)", html)
    page.evaluate("addEventListener('resize', () => { document.querySelector('article > mjx-container').tabIndex = -1; })")
    found = barriers(page, patience=1_000)
    for i, (rule, _, dresses) in enumerate(FAULTS):
        assert [f'"fault-{i}' in " ".join(rules.get(rule, [])) for rules in found.values()].count(True) == dresses, (rule, found)


@pytest.mark.parametrize("name", [*PAGES, *OTHERS])
def test_headings_step_down_one_at_a_time_from_one_first(name):
    page = built(name)  # outside the article the theme keeps the title and the contents again, for paper
    text = page.css_first("article") or page.css_first("main")
    levels = [int(heading.tag[1]) for heading in text.css("h1, h2, h3, h4, h5, h6")]
    assert levels.count(1) == 1
    assert all(later <= sooner + 1 for sooner, later in pairwise(levels)), levels


def test_the_first_tab_shows_the_skip_link_which_leads_to_the_text(visit):  # noqa: F811
    page = visit("chapters/one-token")
    link = page.locator("#pst-skip-link a")
    assert not page.evaluate("document.querySelector('#pst-skip-link').contains(document.activeElement)")
    page.keyboard.press("Tab")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#main-content').contains(document.activeElement)")


def test_the_theme_switch_changes_the_colours_and_is_remembered(visit):  # noqa: F811
    page = visit("chapters/notation")
    switch = page.get_by_role("button", name="Color mode")
    shown = "[document.documentElement.dataset.mode, getComputedStyle(document.body).backgroundColor]"
    seen = {}
    for _ in range(3):
        switch.click()
        mode, colour = page.evaluate(shown)
        seen[mode] = colour
    assert set(seen) == {"light", "dark", "auto"}
    assert seen["light"] == seen["auto"] != seen["dark"]
    while page.evaluate(shown)[0] != "dark":
        switch.press("Enter")
    page.reload()
    assert page.evaluate(shown) == ["dark", seen["dark"]]
    page.evaluate("localStorage.clear()")
    assert page.complaints == []


def test_search_finds_pages_without_another_server(visit):  # noqa: F811
    page = visit("intro")
    page.keyboard.press("Control+k")
    page.keyboard.type("residual")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=residual*")
    results = page.locator("#search-results li a")
    expect(results.first).to_be_visible()
    assert "one-token.html" in " ".join(link.get_attribute("href") for link in results.all())
    results.first.click()
    page.wait_for_url(re.compile(r"/(chapters|labs)/"))
    assert page.outside == page.complaints == []


def test_the_menu_of_a_phone_opens_leads_on_and_closes(visit):  # noqa: F811
    page = visit("intro", 390)
    menu, entry = page.locator("button.primary-toggle"), page.locator(".bd-sidebar-primary a[href='chapters/one-token.html']")
    expect(entry).not_to_be_visible()
    menu.focus()
    page.keyboard.press("Enter")
    expect(entry).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(entry).not_to_be_visible()
    expect(menu).to_be_focused()
    menu.click()
    entry.click()
    page.wait_for_url("**/chapters/one-token.html")
    assert page.complaints == []


def test_paper_has_the_solutions_and_the_hidden_cells_open_and_nothing_cut(visit):  # noqa: F811
    name = next(name for name in PAGES if built(name).css(".solution .cell") and built(name).css("details.hide"))
    page = visit(name, 800)
    page.emulate_media(media="print")
    for solution in page.locator(".solution").all():
        shown = "box => box.offsetHeight && getComputedStyle(box).visibility"
        assert solution.locator("section, .solution-content").first.evaluate(shown) == "visible"
    assert page.locator(".solution .cell").first.is_visible()
    assert all(cell.bounding_box()["height"] > 10 for cell in page.locator("details.hide > :not(summary)").all())
    cut = "[...document.querySelectorAll('.bd-article pre')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
    assert page.evaluate(cut) == 0
    for hidden in (".bd-sidebar-primary", ".bd-header-article"):
        assert not page.locator(hidden).first.is_visible()


# ---- an address that does not exist --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages_server():
    """The site as a host of static sites serves it: in a folder, and `404.html` for what is missing."""

    class Pages(weigh.Quiet):
        folder = "/"

        def translate_path(self, path):
            inside = path.startswith(self.folder)
            return super().translate_path("/" + path[len(self.folder) :] if inside else "/no/such/file")

        def send_error(self, code, *_):
            body = (SITE / "404.html").read_bytes()
            self.send_response(code)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with weigh.answering(functools.partial(Pages, directory=SITE)) as root:
        yield Pages, root.rstrip("/")


@pytest.mark.parametrize("folder", ["/draft-verify-correct/", "/preview/draft-verify-correct/", "/"])
@pytest.mark.parametrize("missing", ["nowhere.html", "chapters/deep/nowhere.html"])
def test_the_page_for_wrong_addresses_leads_back_from_any_depth(browser, pages_server, folder, missing):  # noqa: F811
    path_of("404")
    handler, server = pages_server
    handler.folder = folder
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    assert page.goto(server + folder + missing).status == 404
    links = page.eval_on_selector_all("a, link", "all => all.map(link => link.href)")
    assert len(links) > len(PAGES)
    assert {f"{server}{folder}{name}.html" for name in PAGES} <= set(links)
    for link in links:
        assert link.startswith(server + folder)
        assert (SITE / link[len(server + folder) :]).is_file(), link
    assert all(url.startswith(server + folder) for url in asked)
    page.get_by_label("Search the book").fill("residual")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server}{folder}search.html?q=residual")
    page.close()


# ---- the repairs -----------------------------------------------------------------------------------------------------------


def test_each_repair_is_still_needed_and_twice_is_once():
    """The themes' own HTML, as it comes: a repair that finds nothing any more can go."""
    sample = """<summary aria-label="Toggle hidden content"></summary>
      <button class="btn search-button-field x" title="Search" aria-label="Search" data-x="">
      <svg class="a theme-switch b" viewBox="0 0 1 1" role="img"><title>Light</title></svg>
      <div class="sidebar-primary-item">

      <a class="navbar-brand logo"></a></div> Solution to<a> Exercise 1</a>
      <div role="list" class="citation-list"><div role="doc-biblioentry"></div></div>
      <nav id="pst-page-toc-nav" class="page-toc"> <ul class="nav">
      <li class="toc-h2 nav-item toc-entry"></li> <li class="toc-h2 nav-item toc-entry"></li> </ul></nav>
      <th class="head"></th> <td><p>\u2705</p></td> <abbr title="ValueError">\u274c</abbr>"""
    once = access.repaired(sample)
    assert all(re.search(found, sample) and not re.search(found, once) for found, _ in access.REPAIRS)
    assert access.repaired(once) == once


def test_no_page_needs_a_font_of_emoji():
    emoji = re.compile("[\u2600-\u26ff\u2705\u274c\u2728\ufe0f\U0001f000-\U0001faff]")
    assert {name: found for name in PAGES if (found := emoji.findall(built(name).css_first("article").text()))} == {}
    runs = built("chapters/build-status").css_first("article table").css("tbody tr")
    assert {row.css("td")[-1].text() for row in runs} == {"ran"}
