"""The site is light: what each page makes Chromium load, that nothing in it jumps, and formulas and icons that need no script.

The tests of built pages need `_build/html` (`make book`) and Chromium, like those in test_site.py.
"""

import asyncio
import gzip
import html
import io
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from small_site import small_site
from specdec.book import light, weigh
from test_site import PAGES, SITE, address, browser, built, context, visit  # noqa: F401  (fixtures among them)
from test_site_pages import SHIFT

# ---- built pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_every_formula_is_typeset_and_every_glyph_has_its_rule(name):
    page = built(name)
    for formula in page.css(".math"):
        assert formula.css_first("mjx-container > mjx-assistive-mml > math").text().strip()
        assert not re.search(r"\\[([\])]|\\begin", formula.text())
    assert page.css("merror, mjx-merror, mjx-utext") == [], "an error, or a sign that MathJax's fonts lack"
    glyphs = {glyph.attrs["class"].split()[0] for glyph in page.css("mjx-c[class]")}
    rules = page.css_first("style#maths").text() if glyphs else ""
    assert {glyph for glyph in glyphs if not re.search(rf"{glyph}\b[^{{}}]*::before", rules)} == set()
    fonts = re.findall(r'url\("([^"]*)"\)', rules)
    assert all((SITE / name).parent.joinpath(font).is_file() for font in fonts if not font.startswith("data:"))


@pytest.mark.parametrize("name", PAGES)
def test_every_icon_is_drawn(name):
    page = built(name)
    assert page.css("i[class*=fa-], span[class*=fa-]") == []
    icons = page.css("svg.svg-inline--fa")
    drawn = {word for icon in icons for word in icon.attrs["class"].split()}
    assert {"fa-bars", "fa-magnifying-glass", "fa-github", "fa-moon"} <= drawn
    assert all(icon.css_first("path").attrs["d"] for icon in icons)
    assert all(icon.attrs.get("aria-hidden") or icon.css_first("title").text() for icon in icons)


# ---- the parts --------------------------------------------------------------------------------------------------------------


def test_a_weight_is_exact_and_a_jump_is_seen(browser, tmp_path):  # noqa: F811
    style = "p { margin: 1px }\n" * 500
    late = "setTimeout(() => { document.querySelector('div').style.height = '300px'; }, 300)"
    text = f"<!doctype html><link rel=stylesheet href=a.css><div></div><p>{'words ' * 500}</p><script>{late}</script>"
    (tmp_path / "a.css").write_text(style)
    (tmp_path / "jumps.html").write_text(text)
    (tmp_path / "stays.html").write_text(text.replace("300px", "0px"))
    with weigh.served(tmp_path) as root:
        jumps, stays = (weigh.weigh(browser.new_page(), root, page) for page in ("jumps", "stays"))
    assert jumps.parts["a.css"] == (len(style), len(gzip.compress(style.encode(), 6, mtime=0)))
    assert jumps.raw == len(style) + len(text)
    assert stays.shift == 0 < SHIFT < jumps.shift
    assert jumps.paint > 0


def served_in_pieces(page):
    """Serve a page on loopback, the second half of it two seconds after the first."""

    class InPieces(weigh.Quiet):
        def do_GET(self):  # noqa: N802  (its name in http.server)
            self.send_response(200)
            self.end_headers()
            half = len(page) // 2
            for wait, piece in ((0, page[:half]), (2, page[half:])):
                time.sleep(wait)
                self.wfile.write(piece.encode())

    return weigh.answering(InPieces)


@pytest.mark.parametrize("change", [str, light.lighter])
def test_a_page_that_comes_in_pieces_does_not_jump(browser, change):  # noqa: F811
    rows = f"<tr><td>x<td>{'words ' * 40}" * 10 + f"<tr><td>{'x' * 90}<td>words" * 10
    page = f'<!doctype html><html><head></head><body><table>{rows}</table>{light.END}"></footer></body></html>'
    with served_in_pieces(change(page)) as root:
        weight = weigh.weigh(browser.new_page(), root, "index")
    if change is str:
        assert weight.shift > SHIFT and weight.paint < 2000
    else:
        assert weight.shift == 0 and weight.paint > 2000


PLACES = "[...document.querySelectorAll('.bd-article *')].map((part) => part.getBoundingClientRect().y)"


@pytest.mark.parametrize("name", ["chapters/notation", "chapters/one-token"])
def test_nothing_moves_when_the_fonts_of_formulas_arrive(visit, browser, name):  # noqa: F811
    page = visit(name, 390)
    page.evaluate(weigh.REST)
    without = browser.new_page(viewport={"width": 390, "height": 900})
    without.route("**/*.woff", lambda font: font.abort())
    without.goto(page.url)
    without.evaluate(weigh.REST)
    assert without.evaluate(PLACES) == page.evaluate(PLACES)


def test_typesetting_keeps_the_meaning():
    made = BeautifulSoup(light.typeset(r"\alpha = \sum_x \min(p(x), q(x))", False), "html.parser")
    assert made.math.text == "α=∑xmin(p(x),q(x))"
    assert made.select_one("mjx-math")["aria-hidden"] == "true"
    assert not made.select("[tabindex]")


@pytest.mark.parametrize(("tex", "mistake"), [(r"\frac{a", "Missing close brace"), (r"\alhpa", "Undefined control sequence")])
def test_wrong_tex_is_named(tex, mistake):
    with pytest.raises(ValueError, match=mistake):
        light.typeset(tex, True)


def page_with(formula):
    return f'<html data-content_root="../"><head></head>{light.typeset(formula, False)}</html>'


def test_the_engine_outlives_the_event_loop_in_which_it_was_made():
    """A notebook runs one, and so does a browser test, whose browser is closed before the next test typesets."""

    async def made():
        return light._engine()

    light._engine()  # the first one starts V8, which serves threads that are younger than itself
    with ThreadPoolExecutor(1) as thread:  # in this one the browser's loop may run
        engine = thread.submit(asyncio.run, made()).result()
    assert engine.eval("6 * 7") == 42


def test_a_page_takes_the_rules_of_its_own_glyphs_and_the_fonts_they_name():
    style = light.maths_style(page_with(r"\{x\}"))  # a brace in a rule's text, before the rules of other signs
    glyphs = dict(re.findall(r'mjx-c\.mjx-(\w+)\S*::before {[^"]*content: "([^"]*)"', style))
    assert glyphs == {"c7B": "{", "c7D": "}", "c1D465": "x"}, "x, and not y"
    assert "mjx-mtable" not in style
    assert set(re.findall(r"MathJax_[\w-]+", style)) == {"MathJax_Main-Regular", "MathJax_Math-Italic"}
    assert style.count('MJXZERO; src: url("data:font/woff;base64,') == 1
    assert "MathJax_AMS" in light.maths_style(page_with(r"\mathbb{E}"))


def test_a_page_becomes_light():
    script = '<script defer src="../_static/scripts/fontawesome.js?digest=5"></script>'
    page = page_with("x").replace("<head>", f"<head>{script}{light.AUTO}")
    words = '<code><span class="pre">a</span> <span class="pre">&lt;b</span></code>'
    page = page.replace("</html>", f'<i class="fas fa-code"></i>{words}</html>')
    once = light.lighter(page)
    assert "fontawesome.js" not in once and "<i " not in once and light.AUTO not in once
    assert "../_static/mathjax/MathJax_Math-Italic.woff" in once and once.count(light.NOTICE) == 1
    assert "<code>a &lt;b</code>" in once
    early = re.findall(r'rel="preload"[^>]* href="../_static/mathjax/([^"]*)"', once)
    assert early == ["MathJax_Main-Regular.woff", "MathJax_Math-Italic.woff"]


def test_what_a_page_uses_stays():
    tags = '<link href="_static/sphinx-design.min.css?v=6"/><script src="searchindex.js"></script>'
    assert light.lighter(tags) == ""
    used = tags + '<div class="sd-card">search_as_you_type = true</div>'
    assert light.lighter(used) == used


def test_an_icon_is_the_drawing_of_the_script():
    # adjust is an older name of circle-half-stroke
    made = light.icon("theme-switch fa-solid fa-adjust   fa-lg", ' data-mode="auto" title="As set"')
    drawn = BeautifulSoup(made, "html.parser").svg
    assert 'viewBox="0 0 512 512"' in made
    assert drawn["class"] == ["svg-inline--fa", "theme-switch", "fa-adjust", "fa-lg"]
    assert drawn["data-mode"] == "auto" and drawn["role"] == "img" and drawn.title.text == "As set"
    assert 'aria-hidden="true"' in light.icon("fab fa-github")
    with pytest.raises(ValueError, match="fa-nothing"):
        light.icon("fas fa-nothing")


@pytest.fixture
def build(tmp_path):
    """Build one page; return it parsed, and the warnings."""

    def build(text):
        (tmp_path / "index.md").write_text("# Page\n\n" + text, "utf-8")
        settings = {"extensions": ["myst_parser", "specdec.book.site"], "html_theme": "basic", "math_number_all": False}
        settings["myst_enable_extensions"] = ["dollarmath", "amsmath"]
        warnings = io.StringIO()
        with small_site(tmp_path, tmp_path, settings, warnings) as app:
            app.build()
        return BeautifulSoup((tmp_path / "html" / "index.html").read_text("utf-8"), "html.parser"), warnings.getvalue()

    return build


def test_small_fonts_are_made_again_when_what_they_are_made_of_changes(tmp_path):
    whole = [tmp_path / font for font in light.THEME_FONTS.values()]
    made = [tmp_path / f"{name}.woff" for name in light.THEME_FONTS]
    for path in (tmp_path / "styles" / "theme.css", *whole):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert not light._as_new(tmp_path), "there are none"
    for path in made:
        path.touch()
    assert light._as_new(tmp_path)
    for origin in (tmp_path / "styles" / "theme.css", whole[0], Path(light.__file__)):
        for path in made:
            os.utime(path, (2e9, 2e9))
        assert light._as_new(tmp_path)
        os.utime(made[0], (light._changed(origin) - 1,) * 2)
        assert not light._as_new(tmp_path)


def test_a_numbered_equation_keeps_its_number_and_its_links(build):
    page, warnings = build("$$a < b$$ (eq-order)\n\nSee {eq}`eq-order`.\n\n\\begin{align}x &= 1 \\\\ y &= 2\\end{align}\n")
    assert not warnings
    first, second = page.select("div.math")
    assert first.select_one(".eqno").text.startswith("(1)")
    assert first.math.text == "a<b" and first.select_one("mjx-container")["display"] == "true"
    assert page.select_one(f"p a[href='#{first['id']}']").text == "(1)"
    assert len(second.math.select("mtr")) == 2
    assert not [script for script in page.select("script[src]") if "mathjax" in script["src"]]


def test_a_line_does_not_begin_with_what_closes_behind_a_formula(build):
    page, _ = build("Here ($x$), and $y$ is\n$z$.\n")
    assert [held.select_one("math").replace_with("-") and held.text for held in page.select("p .held")] == ["(-),", "-."]
    assert len(page.select("p .math")) == 3


def test_wrong_tex_on_a_page_is_a_warning_with_its_place(build):
    page, warnings = build("Here is $\\frac{1 & 2$.\n")
    assert "index.md:3" in warnings and "WARNING" in warnings and "MathJax can't read" in warnings
    assert html.unescape(page.select_one(".math code").text) == "\\frac{1 & 2"


def test_the_next_build_starts_no_engine_for_what_it_knows(build, monkeypatch):
    def start():
        raise AssertionError("an engine")

    text = "Here is $x_{keep}$, and one that is wrong: $\\frac{1 & 2$.\n"
    first, warned = build(text)
    monkeypatch.setattr(light, "_KEPT", {})
    with monkeypatch.context() as patch:
        patch.setattr(light, "_engine", start)
        for engine in (light._mathjax, light._icons):
            engine.cache_clear()
        known, _ = build(text.partition(", and")[0] + ". More.\n")
        assert known.select_one("style#maths").text and known.select_one(".math") == first.select_one(".math")
        with pytest.raises(Exception, match="an engine"):
            build("A new one: $x_{new}$.\n")
        monkeypatch.setattr(light, "_KEPT", {})
        patch.setattr(light, "_origin", lambda: ["another MathJax"])
        with pytest.raises(Exception, match="an engine"):
            build("Here is $x_{keep}$.\n")
    again, told = build(text + "\nMore.\n")
    assert "MathJax can't read" in warned and "MathJax can't read" in told, "a mistake is told in every build"
    assert again.select_one(".math code")
