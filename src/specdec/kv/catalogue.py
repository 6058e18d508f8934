"""Published models by name: their config's keys with sources in ``models.json``, read by the same importer as any file."""

import json
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any

from specdec.kv import config
from specdec.kv.dtypes import CacheDtype
from specdec.kv.shape import CacheShape


@cache
def _entries() -> dict[str, dict[str, Any]]:
    text = resources.files("specdec.kv").joinpath("models.json").read_text(encoding="utf-8")
    return {each["name"]: each for each in json.loads(text)["models"]}


def names() -> list[str]:
    """All names, in the order of the file."""
    return list(_entries())


def entry(name: str) -> dict[str, Any]:
    """What the file holds on a model, by its name or its Hub id: ``config``, ``source``, ``recalled``, ``expected``.

    ``ValueError`` names the models that are close.
    """
    known = _entries()
    for each in known.values():
        if name in (each["name"], each["hf_id"]):
            return dict(each)
    folded = {own.lower(): own for each in known.values() for own in (each["name"], each["hf_id"])}
    close = [folded[found] for found in get_close_matches(str(name).lower(), folded, n=3, cutoff=0.5)]
    hint = f"close are {', '.join(close)}" if close else "catalogue.names() lists all; a config.json can be read as well"
    raise ValueError(f"model {name!r} is not in the catalogue: {hint}")


def load(name: str, *, dtype: str | CacheDtype | None = None) -> CacheShape:
    """The shape of a model, by its name or its Hub id."""
    found = entry(name)
    return config.read(found["config"], name=found["name"], dtype=dtype)
