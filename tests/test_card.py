"""The parts of a model card, and the training command where the extra is missing. None of this needs torch."""

import hashlib
import lzma
import subprocess
import sys

import numpy as np
import pytest

from specdec.models.ngram import NGram, bits_per_character
from specdec.models.text import Vocabulary, clean
from specdec.training import card
from specdec.training.__main__ import main

ABC = Vocabulary("ABC")
TRAINING, HELD_OUT = ("".join(np.random.default_rng(seed).choice(list("ABC"), 3000, p=[0.8, 0.1, 0.1])) for seed in (0, 1))


def test_the_text_is_named_by_packages_lengths_and_digests():
    facts = card.text("Aé", "B")
    assert facts["packages"].keys() == {"numpy", "matplotlib"} and facts["packages"]["numpy"] == np.__version__
    assert facts["training"] == {"characters": 2, "sha256": hashlib.sha256("Aé".encode()).hexdigest()}
    assert facts["held_out"]["characters"] == 1 and "numpy.linalg" in facts["held_out_modules"]


def test_the_vocabulary_states_symbols_start_and_what_stands_for_others():
    assert card.vocabulary(ABC) == {"symbols": "ABC", "start_token": 3, "fallback": clean("é")}


def test_comparisons_are_what_they_say():
    facts = card.comparisons(TRAINING, HELD_OUT, ABC)
    tokens, scored = ABC.encode(TRAINING), ABC.encode(HELD_OUT)
    bits = {order: bits_per_character(NGram(tokens, ABC, order), scored) for order in range(4, 9)}
    best = min(bits, key=bits.get)
    assert facts["witten_bell"] == {"order": best, "bits": round(bits[best], 4)}
    assert facts["xz_alone"] == round(8 * len(lzma.compress(HELD_OUT.encode(), preset=9 | lzma.PRESET_EXTREME)) / 3000, 4)
    assert facts.keys() == card.HOW_COMPARED.keys()


def test_xz_knows_the_training_text_when_it_comes_to_the_held_out_one():
    seen, unseen = (card.comparisons(TRAINING, text, ABC)["xz_after_training"] for text in (TRAINING[500:2500], HELD_OUT))
    assert 0 < seen < 0.1 < unseen


@pytest.mark.parametrize("missing", ["torch", "transformers", "tqdm"])
def test_without_the_extra_one_sentence_says_what_to_install(missing, monkeypatch):
    monkeypatch.setattr("specdec.training.__main__.import_module", _lacking(missing))
    with pytest.raises(SystemExit, match=rf'^{missing} is not installed.*: pip install "specdec\[training\]"$'):
        main(["transformer", "small"])


def test_any_other_missing_module_is_a_fault_of_ours(monkeypatch):
    monkeypatch.setattr("specdec.training.__main__.import_module", _lacking("specdec.training.shop"))
    with pytest.raises(ModuleNotFoundError):
        main(["transformer", "small"])


def _lacking(name):
    def import_module(module):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    return import_module


def test_help_needs_no_extra_and_an_unknown_command_is_refused():
    assert "distil" in subprocess.run([sys.executable, "-m", "specdec.training", "-h"], capture_output=True, text=True).stdout
    with pytest.raises(SystemExit, match="2"):
        main(["oracle"])
