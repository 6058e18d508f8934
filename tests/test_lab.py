"""What all in-page labs share: one page for several, the address, and how their modules are put together."""

import itertools
import re
from importlib import import_module

import pytest

from lab_pages import browser, free_tabs, html, javascript, open_labs, settled, tab  # noqa: F401  (fixtures)
from specdec.book import figures, lab, site
from test_figures import DARK, contrast

LABS = {name: getattr(import_module(f"specdec.book.{module}"), cls) for name, (module, cls) in site.LABS.items()}


@pytest.mark.parametrize("name", LABS)
def test_a_module_is_one_text_and_hides_no_name_that_it_takes(name):
    """Put together, a name declared in one file would stand for the same name imported in another."""
    cls = LABS[name]
    assert cls.name == name
    assert not re.search(r"^import |</script", cls._esm, re.M)
    texts = [(lab.resources.files("specdec.book") / file).read_text("utf-8") for file in cls.modules]
    for file, text in zip(cls.modules, texts, strict=True):
        taken = re.findall(r'^import \{[^}]*\} from "./(.*)";', text, re.M)
        assert set(taken) <= {"lab_page.mjs", *cls.modules[: cls.modules.index(file)]}, "what a module takes stands above it"
    declared = re.findall(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", "".join(texts), re.M)
    imported = re.findall(r"\w+", "".join(re.findall(r"^import \{([^}]*)\} from \"./lab_page.mjs\"", "".join(texts), re.M)))
    assert len(declared) == len(set(declared))
    assert imported and set(imported).isdisjoint(declared)


NAMES = ["blue", "orange", "green", "purple", "grey"]


def test_labs_have_the_figures_colours_and_no_others():
    texts = "".join(lab.source(file) for file in {"lab_page.mjs", *itertools.chain(*(cls.modules for cls in LABS.values()))})
    palette = re.findall(r"--(\w+): (#[0-9a-f]{6});", texts)
    assert palette == list(zip(NAMES, [f"#{colour.lower().lstrip('#')}" for colour in figures.COLOURS], strict=True))
    assert len(re.findall(r"#[0-9a-f]{6}\b", texts)) == len(palette)


# The colours of what is drawn, patterns' too; the page's own ink goes without saying.
DRAWN = """() => {
  const found = new Set();
  for (const shape of document.querySelectorAll(".book-lab svg :is(rect, path, circle)")) {
    const { fill, stroke } = getComputedStyle(shape);
    for (const paint of [fill, stroke]) if (/^rgb\\(/.test(paint)) found.add(paint);
  }
  found.delete(getComputedStyle(document.body).color);
  return [...found].map((paint) => "#" + paint.match(/\\d+/g).map((part) => Number(part).toString(16).padStart(2, "0")).join(""));
}"""


def drawn(page, ground, ink):
    page.evaluate("([background, color]) => Object.assign(document.body.style, { background, color })", [ground, ink])
    return page.evaluate(DRAWN)


@pytest.mark.parametrize("name", LABS)
@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", "#000001"), (DARK, "#fffffe")])
def test_what_a_lab_draws_stands_out_on_light_and_dark_pages(open_labs, name, ground, ink):  # noqa: F811
    page = open_labs(LABS[name]())
    colours = drawn(page, ground, ink)
    assert {"#1193ff", "#d17c0f"} <= set(colours), "blue and orange are in each lab"
    assert [colour for colour in colours if contrast(colour, ground) < 3] == []
    page.evaluate("lab => lab.style.setProperty('--green', '#e6b800')", page.locator(".book-lab").element_handle())
    faint = [colour for colour in drawn(page, ground, ink) if contrast(colour, ground) < 3]
    assert faint == (["#e6b800"] if ground == "#ffffff" else []), "a wrong twin: yellow on white"


APART = {
    "overlap": ["overlap-accepted overlap-rejected overlap-corrected"],
    "yield": ["yield-draft yield-verify yield-overhead yield-alone", "yield-pays yield-loses", "yield-stopped yield-full"],
    "stepper": ["stepper-held stepper-read stepper-back stepper-pending"],
}


@pytest.mark.parametrize("name", APART)
def test_kinds_are_told_apart_without_colour(open_labs, name):  # noqa: F811
    """By a pattern, an empty face or dashes. The KV lab's parts have letters."""
    page = open_labs(LABS[name]())
    for kinds in APART[name]:
        looks = [look(page, kind) for kind in kinds.split()]
        assert len(set(looks)) == len(looks), looks


def look(page, kind):
    """What a kind has but its colour: its pattern, or whether it is filled, and its dashes."""
    fill, dashes = page.evaluate("""(kind) => {
      const shape = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      document.querySelector(".book-lab svg").append(shape);
      shape.setAttribute("class", kind);
      const { fill, strokeDasharray } = getComputedStyle(shape);
      return [fill, strokeDasharray];
    }""", kind)
    pattern = re.search(r"(hatch|dots)", fill)
    return pattern[1] if pattern else "none" if fill == "none" else "filled", dashes


@pytest.mark.parametrize("name", [name for name in LABS if name != "kv"])
def test_presets_stand_in_rows_on_a_phone_and_are_a_fingers_breadth(open_labs, name):  # noqa: F811
    presets = open_labs(LABS[name](), width=390).locator(".lab-presets button")
    boxes = [button.bounding_box() for button in presets.all()]
    assert all(box["height"] >= 44 and box["width"] >= 44 and box["x"] + box["width"] <= 390 for box in boxes)
    assert len({box["y"] for box in boxes}) < len(boxes) - 1, "one below the other they would fill the screen"


def test_a_page_without_labs_stays_as_it_is():
    context = {"body": "<p>None.</p>"}
    site.mount_labs(None, "page", "", context, None)
    assert context == {"body": "<p>None.</p>"}


def test_an_unknown_key_is_named():
    with pytest.raises(ValueError, match=r"lenght: a setting has model, config"):
        LABS["kv"](lenght=1)


@pytest.mark.parametrize("labs", [[LABS["kv"](), LABS["kv"](length=100)]])
def test_several_labs_share_a_page_its_scripts_and_its_address(open_labs, labs):  # noqa: F811
    assert html(*labs).count('<script type="module">') == 1
    page = open_labs(*labs)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(x => x.id)")
    assert len(ids) == len(set(ids))
    page.locator("[id$='-sequences']").nth(1).fill("5")
    assert settled(page, "kv-2").startswith("#kv-2:")
    page.locator("[id$='-sequences']").nth(0).fill("7")
    address = settled(page, "kv")
    assert address.startswith("#kv:") and ";kv-2:" in address
    page = open_labs(*labs, begin=address)
    assert [field.input_value() for field in page.locator("[id$='-sequences']").all()] == ["7", "5"]
    second = ";".join(reversed(address[1:].split(";")))
    page = open_labs(*labs, begin=f"#{second}")
    assert page.locator(".book-lab").nth(1).evaluate("lab => lab.getBoundingClientRect().top") < 100, "a link shows its lab"
    page.evaluate("location.hash = '#kv:length=64'")
    assert page.locator("[id$='-length']").nth(0).input_value() == "64"
    assert page.locator("[id$='-length']").nth(1).input_value() == "100"


def widget(page, lab):
    """Show a lab as anywidget does, from a blob, with a model that lives in the kernel."""
    page.evaluate(
        """async ([text, data, setting]) => {
          const { default: lab } = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
          const el = document.createElement("section"), state = { data, setting };
          document.body.append(el);
          globalThis.saved = 0;
          globalThis.leave = lab.render({ el, model: {
            get: (key) => state[key], set: (key, value) => { state[key] = value; }, on: () => {}, off: () => {},
            save_changes: () => { saved += 1; },
          } });
        }""",
        [lab._esm, lab.data, lab.setting],
    )


@pytest.mark.parametrize("name", LABS)
def test_as_a_widget_each_lab_draws_and_saves_to_the_kernel(javascript, name):  # noqa: F811
    page = javascript("export {};")
    widget(page, LABS[name]())
    assert page.get_by_role("alert").inner_text() == ""
    assert page.locator("section figure svg").count() > 0
    assert page.get_by_role("button", name="Copy link").count() == 0, "a notebook's address holds no setting"
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function("saved === 1")
    page.evaluate("leave()")
    assert page.complaints == []


HEARD = """() => {
  globalThis.heard = [];
  document.addEventListener("keydown", ({ key }) => heard.push(key));
}"""


@pytest.mark.parametrize("name", LABS)
def test_as_a_widget_a_lab_keeps_the_keys_of_its_controls_from_the_notebook(javascript, open_labs, name):  # noqa: F811
    """JupyterLab listens on the document. With the very same keys the lab on the site stops none."""
    inside = javascript("export {};")
    widget(inside, LABS[name]())
    heard = []
    for page in (inside, open_labs(LABS[name]())):
        page.evaluate(HEARD)
        slider, menu = page.locator("input[type=range]:visible").first, page.locator("select:visible").first
        before = slider.input_value()
        for control, keys in ((slider, "ArrowRight Home ArrowRight Shift+Enter Escape b"), (menu, "d b Control+s Enter")):
            control.focus()
            for key in keys.split():
                page.keyboard.press(key)
        assert slider.input_value() != before
        heard.append(page.evaluate("heard"))
    assert heard[0] == ["Shift", "Enter", "Escape", "b", "Control", "s"]
    assert [key for key in heard[1] if key not in heard[0]] == ["ArrowRight", "Home", "ArrowRight", "d"]
