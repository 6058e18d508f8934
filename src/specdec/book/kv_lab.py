"""The KV calculator as an object: a widget in Jupyter, and on the static page a table that the same module replaces.

The interface is ``kv_lab.mjs``, the rules ``kv_rules.mjs``. This side holds the first setting, and the catalogue as data.
"""

import html
import json
import re
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

import anywidget
import traitlets

from specdec.book.tables import table
from specdec.kv import catalogue, config, engines
from specdec.kv.engines import ENGINES, VLLM, Engine, LlamaCpp
from specdec.kv.plan import GIB, Plan, Speculation, available, size

DEFAULTS: dict[str, str] = {
    "model": "Llama-3.1-8B", "config": "", "k": "", "v": "", "length": "8192", "sequences": "32", "shared": "0",
    "engine": "vllm", "block": "16", "batched_tokens": "", "state_blocks": "1", "hybrid": "yes", "ubatch": "512", "unified": "",
    "swa_full": "", "memory": "80", "utilisation": "90", "weights": "", "activations": "2", "tp": "1", "pp": "1", "gamma": "0",
    "draft": "",
}  # fmt: skip
"""A setting as the form and an address hold it. Memory, weights and activations are in GiB for one GPU, utilisation is in per
cent; empty weights are assumed from the model's name, an empty dtype is the model's own; a box is ``yes`` or empty."""

FLAGS = ("hybrid", "unified", "swa_full")
TABLES = {
    config: ("NESTED", "NAMES", "KINDS", "LETTERS", "DEFAULTS", "ALL_SLIDE", "UNMODELLED", "PLAIN"),
    engines: ("LLAMA_CPP_WINDOWS", "LLAMA_CPP_FULL"),
}


@cache
def module() -> str:
    """The text of one ES module, interface and rules together: anywidget and a page without a server load no second file."""
    rules, lab = (resources.files("specdec.book").joinpath(name).read_text("utf-8") for name in ("kv_rules.mjs", "kv_lab.mjs"))
    return rules + re.sub(r"^import \{.*?\} from \"\./kv_rules\.mjs\";\n", "", lab, count=1, flags=re.S | re.M)


@cache
def data() -> str:
    """What the module needs to know of models, as JSON text: the catalogue's configs, and tables of the rules."""
    models = {name: catalogue.entry(name)["config"] for name in catalogue.names()}
    tables = {name: getattr(where, name) for where, names in TABLES.items() for name in names}
    return json.dumps({"tables": tables, "models": models}, ensure_ascii=False)


def filled(given: dict[str, Any]) -> dict[str, str]:
    """The defaults with what is given instead, all as text; ``ValueError`` names a key that there is not."""
    unknown = given.keys() - DEFAULTS.keys()
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: a setting has {', '.join(DEFAULTS)}")
    setting = {**DEFAULTS, **{key: _text(value) for key, value in given.items()}}
    for key in ("model", "draft"):
        if setting[key]:
            setting[key] = catalogue.entry(setting[key])["name"]  # a Hub id names a model too
    return setting


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    return json.dumps(value) if isinstance(value, dict) else str(value)


def parameters(name: str) -> int:
    """How many parameters a model's name says that it has (8x7B: 56 billion), 0 if it says nothing, or those of one expert."""
    if re.search(r"-\d+E(?![A-Za-z0-9])", name):
        return 0
    found = re.search(r"(?:^|[^A-Za-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])", name, re.I)
    if not found:
        return 0
    times, number, unit = found.groups()
    return int(int(times or 1) * Fraction(number) * (10**9 if unit in "Bb" else 10**6))


def solved(setting: dict[str, str]) -> tuple[Plan, int]:
    """The plan of a setting, and the budget of each rank."""
    target = config.parse(setting["config"]) if setting["config"] else catalogue.load(setting["model"])
    target = target.with_dtypes(setting["k"] or None, setting["v"] or None)
    gamma, tp, pp = int(setting["gamma"]), int(setting["tp"]), int(setting["pp"])
    draft = catalogue.load(setting["draft"]) if gamma and setting["draft"] else None
    if draft:
        fits = setting["k"] != "fp8_ds_mla" or any(group.kind == "latent" for group in draft.groups)
        draft = draft.with_dtypes((setting["k"] or None) if fits else None, setting["v"] or None)
    speculation = Speculation(gamma, draft) if gamma else None
    plan = Plan(target, _engine(setting), speculation, tp, pp, shared=int(setting["shared"]))
    weights = _bytes(setting["weights"])
    if not setting["weights"]:
        weights = -(-2 * parameters(target.name) // (tp * pp)) + (-(-2 * parameters(draft.name) // tp) if draft else 0)
    memory, activations, utilisation = _bytes(setting["memory"]), _bytes(setting["activations"]), int(setting["utilisation"])
    return plan, available(memory, weights=weights, activations=activations, utilisation=(utilisation, 100))


def _engine(setting: dict[str, str]) -> Engine:
    name = setting["engine"]
    if name == "vllm":
        batched = int(setting["batched_tokens"]) if setting["batched_tokens"] else None
        return VLLM(int(setting["block"]), setting["hybrid"] == "yes", batched, int(setting["state_blocks"]))
    if name == "llama.cpp":
        return LlamaCpp(int(setting["ubatch"]), setting["unified"] == "yes", setting["swa_full"] == "yes")
    return ENGINES[name]


def _bytes(gib: str) -> int:
    return int(Fraction(gib or 0) * GIB)


class KVLab(anywidget.AnyWidget):
    """The calculator. Keyword arguments preset its fields, the keys of ``DEFAULTS``: ``KVLab(model="Qwen3-8B", length=8192)``.

    In Jupyter ``setting`` follows the form. On the static page the address does.
    """

    _esm = module()
    data = traitlets.Unicode().tag(sync=True)
    setting = traitlets.Dict(value_trait=traitlets.Unicode()).tag(sync=True)

    def __init__(self, **preset: Any) -> None:
        setting = filled(preset)
        solved(setting)  # a setting that can't be computed is refused here, and not when it is shown
        super().__init__(data=data(), setting=setting)

    def __repr__(self) -> str:
        setting = self.setting
        model = "a config" if setting["config"] else setting["model"]
        return f"KVLab: {model}, {setting['sequences']} sequences of {setting['length']} tokens, {setting['engine']}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        shown, *rest = bundle if isinstance(bundle, tuple) else (bundle or {},)
        held = html.escape(json.dumps(self.setting), quote=True)
        form = f'<div class="kv-lab" data-kv-setting="{held}">{self.static()._repr_html_()}</div>'
        shown = {**shown, "text/plain": repr(self), "text/html": form}
        return (shown, *rest) if rest else shown

    def static(self) -> Any:
        """What stands on a page without JavaScript: this setting, line by line."""
        plan, budget = solved(self.setting)
        length, sequences = int(self.setting["length"]), int(self.setting["sequences"])
        used = f"{self.setting['utilisation']} % of {self.setting['memory']} GiB"
        storage, target = plan.storage(length, sequences), plan.target
        rows = [
            ("bytes per token", "layers that keep every token", f"{target.bytes_per_token(plan.tp):,} B"),
            ("fixed bytes per sequence", "windows and states", f"{target.fixed_bytes(plan.tp):,} B"),
            *((line.label, line.formula, size(line.bytes)) for line in storage.lines),
            ("total", "", size(storage.bytes)),
            ("budget", f"{used} less weights and activations", size(budget)),
            ("sequences that fit", f"at {length:,} tokens", f"{plan.sequences(length, budget):,}"),
            ("longest length", f"of {sequences:,} sequences", f"{plan.length(sequences, budget):,}"),
        ]
        caption = f"{target.name} on {plan.engine.name}: {sequences:,} sequences of {length:,} tokens"
        return table(("what", "how", "value"), rows, caption)
