"""What every in-page lab shares: a widget in Jupyter, and on the static page a form that teaches until its script replaces it.

``lab_page.mjs`` is this module's other half. A lab is a subclass of ``Lab``, its ES modules, and a line in ``book/site.py``.
"""

import html
import json
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, ClassVar

import anywidget
import traitlets


@cache
def source(file: str) -> str:
    """The text of one of the book's ES modules without its imports, which stand before it where it runs."""
    text = resources.files("specdec.book").joinpath(file).read_text("utf-8")
    return re.sub(r"^import \{.*?\} from \"\./\w+\.mjs\";\n", "", text, flags=re.S | re.M)


class Lab(anywidget.AnyWidget):
    """A lab. Keyword arguments preset its fields, the keys of ``defaults``.

    A subclass gives the class variables below, and ``static()``; also ``facts()`` if its modules need to know more. The last of
    its modules defines a function ``render({ model, el })``.
    In Jupyter ``setting`` follows the form. On the static page the address does.
    """

    name: ClassVar[str]
    """In addresses, in ``data-lab`` and in ``site.LABS``."""

    modules: ClassVar[tuple[str, ...]]
    """File names beside this one, in the order in which they stand. They are put together here; none is loaded while reading."""

    defaults: ClassVar[dict[str, str]]
    """A setting as the form and an address hold it: all texts, a box is ``yes`` or empty."""

    data = traitlets.Unicode().tag(sync=True)
    setting = traitlets.Dict(value_trait=traitlets.Unicode()).tag(sync=True)

    def __init_subclass__(cls, **options: Any) -> None:
        if "modules" in cls.__dict__:  # anywidget makes a further class of each object's own traits
            cls._esm = f"{source('lab_page.mjs')}{cls.block()}export default widget(renders.{cls.name});\n"
        super().__init_subclass__(**options)

    def __init__(self, **preset: Any) -> None:
        super().__init__(data=self.facts(), setting=self.filled(preset))

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {', '.join(f'{key} {value}' for key, value in self.setting.items() if value)}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        shown, *rest = bundle if isinstance(bundle, tuple) else (bundle or {},)
        held = html.escape(json.dumps(self.setting), quote=True)
        begin = f'<div class="book-lab {self.name}-lab" data-lab="{self.name}" data-setting="{held}">'
        shown = {**shown, "text/plain": repr(self), "text/html": f"{begin}{self.static()._repr_html_()}</div>"}
        return (shown, *rest) if rest else shown

    def static(self) -> Any:
        """What stands on a page without JavaScript, with ``_repr_html_``: this setting, so that it already teaches."""
        raise NotImplementedError

    @classmethod
    def facts(cls) -> str:
        """What the modules need to know, as JSON text; ``model.get("data")`` there."""
        return "null"

    @classmethod
    def filled(cls, given: dict[str, Any]) -> dict[str, str]:
        """The defaults with what is given instead, all as text; ``ValueError`` names a key that there is not."""
        unknown = given.keys() - cls.defaults.keys()
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: a setting has {', '.join(cls.defaults)}")
        return {**cls.defaults, **{key: _text(value) for key, value in given.items()}}

    @classmethod
    def block(cls) -> str:
        """The modules in a block of their own: names of two labs on one page stay apart. It leaves ``renders.NAME``."""
        text = "".join(source(file) for file in cls.modules)
        return f"{{\n{re.sub(r'^export ', '', text, flags=re.M)}renders.{cls.name} = render;\n}}\n"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)


def scripts(labs: Iterable[type[Lab]]) -> str:
    """What a page with these labs needs, as HTML. All of it stands inside the page: browsers load no module from ``file://``."""
    known, blocks = [], []
    for lab in labs:
        facts = lab.facts().replace("</", "<\\/")
        known.append(f'<script type="application/json" id="lab-data-{lab.name}">{facts}</script>')
        blocks.append(lab.block())
    return f'{"".join(known)}<script type="module">{source("lab_page.mjs")}{"".join(blocks)}start();\n</script>'
