"""Published figures of real caches, and the same figures computed here.

``cases.json`` holds facts and addresses: what a log, a paper or a post printed, and what it says about the model and the
engine. ``reproduce`` computes the figure from the facts by the rules of ``shape``, ``engines`` and ``plan``; no case has a rule
of its own. ``trap`` marks publications that are wrong or mix units: there the correct value must come out, and not theirs.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from typing import Any

from specdec.kv.dtypes import CacheDtype
from specdec.kv.engines import VLLM, Engine, Ideal, Layout, LlamaCpp, Paged, Use, slot_length
from specdec.kv.plan import GB, GIB, Plan, Speculation
from specdec.kv.shape import CacheShape, Layers, attention, gated_delta, latent, mamba, mamba2

Case = dict[str, Any]
"""The facts of one figure, named as in ``cases.json``. Decimals are ``Decimal``, so that they are read exactly."""

UNITS: dict[str, int | Fraction] = {
    "GiB": GIB, "MiB": 2**20, "KiB": 2**10, "GB": GB, "MB": 10**6, "KB": 10**3, "bytes": 1,
    "K elements": 1000, "percent": Fraction(1, 100), "times": 1, "tokens": 1, "blocks": 1, "heads": 1,
}  # fmt: skip


def cases() -> list[Case]:
    """All figures, in the order of the file."""
    text = resources.files("specdec.kv").joinpath("cases.json").read_text("utf-8")
    return list(json.loads(text, parse_float=Decimal))


# ---- facts to shape and engine ---------------------------------------------------------------------------------------


def shape_of(case: Case) -> CacheShape:
    """The cache shape of a case's ``layers``, dtypes and ``family``; ``only`` keeps some kinds or roles of it."""
    if "layers" not in case:
        raise ValueError(f"case {case['id']}: no layers are given ({case.get('missing', 'list them')})")
    only = case.get("only", ())
    groups = tuple(_only(_layers(entry, case), only) for entry in case["layers"])
    return CacheShape(case["model"], groups, family=case.get("family", "")).with_dtypes(state=case.get("state_dtype"))


def _layers(entry: dict[str, Any], case: Case) -> Layers:
    kind, number = entry["kind"].split()[0], entry["layers"]
    bits = case.get("kv_bits")
    dtype: Any = CacheDtype(f"{bits} bits", bits, 8) if bits else case.get("kv_dtype", "bf16")
    both: Any = entry.get("head_dim")
    if kind in ("full", "sliding", "chunked"):
        return attention(
            number, entry["kv_heads"], entry["head_dim"], value_width=entry.get("v_head_dim"), window=entry.get("window"),
            chunked=kind == "chunked", k=case.get("k_dtype", dtype), v=case.get("v_dtype", dtype),
        )  # fmt: skip
    if kind == "mla":
        return latent(number, entry["kv_lora_rank"], entry["qk_rope_head_dim"], index=entry.get("index_head_dim", 0), dtype=dtype)
    if kind == "linear":
        return gated_delta(
            number, value_heads=entry["value_heads"], key_heads=entry["key_heads"], kernel=entry["conv_kernel"],
            key_width=entry.get("key_head_dim", both), value_width=entry.get("value_head_dim", both),
        )  # fmt: skip
    if kind == "mamba" and "channels" in entry:
        return mamba(number, channels=entry["channels"], state_size=entry["state_size"], kernel=entry["conv_kernel"])
    if kind == "mamba2":
        return mamba2(
            number, heads=entry["heads"], width=entry["head_dim"], state_size=entry["state_size"], groups=entry["groups"],
            kernel=entry["conv_kernel"],
        )  # fmt: skip
    if kind == "shared":
        return Layers("shared", number)
    if kind == "none" or (kind == "mamba" and "full" in case.get("only", ())):  # states of unknown size, not in the figure
        return Layers("none", number)
    raise ValueError(f"case {case['id']}: layers of kind {entry['kind']!r} with {', '.join(entry)} are not understood")


def _only(group: Layers, only: "list[str] | tuple[()]") -> Layers:
    """The group if its kind is wanted, or its wanted arrays, or a layer without a cache."""
    if not only or group.kind in only:
        return group
    parts = tuple(part for part in group.token if part.role in only)
    return replace(group, token=parts, state=()) if parts else Layers("none", group.count)


def profile(case: Case) -> Engine:
    """The allocation rules of the engine that a case names. What is not an engine (a paper, a post) counts without rounding."""
    name = case["engine"].split()[0]
    if name == "vLLM":
        return VLLM(
            case.get("block", 16), case.get("hybrid", True), case.get("batched_tokens"), case.get("state_blocks", 1),
            case.get("grain"),
        )  # fmt: skip
    if name in ("llama.cpp", "ollama"):
        return LlamaCpp(case.get("ubatch", 512), case.get("unified", False), case.get("swa_full", False), case.get("pad", 256))
    pages = {"SGLang": 1, "TensorRT-LLM": 64, "xinfer": 64}
    return Paged(case.get("block") or pages[name], name) if name in pages else Ideal()


def _length(case: Case) -> int:
    if "context" in case:  # of all slots together
        return slot_length(case["context"], case.get("concurrency", 1), case.get("pad", 256))
    return int(case.get("tokens", 1))


# ---- what is measured ------------------------------------------------------------------------------------------------


def _storage(case: Case) -> Any:
    """Bytes on the fullest rank, of one stage, or of all ranks together."""
    tp = case.get("tp", 1)
    ahead = Speculation(case["lookahead"], vocabulary=1) if "lookahead" in case else None
    plan = Plan(shape_of(case), profile(case), ahead, tp, case.get("pp", 1), case.get("partition"))

    def caches(stage: int | None) -> Any:
        stored = plan.storage(_length(case), case.get("concurrency", 1), stage)
        return stored.bytes - stored.parts.get("row buffers", 0)

    if case.get("ranks") == "all":
        return tp * sum(caches(stage) for stage in range(len(plan.stages)))
    return caches(case.get("stage"))


def _one_token(case: Case) -> int:
    """Bytes of one cached token in all layers, windowed ones too."""
    return sum(group.count * group.token_bytes(case.get("tp", 1)) for group in shape_of(case).groups)


def _values(case: Case) -> int:
    tp, groups = case.get("tp", 1), shape_of(case).groups
    return sum(group.count * part.per_rank(tp) * part.width for group in groups for part in group.token)


def _vllm(case: Case) -> VLLM:
    engine = profile(case)
    if not isinstance(engine, VLLM):
        raise ValueError(f"case {case['id']}: blocks of a pool are asked of {case['engine']}, which is not vLLM")
    return engine


def _budget(case: Case) -> int:
    for name, unit in (("available_gib", GIB), ("available_gb", GB)):
        if name in case:
            return int(Fraction(case[name]) * unit)
    return int(case["blocks"]) * _layout(case).block_bytes


def _layout(case: Case) -> Layout:
    return _vllm(case).layout(shape_of(case), case.get("tp", 1), case.get("lookahead", 0))


def _log(case: Case, length: int | None = None) -> Any:
    return _vllm(case).log(
        shape_of(case), _budget(case), length or _length(case), case.get("tp", 1), case.get("lookahead", 0)
    )  # fmt: skip


def _block_tokens(case: Case, windowed: bool) -> int:
    return next(size for group, size, _ in _layout(case).kinds if group.token and (group.window is not None) == windowed)


def _request_blocks(case: Case, length: int | None = None, attention_only: bool = False) -> int:
    engine, use = _vllm(case), Use(length or _length(case), 1, case.get("lookahead", 0))
    counted = [kind for kind in _layout(case).kinds if not attention_only or (kind[0].token and kind[0].window is None)]
    return int(sum(groups * engine.held(group, size, use) for group, size, groups in counted))


def _other(case: Case) -> Case:
    return {**case, **case["against"]}


MEASURES: dict[str, Callable[[Case], Any]] = {
    "bytes per token": lambda case: shape_of(case).bytes_per_token(case.get("tp", 1)),
    "fixed bytes": lambda case: shape_of(case).fixed_bytes(case.get("tp", 1)),
    "bytes of one token": _one_token,
    "values per token": _values,
    "storage": _storage,
    "pool blocks": lambda case: _log(case).blocks,
    "pool tokens": lambda case: _log(case).tokens if "tokens" in case else _log(case).tokens_by_groups,
    "concurrency": lambda case: _log(case).concurrency,
    "request blocks": _request_blocks,
    "attention block": lambda case: _block_tokens(case, windowed=False),
    "heads per rank": lambda case: max(part.per_rank(case["tp"]) for group in shape_of(case).groups for part in group.token),
    "ratio": lambda case: Fraction(_storage(_other(case)), _storage(case)),
    "reduction": lambda case: 1 - Fraction(_one_token(case), _one_token(_other(case))),
}
"""What a case's ``measure`` stands for: bytes, or a plain number."""


def reproduce(case: Case) -> Any:
    """The figure in the case's unit, exactly; ``ValueError`` where a fact is missing or not understood."""
    for name, known in (("measure", MEASURES), ("unit", UNITS)):
        if case[name] not in known:
            raise ValueError(f"case {case['id']}: {name} {case[name]!r} is not known; known are {', '.join(known)}")
    exact = Fraction(MEASURES[case["measure"]](case)) / Fraction(UNITS[case["unit"]])
    return int(exact) if exact.denominator == 1 else exact


EXTRAS: dict[str, Callable[[Case, Any], Any]] = {
    "max_concurrency": lambda case, extra: _log(case, extra["max_model_len"]).concurrency,
    "attention_blocks_at": lambda case, extra: _request_blocks(case, extra["max_model_len"], attention_only=True),
    "pool_blocks": lambda case, _: _log(case).blocks,
    "request_blocks": lambda case, _: _request_blocks(case),
    "attention_block": lambda case, _: _block_tokens(case, windowed=False),
    "sliding_block": lambda case, _: _block_tokens(case, windowed=True),
    "page_bytes": lambda case, _: _layout(case).block_bytes,
}


def extras(case: Case) -> dict[str, tuple[Any, Any]]:
    """What else the same source prints: name to (published, ours)."""
    found = {}
    for name, extra in case.get("extra", {}).items():
        found[name] = extra["published"] if isinstance(extra, dict) else extra, EXTRAS[name](case, extra)
    return found


# ---- the score -------------------------------------------------------------------------------------------------------


def agrees(published: Any, ours: Any, tolerance: Any) -> bool:
    """Whether ours lies within a relative tolerance of the published value."""
    return bool(abs(Fraction(ours) - Fraction(published)) <= Fraction(tolerance) * abs(Fraction(published)))


@dataclass(frozen=True)
class Row:
    """One line of the table. ``verdict`` is ``reproduced``, ``trap avoided``, ``not enough facts``, or ``FAILED``."""

    id: str
    engine: str
    model: str
    quantity: str
    published: str
    ours: str
    unit: str
    verdict: str
    reason: str
    source: str


def shown(value: Any) -> str:
    """A figure: whole numbers in full, others as printed, or to six digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if isinstance(value, Decimal) else f"{float(value):.6g}"


def judge(case: Case) -> tuple[str, Any]:
    """Verdict and our value; ``None`` where not even that can be computed."""
    if "missing" in case:
        return "not enough facts", reproduce(case) if "layers" in case else None
    ours = reproduce(case)
    matches = agrees(case["published"], ours, case["tolerance"])
    if not case.get("trap"):
        return "reproduced" if matches else "FAILED", ours
    correct = agrees(case["correct_value"], ours, case["tolerance"])
    return "trap avoided" if correct and not matches else "FAILED", ours


def score() -> list[Row]:
    """The table, a row for each case."""
    rows = []
    for case in cases():
        verdict, ours = judge(case)
        reason = case.get("missing") or case.get("why", "")
        rows.append(Row(
            case["id"], case["engine"], case["model"], case["quantity"], shown(case["published"]),
            "–" if ours is None else shown(ours), case["unit"], verdict, reason, case["source"],
        ))  # fmt: skip
    return rows
