"""Each page of the site in a browser: quiet, light, for keyboard, finger and paper, and nothing in the way that axe-core sees.

Loading a page takes most of the time, so that each is loaded twice, wide in the light and narrow in the dark, and the tests of
a page follow one another (the fixtures' scope sees to that). Each sets the width and medium that it needs.
Needs `_build/html` (`make book`) and Chromium, like test_site.py.
"""

import re

import pytest

from specdec.book import weigh
from test_site import OTHERS, PAGES, SITE, address, browser, context, guarded, path_of, visit  # noqa: F401  (fixtures among them)
from test_site_access import KNOWN, STILL, barriers

TEXT, LAB = 600_000, 800_000  # bytes, gzipped
SHIFT = 0.05  # cumulative layout shift


@pytest.fixture(scope="module", params=[*PAGES, *OTHERS])
def name(request):
    """A page's name."""
    path_of(request.param)
    return request.param


@pytest.fixture(scope="module")
def loaded(browser, address, name):  # noqa: F811
    """A page wide and narrow that found nothing cached, what it weighs and what it complained of."""
    looks = ((1280, "light"), (390, "dark"))
    pages = [browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme) for width, scheme in looks]
    weights = [weigh.begin(guarded(page, address), address, name) for page in pages]
    for page, weight in zip(pages, weights, strict=True):
        page.weight = weight()
    yield pages
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def wide(loaded):
    return loaded[0]


@pytest.fixture(scope="module")
def narrow(loaded):
    return loaded[1]


def test_it_is_quiet_and_needs_no_other_server(wide, narrow):
    for page in (wide, narrow):
        assert page.outside == []
        assert page.complaints == []
        width, more = page.evaluate("[innerWidth, document.documentElement.scrollWidth - innerWidth]")
        assert more <= 0, f"the page is {more} pixels wider than a screen of {width}"
        assert page.locator(".math").count() == page.locator(".math > mjx-container").count()
        assert page.locator("mjx-merror, [data-mjx-error]").all_inner_texts() == []


def test_it_is_light_and_does_not_jump(wide, narrow, name):
    for weight in (wide.weight, narrow.weight):
        assert weight.parts[f"{name}.html"][0] == (SITE / f"{name}.html").stat().st_size
        assert weight.gzipped < (LAB if name.startswith("labs/") else TEXT), weigh.table([weight])
        assert weight.shift < SHIFT
        assert [part for part in weight.parts if re.search(r"fontawesome\.js|fa-\w+-\d00|mathjax.*\.js|sphinx-thebe", part)] == []
        assert any(part.startswith("searchindex.js") for part in weight.parts) == (name == "search")


# Links in the contents beside a page that end beyond the screen; their column hides what it cuts.
CUT = """() => [...document.querySelectorAll("#pst-page-toc-nav a")].filter((link) => {
  const words = document.createRange();
  words.selectNodeContents(link);
  return words.getBoundingClientRect().right > innerWidth;
}).map((link) => link.textContent)"""


def test_the_contents_beside_it_are_whole(wide):
    assert wide.evaluate(CUT) == []


# What a reader of a phone can't bring into sight: formulas in a line that end beyond their box, captions beyond the screen.
# Signs that begin a line though they belong to the formula before them; proofs that begin elsewhere than the first.
# And in the dark, outputs of ours that do not begin where their cell does, as the theme's box for others would have it.
LOST = """() => {
  const right = (part) => part.getBoundingClientRect().right, left = (part) => part.getBoundingClientRect().left;
  const indent = (part) => getComputedStyle(part).paddingLeft;
  const behind = (part) => {
    const sign = document.createRange();
    sign.setStart(part.nextSibling, 0);
    sign.setEnd(part.nextSibling, 1);
    return sign;
  };
  const all = (where, wrong) => [...document.querySelectorAll(where)].filter(wrong).map((part) => part.textContent.slice(0, 60));
  return {
    formulas: all("span.math", (part) => right(part.querySelector("mjx-math")) > right(part) + 1),
    signs: all("span.math", (part) => /^[.,;:!?)]/.test(part.nextSibling?.data) && left(behind(part)) < right(part) - 1),
    proofs: all("div[class='proof admonition']", (part) => indent(part) !== indent(document.querySelector("#proof"))),
    captions: all(".result-table caption", (part) => right(part) > innerWidth),
    outputs: all(".cell > .cell_output .text_html > :is(.result-table, .book-figure, .book-lab)", (part) =>
      left(part) !== left(part.closest(".cell"))),
  };
}"""


def lost(page):
    """What of a page is cut or out of line, by kind."""
    return {kind: where for kind, where in page.evaluate(LOST).items() if where}


def test_what_is_on_it_is_whole_and_in_line(narrow):
    assert lost(narrow) == {}


# A quiz waits between emptying its status and filling it: a tenth of that here.
SOON = "setTimeout = ((wait) => (done, after, ...more) => wait(done, after / 10, ...more))(setTimeout)"
# What a quiz says once it says something: an answer empties its status at once, and fills it a moment later.
SAID = """async (form) => {
  const status = form.querySelector("[role=status]");
  for (let i = 0; i < 500 && !status.textContent; i++) await new Promise((done) => setTimeout(done, 10));
  return {
    words: status.innerText, folded: !form.querySelector("details").checkVisibility(), focus: document.activeElement.textContent,
    chosen: [...form.querySelectorAll("input")].findIndex((field) => field.checked),
  };
}"""


def answer_all(page, form):
    """Choose and check each answer by keyboard."""
    assert form.evaluate("form => form.querySelector('details').checkVisibility()") is False
    form.query_selector("button").focus()
    page.keyboard.press("Enter")
    assert form.evaluate(SAID) == {"words": "Choose an answer first.", "folded": True, "focus": "Check", "chosen": -1}
    verdicts = []
    for number, field in enumerate(form.query_selector_all("input")):
        if number == 0:
            field.focus()
        for key in ["Space"] if number == 0 else ["Shift+Tab", "ArrowDown"]:
            page.keyboard.press(key)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        said = form.evaluate(SAID)
        verdicts.append(said.pop("words"))
        assert said == {"folded": False, "focus": "Check", "chosen": number}
    first_words = [verdict.split("right.")[0] for verdict in verdicts]
    assert sum(words.endswith(") is ") for words in first_words) == 1, verdicts
    assert sum(words.endswith(") is not ") for words in first_words) == len(verdicts) - 1 > 0, verdicts
    assert all(len(verdict.split("right.", 1)[1].strip()) > 10 for verdict in verdicts), "each has a reason"


def test_its_quizzes_work_by_keyboard_alone(wide):
    wide.evaluate(SOON)
    for form in wide.query_selector_all("form.quiz"):
        answer_all(wide, form)
    assert wide.complaints == []


FURNITURE = ".bd-sidebar-primary, .bd-header-article, .prev-next-footer, .copybtn"
PAPER = """(furniture) => {
  const said = (all) => all.map((element) => element.outerHTML.slice(0, 120));
  const shown = { contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true };
  const words = "article :is(.cell_input pre, .cell_output :not(details) > pre, .solution p, figure svg, .quiz-reasons p)";
  return {
    furniture: said([...document.querySelectorAll(furniture)].filter((element) => element.checkVisibility())),
    hidden: said([...document.querySelectorAll(words)].filter((element) => !element.checkVisibility(shown))),
    cut: said([...document.querySelectorAll("article :is(figure svg, pre, table)")].filter((element) =>
      element.getBoundingClientRect().right > innerWidth + 1)),
  };
}"""


def on_paper(page):
    """What is wrong with a page in print: furniture of the screen, words that are folded, what is too wide."""
    page.set_viewport_size({"width": 700, "height": 900})  # an A4 page's width between its margins
    page.add_style_tag(content=STILL)  # what unfolds would fade in
    page.emulate_media(media="print", color_scheme="light")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    return {fault: where for fault, where in page.evaluate(PAPER, FURNITURE).items() if where}


def test_it_is_printed_whole(wide):
    """Nothing folded but what an output says again."""
    assert on_paper(wide) == {}


CONTROLS = "form.quiz :is(button, input, summary), .toggle-button, .cell details > summary, .book-lab :is(button, input, select)"


def too_small(page):
    """Controls smaller than a finger."""
    return page.locator(CONTROLS).evaluate_all("""all => all.filter((element) => element.checkVisibility()).map((element) => {
      const box = element.getBoundingClientRect();
      return [element.outerHTML.slice(0, 90), Math.round(box.width), Math.round(box.height)];
    }).filter(([, width, height]) => width < 24 || height < 24)""")


def test_its_controls_are_large_enough_for_a_finger(narrow):
    assert too_small(narrow) == []


def test_it_has_no_barrier_wide_and_narrow_light_and_dark(narrow, name):
    """Last, for axe is shown a torso of the page."""
    found, known = barriers(narrow), KNOWN.get(name, {})
    unknown = {look: {rule: where for rule, where in rules.items() if rule not in known} for look, rules in found.items()}
    assert {look: rules for look, rules in unknown.items() if rules} == {}
    assert set(known) == set().union(*found.values()), "known faults that are gone: take them off the list"


# ---- wrong twins -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        "for (const it of form.querySelectorAll('[data-answer]')) it.innerHTML = it.innerHTML.replace('not right', 'right')",
        "form.querySelector('[data-answer]').replaceChildren('a) is not right.')",
        "form.querySelector('[data-answer]').remove()",
        "form.querySelector('details').hidden = false",
        "form.querySelector('button').tabIndex = -1",
        "form.querySelectorAll('input')[1].disabled = true",
    ],
)
def test_a_quiz_that_fails_its_reader_is_seen(visit, fault):  # noqa: F811
    page = visit("chapters/kv-calculators")  # a small one
    form = page.query_selector("form.quiz")
    form.evaluate(f"(form) => {{ {fault}; }}")
    with pytest.raises(AssertionError):
        answer_all(page, form)


def test_what_a_page_complains_of_and_asks_elsewhere_is_seen(visit):  # noqa: F811
    page = visit("chapters/notation")
    with page.expect_event("requestfailed"), page.expect_event("pageerror"):  # in whichever order
        page.evaluate("console.error('wrong'); setTimeout(() => missing.too); new Image().src = 'http://nowhere.invalid/x.png'")
    assert page.outside == ["http://nowhere.invalid/x.png"]
    assert "wrong" in page.complaints and any("missing" in words for words in page.complaints)


def test_contents_that_are_cut_are_seen(visit):  # noqa: F811
    page = visit("chapters/notation")
    page.evaluate("link => { link.append('x'.repeat(99)); }", page.query_selector("#pst-page-toc-nav a"))
    assert page.evaluate(CUT) == []
    page.add_style_tag(content="#pst-page-toc-nav a.nav-link { overflow-wrap: normal }")
    assert len(page.evaluate(CUT)) == 1


def test_what_is_cut_or_out_of_line_is_seen(visit):  # noqa: F811
    page = visit("chapters/output-count", 390, "dark")
    assert lost(page) == {}
    page.add_style_tag(content=""".bd-article .result-table caption { position: static; max-width: none }
      .cell_output .text_html { padding: 0.5rem !important } .math mjx-math { width: 800px !important }
      .held { white-space: normal } .bd-article div#proof { padding: 3rem !important }""")
    assert set(lost(page)) == {"formulas", "signs", "proofs", "captions", "outputs"}


def test_a_table_fades_where_it_goes_on_until_it_is_scrolled_to(visit):  # noqa: F811
    page = visit("chapters/notation", 390)
    table = page.locator(".pst-scrollable-table-container").first
    mask = "part => getComputedStyle(part).maskImage"
    assert "gradient" in table.evaluate(mask)
    table.evaluate("part => part.scrollTo(part.scrollWidth, 0)")
    page.wait_for_function("part => getComputedStyle(part).maskImage === 'none'", arg=table.element_handle())
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("part => getComputedStyle(part).maskImage === 'none'", arg=table.element_handle())


def test_what_is_small_or_lost_on_paper_is_seen(visit):  # noqa: F811
    page = visit("chapters/notation")
    assert too_small(page) == [] and on_paper(page) == {}
    page.evaluate("""document.querySelector("article").insertAdjacentHTML("beforeend", `
      <div class="cell"><details><summary style="min-height: 0; height: 20px; overflow: hidden">More</summary></details></div>
      <nav class="prev-next-footer" style="display: block !important">next</nav>
      <div class="cell_input"><pre style="opacity: 0">lost</pre></div><figure><svg style="min-width: 2000px"></svg></figure>`)""")
    assert set(on_paper(page)) == {"furniture", "hidden", "cut"}
    page.emulate_media(media="screen")
    assert len(too_small(page)) == 1
