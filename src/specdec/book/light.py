"""A light site: formulas are typeset and icons drawn when the book is built, so that no page loads MathJax or Font Awesome.

Both programs run here, in an embedded V8. A page then holds what they would make in the reader's browser: MathJax's boxes, with
MathML beside them for screen readers, and the icons' own drawings.
"""

import asyncio
import html
import json
import os
import pickle
import re
import shutil
from base64 import b64encode
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, wraps
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from docutils import nodes
from py_mini_racer import init_mini_racer, mini_racer
from sphinx.application import Sphinx
from sphinx.ext import mathjax
from sphinx.util import logging

# MathJax's components, each after what it needs. The wheel's tex-chtml.js holds them too, but asks for a browser.
COMPONENTS = ["loader", "core", "adaptors/liteDOM", "input/tex", "output/chtml", "output/chtml/fonts/tex", "a11y/assistive-mml"]
START = """
const adaptor = MathJax._.adaptors.liteAdaptor.liteAdaptor();
MathJax._.a11y["assistive-mml"].AssistiveMmlHandler(MathJax._.handlers.html_ts.RegisterHTMLHandler(adaptor));
const InputJax = new MathJax._.input.tex_ts.TeX({ packages: ["base", "ams", "newcommand"] });
const font = new MathJax._.output.chtml.fonts.tex_ts.TeXFont({ fontURL: "FONTS" });
const OutputJax = new MathJax._.output.chtml_ts.CHTML({ font, adaptiveCSS: false, matchFontHeight: false });
const page = MathJax._.mathjax.mathjax.document("", { InputJax, OutputJax });
const typeset = (tex, display) => adaptor.outerHTML(page.convert(tex, { display }));
const stylesheet = () => adaptor.textContent(OutputJax.styleSheet(page));
"""
THEME_SCRIPT = "theme/pydata_sphinx_theme/static/scripts/fontawesome.js"
THEME_FONTS = {"icons": "vendor/fontawesome/webfonts/fa-solid-900.ttf", "brands": "vendor/fontawesome/webfonts/fa-brands-400.ttf"}
FONTS = "output/chtml/fonts/woff-v2"
# MathJax measures the text around a formula to make letters of the same height; 0.442 is its own fonts' height of an x.
STYLE = '<style id="maths">/* MathJax 3, Apache License 2.0 */ mjx-container[jax] { font-size: calc(1ex / 0.442); } '

# The fonts of nearly all formulas come before the layout asks for them, so that their letters are seen with the words around.
EARLY = re.compile(r'"(\S+/MathJax_(?:Main-Regular|Math-Italic)\.woff)"')
PRELOAD = '<link rel="preload" as="font" type="font/woff" crossorigin="" href="{}"/>\n'
# This one is empty, and its lines are the height of every formula's: it stands in the page, so that none moves when fonts arrive.
ZERO = "MathJax_Zero.woff"

# A page in pieces is painted in pieces; more rows make a table's columns anew, and all below it jump. Paint when all have come.
END = '<footer class="prev-next-footer'
EXPECT = '<link rel="expect" href="#article-end" blocking="render"/>\n'

ICON = re.compile(r'<(i|span) class="([^"]*\bfa-[^"]*)"([^>]*)></\1>')
NOTICE = "<!-- Icons: Font Awesome Free 6 by @fontawesome, fontawesome.com/license/free (CC BY 4.0) -->"
FAMILIES = {"fas": "fas", "fa-solid": "fas", "far": "far", "fa-regular": "far", "fab": "fab", "fa-brands": "fab"}

# The theme's scripts turn "auto" into light or dark only after the first paint; until then no colour is set, so no border either.
AUTO = 'document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";'
AT_ONCE = """const { dataset } = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    dataset.theme = dataset.mode !== "auto" ? dataset.mode : dark ? "dark" : "light";"""

# What the theme loads and no page needs, and what only some pages need: the pattern of the asset, then the mark of its use.
NEVER = re.compile(r'\s*<(script|link)\b[^>]*(fontawesome\.js|sphinx-thebe\.css)[^>]*>(</script>)?')
ONLY_WITH = {
    r"(searchtools|language_data|searchindex)\.js": ('id="search-results"', "search_as_you_type = true"),
    r"sphinx-design\.min\.css|design-tabs\.js": ('"sd-',),
}

_OPEN = ExitStack()  # the engines, until Python ends
_KEPT: dict[tuple[Any, ...], Any] = {}  # what they made, by the name of what asked and its arguments

logger = logging.getLogger(__name__)


def _folder(package: str, inside: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"{package} is missing: pip install -r requirements.txt")
    return Path(found.origin).parent / inside


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function remember what it returns, here and for the next build: that need not start an engine (`recall`)."""

    @wraps(make)
    def remembered(*arguments: Any) -> Any:
        key = (make.__name__, *arguments)
        if key not in _KEPT:
            _KEPT[key] = make(*arguments)
        return _KEPT[key]

    return remembered


def _engine() -> Any:
    """An embedded V8 on an event loop of its own: one that runs already (a notebook's, a browser test's) may end before it."""
    init_mini_racer(ignore_duplicate_init=True)  # V8 serves threads that are younger than itself
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    return _OPEN.enter_context(mini_racer(loop))


@cache
def _mathjax() -> Any:
    engine = _engine()
    engine.eval("var MathJax = {};")
    for name in COMPONENTS:
        engine.eval((_folder("sphinx-mathjax-offline", "static/mathjax") / f"{name}.js").read_text("utf-8"))
    engine.eval(START)
    return engine


@kept
def typeset(tex: str, display: bool) -> str:
    """Return a formula as HTML: boxes for the eye, MathML for screen readers. What MathJax can't read is a ValueError."""
    made = str(_mathjax().call("typeset", tex, display))
    if mistake := re.search('data-mjx-error="([^"]*)"', made):
        raise ValueError(f"MathJax can't read {tex!r}: {html.unescape(mistake[1])}")
    return made


def _formula(node: nodes.Element, tex: str, display: bool) -> str:
    """Return the formula, or after a warning (an error in a strict build) its TeX."""
    try:
        return typeset(tex, display)
    except ValueError as mistake:
        logger.warning("%s", mistake, location=node)
        return f"<code>{html.escape(tex)}</code>"


def visit_math(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    start = translator.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    translator.body.append(f"{start}{_formula(node, node.astext(), False)}</span>")
    raise nodes.SkipNode


def visit_displaymath(translator: Any, node: nodes.math_block) -> None:
    """Write a formula of its own line as Sphinx does, number and link included, and typeset the TeX in it."""
    before = len(translator.body)
    try:
        mathjax.html_visit_displaymath(translator, node)
    except nodes.SkipNode:
        written = "".join(translator.body[before:])
    head, tex = re.fullmatch(r'(<div[^>]*>\s*(?:<span class="eqno">.*?</span>)?)(.*)</div>\s*', written, re.S).groups()  # type: ignore[union-attr]
    tex = html.unescape(tex).strip().removeprefix(r"\[").removesuffix(r"\]")
    translator.body[before:] = [f"{head}{_formula(node, tex, True)}</div>\n"]
    raise nodes.SkipNode


NAMES = re.compile(r"\b(?:mjx|tex)-[\w-]+")


@kept
def _rules() -> list[tuple[str, str, list[set[str]]]]:
    """MathJax's rules: selector, text, and the names in each part of the selector."""
    found = re.findall(r'([^{}]+)\{((?:[^{}"]|"[^"]*")*)\}', _mathjax().call("stylesheet"))  # a rule's text may be a brace
    rules = [(" ".join(selector.split()), " ".join(rule.split())) for selector, rule in found]
    return [(selector, rule, [set(NAMES.findall(part)) for part in selector.lower().split(",")]) for selector, rule in rules]


def maths_style(page: str) -> str:
    """Return those of MathJax's 2,800 rules that a page's formulas need, and the fonts that these name."""
    used = set(NAMES.findall(page.lower()))
    kept = [
        (selector, rule)
        for selector, rule, parts in _rules()
        if "@" not in selector and any(used.issuperset(names) for names in parts)
    ]
    families = set(re.findall(r"MJX[\w-]+", " ".join(rule for _, rule in kept)))
    faces = [rule for selector, rule, _ in _rules() if selector.startswith("@font-face")]
    fonts = [("@font-face", rule) for rule in faces if families.intersection(re.findall(r"MJX[\w-]+", rule))]
    style = "\n".join(f"{selector} {{{rule}}}" for selector, rule in [*fonts, *kept])
    return style.replace(f"FONTS/{ZERO}", f"data:font/woff;base64,{_zero()}")


@cache
def _zero() -> str:
    return b64encode((_folder("sphinx-mathjax-offline", "static/mathjax") / FONTS / ZERO).read_bytes()).decode()


@cache
def _icons() -> dict[str, dict[str, list[Any]]]:
    """Return the drawings in the theme's Font Awesome: family, name or older name, then width, height, …, path."""
    engine = _engine()
    engine.eval("var window = globalThis;")
    engine.eval(_folder("pydata_sphinx_theme", THEME_SCRIPT).read_text("utf-8"))
    styles = json.loads(str(engine.eval("JSON.stringify(___FONT_AWESOME___.styles)")))
    for family in styles.values():
        family.update({str(older): icon for icon in list(family.values()) for older in icon[2] if str(older) not in family})
    return dict(styles)


@kept
def _drawing(*words: str) -> tuple[str | None, list[Any]]:
    """Return the icon that an element's classes name: its name and its drawing, or None and nothing."""
    family = _icons()[next((FAMILIES[word] for word in words if word in FAMILIES), "fas")]
    name = next((word[3:] for word in words if word.startswith("fa-") and word[3:] in family), None)
    return name, family[name] if name else []


def icon(classes: str, attributes: str = "") -> str:
    """Return the drawing for `<i class="fas fa-code fa-lg" …>`, as Font Awesome's script makes it; a title names it for all."""
    words = classes.split()
    name, drawing = _drawing(*words)
    if name is None:
        raise ValueError(f"Font Awesome has no icon for the classes {classes!r}: see fontawesome.com/v6/search?o=r&m=free")
    width, height, _, _, path = drawing
    kept = " ".join(["svg-inline--fa", *(word for word in words if word not in FAMILIES)])
    title = re.search(r'\s*\btitle="([^"]*)"', attributes)
    named = f' role="img"><title>{title[1]}</title>' if title else ' aria-hidden="true">'
    attributes = attributes.replace(title[0], "") if title else attributes
    return f'<svg class="{kept}"{attributes} viewBox="0 0 {width} {height}"{named}<path fill="currentColor" d="{path}"/></svg>'


# Sphinx's wrap for each word of inline code and of a signature, of use to styles that ours replace: half of the API's elements.
WORD = re.compile(r'<span class="pre">([^<]*)</span>')


# A line may break beside a formula, as it is a box, even before a full stop, and in Chromium a word joiner does not hold it.
INLINE = '(?><span class="math notranslate nohighlight"><mjx-container.*?</mjx-container></span>)'
HELD = re.compile(rf"([(\[\u201c\u2018]+){INLINE}([.,;:!?)\]\u201d\u2019\u2026]*)|{INLINE}([.,;:!?)\]\u201d\u2019\u2026]+)", re.S)


def lighter(page: str) -> str:
    """Return a page with icons drawn and its formulas' rules, without spans for single words or assets that nothing uses."""
    page = WORD.sub(r"\1", page)
    drawn = ICON.sub(lambda found: icon(found[2], found[3]), page)
    if drawn != page:
        drawn = drawn.replace("</head>", f"{NOTICE}\n</head>", 1)
    page = drawn
    page = NEVER.sub("", page).replace(AUTO, AT_ONCE)
    for asset, uses in ONLY_WITH.items():
        if not any(use in page for use in uses):
            page = re.sub(rf'\s*<(script|link)\b[^>]*({asset})[^>]*>(</script>)?', "", page)
    page = HELD.sub(r'<span class="held">\g<0></span>', page)
    root = re.search('data-content_root="([^"]*)"', page)
    if root and "<mjx-container" in page:
        style = maths_style(page).replace("FONTS/", f"{root[1]}_static/mathjax/")
        early = "".join(map(PRELOAD.format, EARLY.findall(style)))
        page = page.replace("</head>", f"{early}{STYLE}\n{style}</style>\n</head>", 1)
    if "<table" in page and END in page:
        page = page.replace(END, END.replace(" ", ' id="article-end" ', 1), 1).replace("</head>", f"{EXPECT}</head>", 1)
    return page


def bring_fonts(app: Sphinx, error: Exception | None) -> None:
    """Put the fonts of formulas and icons into the built site."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    if (static / "vendor/fontawesome").exists() and not _as_new(static):
        subset_icons(static)
    shutil.copytree(_folder("sphinx-mathjax-offline", "static/mathjax") / FONTS, static / "mathjax", dirs_exist_ok=True)


def _as_new(static: Path) -> bool:
    """Whether the small fonts are at least as new as this module and all that they are made of."""
    made = [static / f"{name}.woff" for name in THEME_FONTS]
    origins = [Path(__file__), *(static / "styles").glob("*.css"), *(static / font for font in THEME_FONTS.values())]
    return all(font.exists() for font in made) and min(map(_changed, made)) >= max(map(_changed, origins))


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def subset_icons(static: Path) -> None:
    """Write the few glyphs that the theme's styles show as text (on admonitions, say) to fonts of 2 KB; theirs are 150 KB."""
    from fontTools import subset  # here, since it takes half a second to load and few builds need it

    styles = "".join(path.read_text("utf-8") for path in sorted((static / "styles").glob("*.css")))
    apart = re.sub(r"(?:\.fa-[\w-]+::?before,?)+\{[^}]*\}", "", styles)  # those rules are for <i>, and for thousands of glyphs
    codes = {int(code, 16) for code in re.findall(r'"\\(f[0-9a-f]{3})"', apart)}
    codes |= {ord(sign) for sign in apart if "\ue000" <= sign <= "\uf8ff"}
    options = subset.Options(flavor="woff", layout_features=[], name_IDs=[0, 1, 2, 13, 14], notdef_outline=False)
    for name, whole in THEME_FONTS.items():
        font = subset.load_font(static / whole, options)
        chosen = subset.Subsetter(options)
        chosen.populate(unicodes=codes)
        chosen.subset(font)
        subset.save_font(font, static / f"{name}.woff", options)


def _origin() -> list[Any]:
    """What the engines' results depend on besides what they are asked."""
    return [version("sphinx-mathjax-offline"), version("pydata-sphinx-theme"), _changed(Path(__file__))]


def recall(app: Sphinx) -> None:
    """Take what the last build kept, if this module and both packages are the same."""
    with suppress(FileNotFoundError):
        origin, known = pickle.loads((Path(app.doctreedir) / "drawn.pickle").read_bytes())
        if origin == _origin():
            _KEPT.update(known)


def keep(app: Sphinx, error: Exception | None) -> None:
    """Leave to the next build what the engines made."""
    path = Path(app.doctreedir) / "drawn.pickle"
    path.with_suffix(".new").write_bytes(pickle.dumps((_origin(), _KEPT)))
    os.replace(path.with_suffix(".new"), path)


def setup(app: Sphinx) -> None:
    """Let Sphinx typeset with this module."""
    app.add_html_math_renderer("typeset", (visit_math, None), (visit_displaymath, None))
    app.config.html_math_renderer = "typeset"  # type: ignore[attr-defined]
    app.connect("builder-inited", recall)
    app.connect("build-finished", keep)
    app.connect("build-finished", bring_fonts)
