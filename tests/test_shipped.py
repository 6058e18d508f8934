"""Shipped models: what is whole loads, and every fault in a file is refused by name before anything is computed."""

import json
from pathlib import Path

import numpy as np
import pytest

import tiny
from specdec.models import shipped

WEIGHTS, TOKENS, LOGITS = tiny.stored()


@pytest.fixture
def folder(tmp_path):
    return tiny.write(tmp_path / "model", WEIGHTS)


def refused(folder, file, fault):
    """Assert that loading fails with the file, the fault and the remedy in one message."""
    with pytest.raises(ValueError, match=fault) as raised:
        shipped.load(folder)
    message = str(raised.value)
    assert str(folder / file) in message
    assert "restore the file, or train it again: python -m specdec.training transformer model" in message


def with_weight(name, values):
    return {**WEIGHTS, name: values}


# ---- what loads ----------------------------------------------------------------------------------------------------


def test_a_folder_loads_and_computes_the_stored_logits(folder):
    model = shipped.load(folder)
    np.testing.assert_allclose(model.append(model.start(), TOKENS), LOGITS[:, :10], rtol=0, atol=1e-4)
    assert (model.vocabulary, model.heads, model.slides) == (tiny.VOCABULARY, 2, False)
    assert shipped.load(folder, slides=True).slides


def test_float16_weights_load_as_the_numbers_that_they_are(tmp_path):
    architecture = {"layers": 2, "width": 16, "heads": 2, "context": 24, "stored": "float16"}
    halves = {name: values.astype(np.float16) for name, values in WEIGHTS.items()}
    model = shipped.load(tiny.write(tmp_path / "model", halves, card={"architecture": architecture}))
    expected = tiny.textbook(halves, 2, TOKENS)[:, :10]
    np.testing.assert_allclose(model.append(model.start(), TOKENS), expected, rtol=0, atol=1e-4)


def test_a_shipped_model_is_found_by_its_name(folder, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", folder.parent)
    assert shipped.names() == ["model"]
    assert shipped.card("model")["architecture"]["width"] == 16
    assert shipped.load("model").width == 16


SHIPPED = ["base", "base-ngram", "draft", "small", "small-ngram"]


def test_what_is_shipped():
    assert shipped.names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_what_the_package_ships_is_whole(name):
    facts = shipped.card(name)
    assert facts["name"] == name
    if facts["kind"] == "transformer":
        model = shipped.load(name)
        tokens = [model.start_token, *model.vocabulary.encode("Return a new array")]
        rows = model.append(model.start(), tokens)
        assert rows.shape == (19, 96) and np.isfinite(rows).all()
        bits = facts["bits_per_character"]
        assert bits["held_out_late"] < bits["held_out"] < np.log2(96) / 2
    else:
        target = shipped.card(facts["target"]["name"])
        assert facts["target"]["sha256"] == target["sha256"]["model.safetensors"], "distilled from another file: distil it again"
        assert len(shipped.load(name)) == facts["rows"] == sum(facts["rows_by_context_length"])
        assert 0.5 < facts["alpha"]["own_text"] < 1


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_an_unknown_name_lists_those_there_are(folder, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", folder.parent)
    tiny.write(folder.parent / "other", WEIGHTS)
    tiny.write(folder.parent / "other.unfinished", WEIGHTS)
    with pytest.raises(ValueError, match="no model is called 'modle': there are model, other; give a folder as a Path"):
        shipped.load("modle")


@pytest.mark.parametrize("file", ["card.json", "config.json", "model.safetensors"])
def test_a_missing_file(folder, file):
    (folder / file).unlink()
    refused(folder, file, "cannot be read")


def test_a_missing_folder(tmp_path):
    refused(tmp_path / "model", "card.json", "cannot be read")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"kind": "transformer"}'])
def test_a_card_that_is_none(folder, content):
    (folder / "card.json").write_bytes(content)
    refused(folder, "card.json", "no card")


@pytest.mark.parametrize(
    "entry",
    [
        {"architecture": {}},
        {"architecture": None},
        {"architecture": {"layers": 2, "width": 16, "heads": 3, "context": 24, "stored": "float32"}},
        {"architecture": {"layers": 0, "width": 16, "heads": 2, "context": 24, "stored": "float32"}},
        {"architecture": {"layers": "2", "width": 16, "heads": 2, "context": 24, "stored": "float32"}},
        {"vocabulary": {"symbols": "abcdefghij"}},
        {"vocabulary": {"symbols": "abcdefghia", "start_token": 10}},
        {"vocabulary": {"symbols": "abcdefghij", "start_token": 0}},
        {"vocabulary": {"symbols": 10, "start_token": 10}},
        {"sha256": {}},
    ],
    ids=str,
)
def test_a_card_that_describes_no_transformer(tmp_path, entry):
    refused(tiny.write(tmp_path / "model", WEIGHTS, card=entry), "card.json", "describes no transformer")


def test_a_card_of_an_unknown_kind(tmp_path):
    refused(tiny.write(tmp_path / "model", WEIGHTS, card={"kind": "oracle"}), "card.json", "unknown kind 'oracle'")


def test_another_models_folder_under_this_name(folder, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", folder.parent)
    folder.rename(folder.parent / "large")
    with pytest.raises(ValueError, match="is the card of 'model'"):
        shipped.load("large")


def test_a_vocabulary_of_another_size(tmp_path):
    longer = {"vocabulary": {"symbols": "abcdefghijk", "start_token": 11}}
    refused(tiny.write(tmp_path / "model", WEIGHTS, card=longer), "config.json", "vocab_size is 11, .* say 12")
    both = tiny.write(tmp_path / "model", WEIGHTS, card=longer, config={"vocab_size": 12})
    refused(both, "model.safetensors", r"wte.weight is float32 \(11, 16\), the card says float32 \(12, 16\)")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("activation_function", "gelu_new"),
        ("n_head", 4),
        ("n_layer", 3),
        ("n_embd", 32),
        ("n_positions", 12),
        ("n_inner", 32),
        ("layer_norm_epsilon", 1e-6),
        ("scale_attn_weights", False),
        ("scale_attn_by_inverse_layer_idx", True),
        ("tie_word_embeddings", False),
        ("model_type", "llama"),
    ],
)
def test_a_config_of_another_function(tmp_path, key, value):
    refused(tiny.write(tmp_path / "model", WEIGHTS, config={key: value}), "config.json", f"{key} is {value!r}, the card")


@pytest.mark.parametrize("content", [b"not json", b"{}", b"3"])
def test_a_config_that_is_none(folder, content):
    (folder / "config.json").write_bytes(content)
    refused(folder, "config.json", "no config of a GPT-2")


@pytest.mark.parametrize("kept", [0, 7, 1000, -1])
def test_a_truncated_weight_file(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(folder, "model.safetensors", "the card says .*truncated, changed or another model's")


def test_one_flipped_bit(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    refused(folder, "model.safetensors", "SHA-256")


def test_the_weights_of_another_model(folder, tmp_path):
    other = tiny.write(tmp_path / "other", tiny.random_weights(seed=5))
    (other / "model.safetensors").replace(folder / "model.safetensors")
    refused(folder, "model.safetensors", "another model's")


def test_a_file_that_matches_its_card_and_is_still_no_safetensors(folder):
    content = b"\x08" + bytes(30)
    (folder / "model.safetensors").write_bytes(content)
    facts = json.loads((folder / "card.json").read_text("utf-8"))
    facts["sha256"] = {"model.safetensors": tiny.digest(folder)}
    (folder / "card.json").write_text(json.dumps(facts), "utf-8")
    refused(folder, "model.safetensors", "no safetensors file")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(tmp_path, value):
    faulty = WEIGHTS["h.1.mlp.c_fc.weight"].copy()
    faulty[3, 5] = value
    folder = tiny.write(tmp_path / "model", with_weight("h.1.mlp.c_fc.weight", faulty))
    refused(folder, "model.safetensors", "h.1.mlp.c_fc.weight holds 1 values that are no finite number")


def test_a_missing_and_an_added_tensor(tmp_path):
    renamed = {name.replace("h.1.ln_2.bias", "h.1.ln_2.shift"): values for name, values in WEIGHTS.items()}
    folder = tiny.write(tmp_path / "model", renamed)
    refused(folder, "model.safetensors", r"lacks the tensors \['h.1.ln_2.bias'\] and has \['h.1.ln_2.shift'\] too many")


@pytest.mark.parametrize(
    ("name", "values", "fault"),
    [
        ("h.0.attn.c_attn.weight", np.zeros((48, 16), np.float32), r"is float32 \(48, 16\), the card says float32 \(16, 48\)"),
        ("ln_f.bias", np.zeros(15, np.float32), r"is float32 \(15,\), the card says float32 \(16,\)"),
        ("wpe.weight", np.zeros((24, 16), np.float16), r"is float16 \(24, 16\), the card says float32"),
        ("wpe.weight", np.zeros((24, 16), np.int32), r"is int32 \(24, 16\), the card says float32"),
    ],
)
def test_a_tensor_of_another_shape_or_type(tmp_path, name, values, fault):
    refused(tiny.write(tmp_path / "model", with_weight(name, values)), "model.safetensors", f"{name} {fault}")


def test_a_relative_folder_is_one_of_the_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert shipped.card(Path(folder.name)) == shipped.card(folder)
    assert shipped.load(Path(folder.name)).window == shipped.load(folder).window
