"""The KV calculator. Its interface is ``kv_lab.mjs``, its rules ``kv_rules.mjs``.

This side holds the first setting, the catalogue as data, and the table that stands where no script runs.
"""

import json
import re
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

from specdec.book.lab import Lab
from specdec.book.tables import table
from specdec.kv import catalogue, config, engines
from specdec.kv.engines import ENGINES, VLLM, Engine, LlamaCpp
from specdec.kv.plan import GIB, Plan, Speculation, available, size

TABLES = {
    config: ("NESTED", "NAMES", "KINDS", "LETTERS", "DEFAULTS", "ALL_SLIDE", "UNMODELLED", "PLAIN"),
    engines: ("LLAMA_CPP_WINDOWS", "LLAMA_CPP_FULL"),
}


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


class KVLab(Lab):
    """The calculator: ``KVLab(model="Qwen3-8B", length=8192)``."""

    name = "kv"
    modules = ("kv_rules.mjs", "kv_lab.mjs")
    defaults: ClassVar = {
        "model": "Llama-3.1-8B", "config": "", "k": "", "v": "", "length": "8192", "sequences": "32", "shared": "0",
        "engine": "vllm", "block": "16", "batched_tokens": "", "state_blocks": "1", "hybrid": "yes", "ubatch": "512",
        "unified": "", "swa_full": "", "memory": "80", "utilisation": "90", "weights": "", "activations": "2", "tp": "1",
        "pp": "1", "gamma": "0", "draft": "",
    }  # fmt: skip
    """Memory, weights and activations are in GiB for one GPU, utilisation is in per cent; empty weights are assumed from the
    model's name, an empty dtype is the model's own."""

    @classmethod
    @cache
    def facts(cls) -> str:
        """The catalogue's configs, and tables of the rules."""
        models = {name: catalogue.entry(name)["config"] for name in catalogue.names()}
        tables = {name: getattr(where, name) for where, names in TABLES.items() for name in names}
        return json.dumps({"tables": tables, "models": models}, ensure_ascii=False)

    @classmethod
    def filled(cls, given: dict[str, Any]) -> dict[str, str]:
        """The defaults with what is given instead; a setting that can't be computed is refused here, and not when it is shown."""
        setting = super().filled(given)
        for key in ("model", "draft"):
            if setting[key]:
                setting[key] = catalogue.entry(setting[key])["name"]  # a Hub id names a model too
        solved(setting)
        return setting

    def __repr__(self) -> str:
        setting = self.setting
        model = "a config" if setting["config"] else setting["model"]
        return f"KVLab: {model}, {setting['sequences']} sequences of {setting['length']} tokens, {setting['engine']}"

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
