"""``python -m specdec.conformance package.module:sampler``: put a sampler through the catalogue and print the report.

``sampler`` is what ``rule``, ``loop``, ``texts`` or ``black_box`` returned, or a function with a rule's signature. The exit
status is 0 if nothing speaks against it, 1 if something does or nothing could be shown, 2 if it can't be loaded.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from specdec.conformance.check import report
from specdec.conformance.guard import described
from specdec.conformance.samplers import RULES, Sampler, rule


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m specdec.conformance", description="Is a sampler lossless?")
    parser.add_argument("sampler", help="package.module:name of a Sampler or of a rule")
    parser.add_argument("--declares", choices=RULES, help="the rule whose acceptance a bare function must have")
    parser.add_argument("--prove", action="store_true", help='prove a rule for all small laws too (needs the extra "proofs")')
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as HTML too")
    options = parser.parse_args(arguments)
    try:
        sampler = load(options.sampler, options.declares)
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    found = report(sampler, prove=options.prove)
    Console().print(found)
    if options.html:
        options.html.write_text(found.as_page(), encoding="utf-8")
    return 1 if found.accusations or found.verdict is None else 0


def load(place: str, declares: str | None) -> Sampler:
    """The sampler at ``package.module:name``. ``ValueError`` that names what is missing."""
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise ValueError(f"{place!r} names no sampler: write package.module:name")
    sys.path.insert(0, "")  # a module beside the reader, as python -m does
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(f"{module_name} can't be imported: {described(error)}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module_name} has no {name}: see what it defines, and name a Sampler or a rule")
        found = getattr(found, part)
    if isinstance(found, Sampler):
        if declares:
            raise ValueError(f"{place} is a Sampler and declares {found.declares!r} itself: leave --declares out")
        return found
    if not callable(found):
        raise ValueError(f"{place} is {found!r}: neither a Sampler nor a rule verify(target, draft, proposals, chance)")
    return rule(name, found, declares)


if __name__ == "__main__":
    sys.exit(main())
