"""The book's Sphinx extension: evidence badges, quizzes, and a site that asks nothing of other servers."""

import gc
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from pybtex.backends.plaintext import Backend
from pybtex.plugin import register_plugin
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.jinja2glue import BuiltinTemplateLoader
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective, SphinxRole

from specdec.book import access, light
from specdec.book.citations import BookStyle

EVIDENCE = {
    "derived": "follows from a definition here, checked exactly",
    "assumed": "chosen for a scenario, not observed",
    "measured": "by this build, on the machine that built it",
    "cited": "from the source named here",
}

LABS = {
    "kv": ("kv_lab", "KVLab"),
    "overlap": ("overlap_lab", "OverlapLab"),
    "stepper": ("stepper_lab", "Stepper"),
    "yield": ("yield_lab", "YieldLab"),
}
"""A lab's name, the module in `specdec.book` that has it, and its class."""
LAB = re.compile(r'<div class="book-lab [^"]*" data-lab="([^"]+)"')


class EvidenceRole(SphinxRole):
    """`{derived}`49/25``: the content, then a small badge that says where the number comes from."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the content, a no-break space and the badge, so that the text alone reads `49/25 derived`."""
        content, messages = self.inliner.parse(self.text, self.lineno, self.inliner, nodes.inline())  # type: ignore[attr-defined]
        badge = nodes.abbreviation("", self.name, explanation=EVIDENCE[self.name], classes=["evidence-badge"])
        whole = nodes.inline("", "", classes=["evidence", f"evidence-{self.name}"])
        whole += [*content, nodes.Text("\u00a0"), badge]
        return [whole], messages


# Spaces that hold a number to its unit, and both sides of a relation to a number.
HELD = re.compile(r"(?<=\d) (?=(?:ms|µs|s|[KMG]i?B)\b|%)|(?<=[\w)\]]) (?=[=<>≤≥] [\d.])|(?<=[=<>≤≥]) (?=[\d.])")


class HoldTogether(SphinxPostTransform):
    """No line of the site ends between a number and its unit, nor within γ = 1."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Put no-break spaces into the text, code aside."""
        signatures = self.document.findall(addnodes.desc_signature)
        signed = {id(text) for signature in signatures for text in signature.findall(nodes.Text)}
        for text in list(self.document.findall(nodes.Text)):
            held = HELD.sub("\u00a0", text)
            code = isinstance(text.parent, nodes.literal | nodes.math | nodes.FixedTextElement) or id(text) in signed
            if held != text and not code:
                text.parent.replace(text, nodes.Text(held))


class element(nodes.General, nodes.Element):
    """An HTML element that docutils has no node for: `tag`, and its attributes in `html`."""


def _visit(self: Any, node: element) -> None:
    self.body.append(self.starttag(node, node["tag"], "", **node["html"]))


def _depart(self: Any, node: element) -> None:
    self.body.append(f"</{node['tag']}>\n")


def _pass(self: Any, node: element) -> None:
    """Other builders than HTML show what stands inside."""


def _element(tag: str, *children: nodes.Node, **html: str) -> element:
    return element("", *children, tag=tag, html=html)


def _raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


class QuizDirective(SphinxDirective):
    """A question with one right answer, and feedback on every answer.

    The argument is the question; the content is one list. An item starts with `[ ]`, or with `[x]` if it is right;
    its first paragraph is the answer, the indented paragraphs below are the feedback on it.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the form; ids are numbered within the page, so that every build has the same."""
        name = f"quiz-{self.env.new_serialno('quiz') + 1}"
        question, messages = self.state.inline_text(self.arguments[0], self.lineno)
        answers = [self.answer(item) for item in self.items()]
        if sum(right for right, _, _ in answers) != 1 or len(answers) < 2:
            raise self.error("a quiz has two or more answers, exactly one of them marked [x]")
        fields = _element("fieldset", _element("legend", *question))
        reasons = _element("ol", CLASS="quiz-reasons")
        for letter, (right, answer, feedback) in zip("abcdefgh", answers, strict=False):
            key = f"{name}-{letter}"
            radio = _raw(f'<input type="radio" name="{name}" id="{key}" value="{letter}" />')
            label = _element("label", nodes.Text(f"{letter})\u00a0"), *answer, **{"for": key})
            fields += _element("div", radio, label, CLASS="quiz-answer")
            verdict = nodes.strong("", f"{letter}) is right." if right else f"{letter}) is not right.")
            reasons += _element("li", nodes.paragraph("", "", verdict), *feedback, **{"data-answer": letter})
        # The script shows the button, and hides the answers until the first try; without it they only fold.
        status = _raw('<button type="submit" hidden>Check</button><div class="quiz-status" role="status"></div>')
        folded = _element("details", _element("summary", nodes.Text("All answers, with reasons")), reasons)
        form = _element("form", fields, status, folded, CLASS="quiz")
        self.set_source_info(form)
        return [form, *messages]

    def items(self) -> list[nodes.Element]:
        """Return the items of the one list that the content holds."""
        body = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, body)
        if len(body) != 1 or not isinstance(body[0], nodes.bullet_list):
            raise self.error("a quiz holds one list of answers and nothing else")
        return list(body[0].children)  # type: ignore[arg-type]

    def answer(self, item: nodes.Element) -> tuple[bool, list[nodes.Node], list[nodes.Node]]:
        """Split a list item into whether it is right, the answer and the feedback."""
        first, *feedback = item.children
        text = first[0].astext() if isinstance(first, nodes.paragraph) else ""
        if text[:3] not in ("[ ]", "[x]") or not feedback:
            raise self.error("an answer starts with [ ] or [x], and its feedback is an indented paragraph below it")
        return text[:3] == "[x]", [nodes.Text(text[3:].lstrip()), *first.children[1:]], feedback


def drop_repeated_ids(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Let an id name one element: sphinx-exercise and sphinx-proof give all solutions, all proofs the same."""
    seen: set[str] = set()
    for node in doctree.findall(nodes.Element):
        node["ids"] = [key for key in node["ids"] if key not in seen]
        seen.update(node["ids"])


def drop_thebe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out Thebe, which the theme loads although no page uses it: it logs an error on every page."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "THEBE_JS_URL" not in (getattr(script, "attributes", None) or {}).get("body", "")
        and "thebe" not in str(getattr(script, "filename", script))
    ]


def drop_widget_state(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out the state that ipywidgets store: without their scripts nothing reads it, and its ids change in every build."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if (getattr(script, "attributes", None) or {}).get("type") != "application/vnd.jupyter.widget-state+json"
    ]


class Templates(BuiltinTemplateLoader):
    """Sphinx's templates. A page that they make is finished at once, so that a build finishes those that it writes."""

    def render(self, template: str, context: dict[str, Any]) -> str:  # type: ignore[override]
        """Return what the template makes; a whole page lighter, and repaired after its icons are drawn."""
        made = super().render(template, context)
        return access.repaired(light.lighter(made)) if "</html>" in made else made


def shallow_sidebar(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make a page's sidebar out of titles alone. Sphinx would copy every heading of the book for it, and then drop them."""
    whole, env = context["toctree"], app.env

    def toctree(**options: Any) -> Any:
        if not options.get("titles_only"):
            return whole(**options)
        titles = env.temp_data.setdefault("titles", {})  # Sphinx empties it before it reads a page
        if not titles:
            titles |= {name: _titles(toc) for name, toc in env.tocs.items()}
        every, env.tocs = env.tocs, titles
        try:
            return whole(**options)
        finally:
            env.tocs = every

    context["toctree"] = toctree


def _titles(toc: nodes.Element) -> nodes.Element:
    """A page's table of contents without what stands below its title, unless that names further pages."""
    if next(toc.findall(lambda node: isinstance(node, addnodes.toctree | addnodes.only)), None):
        return toc
    return nodes.bullet_list("", *(nodes.list_item("", item[0].deepcopy()) for item in toc))


def note_files(app: Sphinx, doctree: nodes.document) -> None:
    """Let a page with labs be read again when a lab's module changes, and the first page when a file in ``_static`` does.

    Sphinx copies that folder in every build that writes a page.
    """
    env, files = app.env, []
    if env.docname == app.config.root_doc:
        files += [path for path in Path(app.srcdir, "_static").rglob("*") if path.is_file()]
    if any(LAB.search(node.astext()) for node in doctree.findall(nodes.raw)):
        files += Path(__file__).parent.glob("*.mjs")
    for path in files:
        env.note_dependency(str(path))


def mount_labs(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the modules of a page's labs into it, each once."""
    names = dict.fromkeys(LAB.findall(context.get("body", "")))
    if not names:
        return
    from specdec.book.lab import scripts  # here, since it loads ipywidgets

    context["body"] += scripts(getattr(import_module(f"specdec.book.{LABS[name][0]}"), LABS[name][1]) for name in names)


def leave_all(app: Sphinx, error: Exception | None) -> None:
    """Keep Python from looking for garbage when it ends, too."""
    gc.freeze()


def skip_imported(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip what a module imports before autodoc does: that reads and parses the source of each, and then drops it.

    A name that the module itself documents stays, whatever its value is.
    """
    module = str(app.env.temp_data.get("autodoc:module"))
    if what != "module" or not (inspect.isclass(obj) or inspect.isroutine(obj)) or getattr(obj, "__module__", module) == module:
        return None
    return True if ("", name) not in ModuleAnalyzer.for_module(module).find_attr_docs() else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    # Pages are webs of nodes, and most live as long as the build: Python would look through them for garbage a third of the time.
    gc.disable()
    app.connect("build-finished", leave_all)
    for name in EVIDENCE:
        app.add_role(name, EvidenceRole())
    app.add_node(element, html=(_visit, _depart), latex=(_pass, _pass), text=(_pass, _pass), man=(_pass, _pass))
    app.add_directive("quiz", QuizDirective)
    app.connect("doctree-read", note_files)
    app.connect("doctree-resolved", drop_repeated_ids)
    for change in (drop_thebe, drop_widget_state, mount_labs):
        app.connect("html-page-context", change, priority=900)
    app.connect("html-page-context", shallow_sidebar, priority=100)  # before the theme asks for it
    if "sphinx.ext.autodoc" in app.extensions:
        app.connect("autodoc-skip-member", skip_imported)
    # At each citation sphinxcontrib-bibtex asks for it, and pybtex would search all that is installed.
    register_plugin("pybtex.backends", "plaintext", Backend, force=True)
    register_plugin("pybtex.style.formatting", "book", BookStyle, force=True)
    light.setup(app)
    app.add_post_transform(HoldTogether)
    app.config.template_bridge = "specdec.book.site.Templates"  # type: ignore[attr-defined]
    for part in ("repository", "ahead", "outlines", "notebooks"):
        app.setup_extension(f"specdec.book.{part}")
    access.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
