"""Sizes the KV cache of a model: what it takes, line by line, and what fits into a memory budget.

CONFIG is the path of a config.json (or of its folder), - for standard input, or a name of the catalogue. Sizes are in bytes, or
take a unit: 80GiB, 16.5GB, 512MiB. Memory, weights, activations and budget are those of one rank.
"""

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from specdec.kv import catalogue, config, engines, plan
from specdec.kv.plan import Plan, Speculation, size
from specdec.kv.shape import CacheShape

UNITS = {
    "": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip

OPTIONS = {
    "vllm": {
        "block": "block", "grain": "grain", "no_hybrid": "hybrid", "batched_tokens": "batched_tokens",
        "state_blocks": "state_blocks",
    },
    "llama.cpp": {"ubatch": "ubatch", "unified": "unified", "swa_full": "swa_full"},
    "sglang": {"block": "page"},
    "tensorrt-llm": {"block": "page"},
}  # fmt: skip
"""Which of the options an engine has, and the field of its profile that each one sets."""


# ---- arguments -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Hands its errors to ``main``, which prints one line."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def parse_size(text: str) -> int:
    """Bytes of ``80GiB``, ``16.5 GB`` or ``4096``, in whole bytes, rounded down."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", text.strip())
    if not found or found[2] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: give bytes, or a unit of {', '.join(filter(None, UNITS))}")
    return int(Fraction(found[1]) * UNITS[found[2]])


def _sizes(text: str) -> list[int]:
    return [parse_size(each) for each in text.split(",")]


def _integers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of layers such as 16,32") from None


def _share(text: str) -> tuple[int, int]:
    """A decimal as two integers, exactly: 0.9 is 9/10, and never the float beside it."""
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 0.9") from None
    return found.numerator, found.denominator


def parser() -> argparse.ArgumentParser:
    """All arguments."""
    top = _Parser(prog="python -m specdec.kv", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("config", metavar="CONFIG")
    top.add_argument("--tokens", type=int, required=True, help="tokens of each sequence")
    top.add_argument("--sequences", type=int, default=1, help="how many are held at once (default 1)")
    top.add_argument("--shared", type=int, default=0, help="tokens of a prefix that all of them have in common")
    top.add_argument("--json", action="store_true", help="exact integers of bytes; a length of null is one without end")
    dtypes = top.add_argument_group("cache dtypes (default: the model's own)")
    dtypes.add_argument("--kv-dtype", help="of keys and values, the draft's too: f16, fp8, q8_0, nvfp4, fp8_ds_mla, ...")
    dtypes.add_argument("--k-dtype", help="of the target's keys, or its latents")
    dtypes.add_argument("--v-dtype", help="of the target's values")
    dtypes.add_argument("--state-dtype", help="of states, the draft's too; llama.cpp keeps them in f32 whatever is said here")
    rules = top.add_argument_group("engine")
    rules.add_argument("--engine", default="ideal", help=f"{', '.join(engines.ENGINES)} (default ideal: no rounding)")
    rules.add_argument("--block", type=int, help="tokens a block (vllm), or a page (sglang, tensorrt-llm)")
    rules.add_argument("--grain", type=int, help="vllm: a block beside states is a multiple of it (default 16; latent 64)")
    rules.add_argument("--no-hybrid", action="store_const", const=False, help="vllm: windows are counted in full")
    rules.add_argument("--batched-tokens", type=int, help="vllm: tokens of a step, which its printed concurrency reserves")
    rules.add_argument("--state-blocks", type=int, help="vllm: blocks of a state, 2 where prefix caching aligns them")
    rules.add_argument("--ubatch", type=int, help="llama.cpp: tokens of a physical batch")
    rules.add_argument("--unified", action="store_const", const=True, help="llama.cpp: one pool for all slots")
    rules.add_argument("--swa-full", action="store_const", const=True, help="llama.cpp: windows given up")
    ranks = top.add_argument_group("ranks")
    ranks.add_argument("--tp", type=int, default=1, help="tensor parallelism")
    ranks.add_argument("--pp", type=int, help="pipeline parallelism")
    ranks.add_argument("--partition", type=_integers, help="layers of each stage, such as 16,32")
    memory = top.add_argument_group("memory")
    memory.add_argument("--budget", type=_sizes, help="bytes for caches, or one number for each stage: 40GiB,38GiB")
    memory.add_argument("--memory", type=parse_size, help="in the place of a budget: all memory")
    memory.add_argument("--utilisation", "--utilization", type=_share, help="share of it that may be used (default 0.9)")
    memory.add_argument("--weights", type=parse_size, help="what weights take of it")
    memory.add_argument("--activations", type=parse_size, help="what the largest step takes of it")
    ahead = top.add_argument_group("speculation")
    ahead.add_argument("--draft", metavar="CONFIG", help="a draft model; without one, proposals cost no cache")
    ahead.add_argument("--gamma", type=int, help="proposals a round")
    ahead.add_argument("--vocabulary", type=int, help="width of the row buffers (default: the config's)")
    return top


# ---- from arguments to a plan ----------------------------------------------------------------------------------------


def _shape(name: str) -> CacheShape:
    if name == "-":
        return config.parse(sys.stdin.read(), name="standard input")
    path = Path(name)
    if path.exists() or path.suffix == ".json":
        return config.read(path)
    return catalogue.load(name)


def _engine(given: argparse.Namespace) -> engines.Engine:
    rule, fields = engines.engine(given.engine), OPTIONS.get(given.engine, {})
    changed = {}
    for option in sorted({option for each in OPTIONS.values() for option in each}):
        value = getattr(given, option)
        if value is None:
            continue
        if option not in fields:
            have = ", ".join(name for name, each in OPTIONS.items() if option in each)
            raise ValueError(f"--{option.replace('_', '-')} is an option of {have}, not of {given.engine}")
        changed[fields[option]] = value
    return replace(rule, **changed) if changed else rule  # type: ignore[type-var]


def _budget(given: argparse.Namespace) -> list[int] | None:
    """Bytes for caches on a rank of every stage, or of each."""
    parts = {name: getattr(given, name) for name in ("weights", "activations", "utilisation") if getattr(given, name) is not None}
    if given.memory is not None:
        if given.budget is not None:
            raise ValueError("--budget and --memory are two ways to say the same: give one")
        return [plan.available(given.memory, **parts)]
    if parts:
        raise ValueError(f"--{next(iter(parts))} is a part of --memory, which is not given")
    return list(given.budget) if given.budget is not None else None


def _typed(
    shape: CacheShape, given: argparse.Namespace, both: str | None, k: str | None = None, v: str | None = None
) -> CacheShape:
    """The shape with the dtypes that are asked for; one for keys and values is no mistake where only latents are cached."""
    values = any(part.role == "V" for group in shape.groups for part in group.token)
    return shape.with_dtypes(k or both, v or (both if values else None), given.state_dtype)


def _plan(given: argparse.Namespace) -> Plan:
    target = _typed(_shape(given.config), given, given.kv_dtype, given.k_dtype, given.v_dtype)
    speculation = None
    if given.gamma is not None:
        draft = _shape(given.draft) if given.draft is not None else None
        if draft:
            # a mixed layout is the target's alone
            draft = _typed(draft, given, None if given.kv_dtype == "fp8_ds_mla" else given.kv_dtype)
        speculation = Speculation(given.gamma, draft, given.vocabulary)
    elif given.draft is not None or given.vocabulary is not None:
        raise ValueError("a draft model and a vocabulary need --gamma, the proposals a round")
    pp = len(given.partition or [1]) if given.pp is None else given.pp
    return Plan(target, _engine(given), speculation, given.tp, pp, given.partition, given.shared)


# ---- what is printed -------------------------------------------------------------------------------------------------


def facts(given: argparse.Namespace) -> dict[str, Any]:
    """Everything that is printed, as exact integers."""
    whole, budgets = _plan(given), _budget(given)
    target, stages = whole.target, whole.stages
    stored, one = whole.storage(given.tokens, given.sequences), whole.storage(given.tokens, 1)
    found: dict[str, Any] = {
        "model": target.name, "engine": whole.engine.name, "tokens": given.tokens, "sequences": given.sequences,
        "tp": whole.tp, "pp": whole.pp, "shared": whole.shared, "gamma": whole.gamma,
        "bytes_per_token": target.bytes_per_token(), "fixed_bytes_per_sequence": target.fixed_bytes(),
        "rank_bytes_per_token": max(stage.bytes_per_token(whole.tp) for stage in stages),
        "rank_fixed_bytes_per_sequence": max(stage.fixed_bytes(whole.tp) for stage in stages),
        "bytes_per_sequence": one.bytes, "total_bytes": stored.bytes, "parts": stored.parts,
        "lines": [{"label": line.label, "formula": line.formula, "bytes": line.bytes} for line in stored.lines],
        "warnings": list(stored.warnings),
    }  # fmt: skip
    if budgets is None:
        return found
    budget = budgets[0] if len(budgets) == 1 else budgets
    length = whole.length(max(1, given.sequences), budget)
    found |= {
        "budget": budget, "fits": bool(whole.fits(given.tokens, given.sequences, budget)),
        "most_sequences": whole.sequences(given.tokens, budget), "longest": None if length == math.inf else length,
    }  # fmt: skip
    if given.memory is not None:
        over, under = given.utilisation or (9, 10)
        found |= {
            "memory": given.memory, "utilisation": f"{over}/{under}", "weights": given.weights or 0,
            "activations": given.activations or 0,
        }  # fmt: skip
    if whole.gamma:
        found["most_sequences_without_speculation"] = replace(whole, speculation=None).sequences(given.tokens, budget)
    return found


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(label) for label, _ in rows)
    return [f"  {label:<{width}}  {value}" for label, value in rows]


def _bytes(number: int) -> str:
    return f"{number:,} B" + (f" = {size(number)}" if 1024 <= number < 10**300 else "")  # beyond, no float holds it


def text(found: dict[str, Any]) -> str:
    """The same as a page of text."""
    ranks = f", tp {found['tp']}, pp {found['pp']}: the fullest rank" if found["tp"] * found["pp"] > 1 else ""
    out = [f"{found['model']}, {found['engine']}, {found['sequences']:,} sequences of {found['tokens']:,} tokens{ranks}", ""]
    rows = [("the model's own bytes per token", "bytes_per_token"), ("the model's own fixed bytes", "fixed_bytes_per_sequence")]
    if ranks:
        rows += [(f"{label}, on a rank", f"rank_{key}") for label, key in rows]
    rows += [("one sequence, allocated", "bytes_per_sequence"), ("all sequences", "total_bytes")]
    out += _aligned([(label, _bytes(found[key])) for label, key in rows])
    out += ["", "Derivation"]
    for line in found["lines"]:
        out += [f"  {line['label']}: {line['formula']}", f"    = {_bytes(line['bytes'])}"]
    if "another stage" in found["parts"]:
        out += ["  another stage", f"    + {_bytes(found['parts']['another stage'])}"]
    if len(found["parts"]) > 1:
        out += ["", "Parts", *_aligned([(label, _bytes(value)) for label, value in found["parts"].items()])]
    if "budget" in found:
        out += ["", "What fits", *_aligned(_fitting(found))]
    if found["warnings"]:
        out += ["", *(f"Warning: {sentence}" for sentence in found["warnings"])]
    return "\n".join(out)


def _fitting(found: dict[str, Any]) -> list[tuple[str, str]]:
    budgets = found["budget"] if isinstance(found["budget"], list) else [found["budget"]]
    longest, most = found["longest"], found["most_sequences"]
    rows = []
    if "memory" in found:
        parts = f"{found['utilisation']} - {found['weights']:,} B - {found['activations']:,} B"
        rows = [("memory of a rank", _bytes(found["memory"])), ("less the rest", f"x {parts} (weights, activations)")]
    rows += [
        ("budget of a rank" if len(budgets) == 1 else "budgets of the stages", "; ".join(map(_bytes, budgets))),
        (f"{found['sequences']:,} sequences of {found['tokens']:,}", "fit" if found["fits"] else "do not fit"),
        (f"most sequences of {found['tokens']:,} tokens", f"{most:,}"),
        (f"longest with {max(1, found['sequences']):,} sequences", "any length" if longest is None else f"{longest:,} tokens"),
    ]
    if "most_sequences_without_speculation" in found:
        plain = found["most_sequences_without_speculation"]
        rows += [("most sequences without speculation", f"{plain:,}"), ("speculation costs", f"{plain - most:,} sequences")]
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan; 0, or 2 after one line to standard error. A reader that closes the pipe early is no error."""
    try:
        given = parser().parse_args(arguments)
        found = facts(given)
        print(json.dumps(found, indent=1) if given.json else text(found), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at exit fails again, aloud
    except (ValueError, OSError, RecursionError) as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
