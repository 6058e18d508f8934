"""The published models: what the importer makes of their configs is what the collection of facts says."""

from collections import Counter

import pytest

from specdec.kv import catalogue, config


def test_there_are_57_models_with_names_of_their_own():
    names = catalogue.names()
    assert len(names) == len(set(names)) == 57
    assert len({catalogue.entry(name)["hf_id"] for name in names}) == 57


@pytest.mark.parametrize("name", catalogue.names())
def test_bytes_and_layers_are_the_published_ones(name):
    """``expected`` was computed from the published shape with 2 bytes a value, without the importer."""
    expected = catalogue.entry(name)["expected"]
    shape = catalogue.load(name)
    index = sum(group.count * part.size() for group in shape.groups for part in group.token if part.role == "index")
    layers: Counter[str] = Counter()
    for group in shape.groups:
        layers[group.kind] += group.count
    assert shape.bytes_per_token() - index == expected["bytes_per_token"]
    assert index == expected.get("index_bytes_per_token", 0)
    window = sum(group.count * group.token_bytes() for group in shape.groups if group.window is not None)
    assert window == expected["sliding_bytes_per_cached_token"]
    assert dict(layers) == expected["layers"]
    assert shape.name == name


@pytest.mark.parametrize("name", catalogue.names())
def test_every_model_says_where_it_is_from(name):
    entry = catalogue.entry(name)
    assert entry["source"] and all(isinstance(each, str) for each in entry["source"] + entry["recalled"])


def test_every_model_is_of_a_family_that_the_importer_knows():
    for name in catalogue.names():
        assert not any("general rules" in warning for warning in catalogue.load(name).warnings), name


def test_states_of_the_hybrids():
    """By hand: the matrices in float32 where the config says so (Jamba's is silent), the convolutions' past in bfloat16."""
    qwen = 48 * (48 * 128 * 128 * 4 + 3 * (48 * 128 + 2 * 16 * 128) * 2)
    jamba = 28 * (8192 * 16 * 2 + 3 * 8192 * 2)
    nemotron = 23 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2)
    assert catalogue.load("Qwen3.5-27B").fixed_bytes() == qwen
    assert catalogue.load("Jamba-v0.1").fixed_bytes() == jamba
    assert catalogue.load("Nemotron-3-Nano-30B-A3B").fixed_bytes() == nemotron


def test_a_model_is_found_by_its_hub_id_too_and_takes_a_dtype():
    assert catalogue.load("Qwen/Qwen3-8B") == catalogue.load("Qwen3-8B")
    assert catalogue.load("Qwen3-8B", dtype="fp8").bytes_per_token() == 147456 // 2
    assert catalogue.load("Qwen3-8B") == config.read(catalogue.entry("Qwen3-8B")["config"], name="Qwen3-8B")


def test_an_unknown_name_gets_the_close_ones():
    with pytest.raises(ValueError, match=r"model 'qwen3-8' is not in the catalogue: close are .*Qwen3-8B"):
        catalogue.load("qwen3-8")
    with pytest.raises(ValueError, match="lists all"):
        catalogue.entry("zzzzzz")
