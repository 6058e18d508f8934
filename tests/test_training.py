"""Training on a network of a few thousand weights: seeded, resumable, exported in Hugging Face's form. Needs the extra."""

import dataclasses
import json

import numpy as np
import pytest

from specdec.models import shipped
from specdec.models.text import Vocabulary

torch = pytest.importorskip("torch", reason='training needs the extra: pip install "specdec[training]"')
transformers = pytest.importorskip("transformers", reason='training needs the extra: pip install "specdec[training]"')
pytest.importorskip("tqdm", reason='training needs the extra: pip install "specdec[training]"')

from specdec.training import ship, transformer  # noqa: E402
from specdec.training.__main__ import main  # noqa: E402
from specdec.training.muon import Muon, orthogonalise  # noqa: E402
from specdec.training.transformer import RECIPES, Recipe, schedule, train, windows  # noqa: E402

TINY = Recipe(layers=1, width=16, heads=2, steps=6, context=32, batch=4)
VOCABULARY = Vocabulary("abcdefgh \n")
TEXTS = tuple("".join(np.random.default_rng(seed).choice(list("abcd efgh\n"), 2000)) for seed in (0, 1))
TOKENS, HELD_OUT = (np.array(VOCABULARY.encode(text)) for text in TEXTS)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A checkpoint every second step, one thread."""
    monkeypatch.setattr(transformer, "CHECKPOINT_EVERY", 2)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(checkpoint, recipe=TINY):
    return train(recipe, TOKENS, HELD_OUT, len(VOCABULARY), checkpoint)


def same(one, other):
    weights = other.state_dict()
    return all(torch.equal(values, weights[name]) for name, values in one.state_dict().items())


# ---- training ------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_weights_twice_and_another_seed_gives_others(tmp_path):
    first = trained(tmp_path / "a")
    assert same(first, trained(tmp_path / "b"))
    assert not same(first, trained(tmp_path / "c", dataclasses.replace(TINY, seed=1)))


@pytest.mark.parametrize("saves", [1, 2])
def test_a_run_broken_off_and_resumed_is_the_uninterrupted_one_bit_for_bit(tmp_path, monkeypatch, saves):
    whole, save, left = trained(tmp_path / "whole"), transformer._save, [saves]

    def break_off(*args):
        save(*args)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(transformer, "_save", break_off)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "broken")
    assert torch.load(tmp_path / "broken", weights_only=True)["step"] == 2 * saves
    monkeypatch.setattr(transformer, "_save", save)
    assert same(whole, trained(tmp_path / "broken"))


def test_a_checkpoint_broken_off_while_written_leaves_the_last_one(tmp_path, monkeypatch):
    whole, write = trained(tmp_path / "whole"), torch.save

    def half(state, path):
        write(state, path)
        if state["step"] == 4:
            path.write_bytes(path.read_bytes()[:1000])
            raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "broken")
    monkeypatch.setattr(torch, "save", write)
    assert torch.load(tmp_path / "broken", weights_only=True)["step"] == 2
    assert same(whole, trained(tmp_path / "broken"))


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    trained(tmp_path / "checkpoint")
    with pytest.raises(ValueError, match=r"checkpoint of another recipe .*: delete it, or choose another folder"):
        trained(tmp_path / "checkpoint", dataclasses.replace(TINY, steps=8))


def test_training_lowers_the_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(transformer, "CHECKPOINT_EVERY", 1000)
    text = np.array(VOCABULARY.encode("abcd efgh\n" * 200))
    model = train(dataclasses.replace(TINY, steps=150), text, text, len(VOCABULARY), tmp_path / "checkpoint")
    by_place = transformer.bits(model, text, 20)
    assert by_place.shape == (32,) and by_place[8:].mean() < 0.5 * np.log2(10)


def test_bits_of_an_uninformed_network_are_the_uniform_laws():
    model = transformer.network(TINY, len(VOCABULARY))
    torch.nn.init.zeros_(model.transformer.wte.weight)
    np.testing.assert_allclose(transformer.bits(model, TOKENS, 5), np.log2(10), rtol=1e-6)


def test_windows_are_the_text_moved_by_a_start_token():
    inputs, targets = windows(np.arange(20), np.array([0, 7]), 4, 99)
    assert inputs.tolist() == [[99, 0, 1, 2], [99, 7, 8, 9]]
    assert targets.tolist() == [[0, 1, 2, 3], [7, 8, 9, 10]]


def test_the_rate_rises_stays_and_falls_to_zero():
    assert schedule(0, 1000) == pytest.approx(1 / 30)
    assert [schedule(step, 1000) for step in (29, 200, 400)] == [1, 1, 1]
    assert schedule(700, 1000) == pytest.approx(0.5)
    assert schedule(1000, 1000) == 0


def test_recipes_are_those_of_the_shipped_models():
    shapes = {name: (recipe.layers, recipe.width, recipe.stored) for name, recipe in RECIPES.items()}
    assert shapes == {"small": (12, 64, "float32"), "base": (6, 256, "float16"), "draft": (1, 64, "float32")}
    assert all(recipe.width % recipe.heads == 0 for recipe in RECIPES.values())


# ---- the optimizer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 48), (48, 16), (24, 24)])
def test_orthogonalising_keeps_singular_vectors_and_brings_values_near_one(shape):
    matrix = torch.from_numpy(np.random.default_rng(3).normal(size=shape)).float()
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    moved = u.T @ orthogonalise(matrix) @ v.T
    kept = moved.diagonal()[values > 0.1 * values[0]]  # five iterations lift smaller ones only in part
    assert ((kept > 0.6) & (kept < 1.25)).all()
    assert (moved - moved.diagonal().diag()).abs().max() < 1e-4


def test_a_first_step_goes_along_the_orthogonalised_gradient():
    matrix = torch.nn.Parameter(torch.ones(4, 16))
    matrix.grad = torch.from_numpy(np.random.default_rng(4).normal(size=(4, 16))).float()
    Muon([matrix], lr=0.1, weight_decay=0.5).step()
    expected = torch.ones(4, 16) * (1 - 0.1 * 0.5) - 0.1 * 2 * orthogonalise(matrix.grad)  # 2 = √(16/4)
    torch.testing.assert_close(matrix.detach(), expected)


# ---- the exported folder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_an_exported_folder_loads_in_hugging_face_and_here_with_equal_logits(tmp_path, stored):
    recipe = dataclasses.replace(TINY, stored=stored)
    facts = ship.export(tmp_path / "tiny", recipe, trained(tmp_path / "checkpoint", recipe), VOCABULARY, TEXTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "tiny"]
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == ["card.json", "config.json", "model.safetensors"]

    network, report = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "tiny", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and network.dtype == torch.float32
    ours = shipped.load(tmp_path / "tiny")
    tokens = [len(VOCABULARY), *HELD_OUT[:31].tolist()]
    with torch.no_grad():
        logits = network.eval()(torch.tensor([tokens])).logits[0, :, :-1].numpy()
    np.testing.assert_allclose(ours.append(ours.start(), tokens), logits, rtol=0, atol=1e-4)

    assert facts == shipped.card(tmp_path / "tiny") == json.loads((tmp_path / "tiny" / "card.json").read_text("utf-8"))
    assert facts["architecture"]["parameters"] == network.num_parameters() and facts["architecture"]["stored"] == stored
    assert facts["bits_per_character"]["held_out"] == pytest.approx(transformer.bits(network, HELD_OUT, 62).mean(), abs=1e-4)
    assert facts["training"]["characters_seen"] == 6 * 4 * 32


def test_an_export_that_would_be_refused_leaves_the_old_folder(tmp_path):
    model = trained(tmp_path / "checkpoint")
    ship.export(tmp_path / "tiny", TINY, model, VOCABULARY, TEXTS)
    before = {path.name: path.read_bytes() for path in (tmp_path / "tiny").iterdir()}
    with torch.no_grad():
        model.transformer.ln_f.bias[3] = float("nan")
    with pytest.raises(ValueError, match=r"ln_f.bias holds 1 values that are no finite number"):
        ship.export(tmp_path / "tiny", TINY, model, VOCABULARY, TEXTS)
    assert {path.name: path.read_bytes() for path in (tmp_path / "tiny").iterdir()} == before


def test_the_command_trains_then_only_exports(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(RECIPES, "small", TINY)
    monkeypatch.setattr(ship, "book_docstrings", dict)
    monkeypatch.setattr(ship, "split", lambda modules, held_out: TEXTS)
    command = ["transformer", "small", "--output", str(tmp_path / "out"), "--work", str(tmp_path / "work"), "--threads", "1"]
    main([*command, "--steps", "4"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["name"] == "small" and facts["training"]["recipe"]["steps"] == 4
    first = (tmp_path / "out" / "small" / "model.safetensors").read_bytes()
    assert torch.load(tmp_path / "work" / "small.checkpoint", weights_only=True)["step"] == 4

    monkeypatch.setattr(Muon, "step", lambda self: pytest.fail("a finished run trained on"))
    main([*command, "--steps", "4"])
    assert (tmp_path / "out" / "small" / "model.safetensors").read_bytes() == first
