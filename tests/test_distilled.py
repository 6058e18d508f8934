"""Distilled n-grams: what a table stores, how it is read, and, with the extra, how it is made."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import tiny
from specdec.decoding import Speculative, Stop
from specdec.law import Transforms, total_variation
from specdec.models import shipped
from specdec.models.distilled import FLOOR, Distilled, pack
from specdec.models.text import Vocabulary

VOCABULARY = Vocabulary("abc")
START = 3


def laws(seed, rows, size, concentration=0.3):
    return np.random.default_rng(seed).dirichlet(np.full(size, concentration), rows)


def one_hot(token, size=3):
    return np.eye(size)[token]


CONTEXTS = [b"", bytes([0]), bytes([1, 0]), bytes([2, 1, 0]), bytes([START]), bytes([START, 1])]
"""After a; after ba; after cba; at the start; after b at the start. Not after b, and not after aba."""
LAWS = laws(0, len(CONTEXTS), 3, 1.0)


@pytest.fixture
def table():
    return Distilled(pack(CONTEXTS, LAWS), VOCABULARY)


# ---- what is stored ------------------------------------------------------------------------------------------------


def test_a_table_by_hand():
    """(4/9, 4/9, 1/9) has the roots 170, 170, 85 of 255: stored exactly. A half has 180.3: stored as 180."""
    rows = np.array([[4 / 9, 4 / 9, 1 / 9], [0, 0.5, 0.5]])
    arrays = pack([b"", b"\x01\x02"], rows)
    assert {name: (array.dtype, array.tolist()) for name, array in arrays.items()} == {
        "contexts": (np.uint8, [1, 2]),
        "lengths": (np.uint8, [0, 2]),
        "filled": (np.uint8, [3, 2]),
        "tokens": (np.uint8, [0, 1, 2, 1, 2]),
        "roots": (np.uint8, [170, 170, 85, 180, 180]),
    }
    model = Distilled(arrays, VOCABULARY)
    assert len(model) == 2 and model.longest == 2
    np.testing.assert_allclose(np.exp(model.row(0)), (rows[0] + FLOOR) / (1 + 3 * FLOOR), rtol=1e-12)
    half = (180 / 255) ** 2 + FLOOR
    np.testing.assert_allclose(np.exp(model.row(1)), np.array([FLOOR, half, half]) / (FLOOR + 2 * half), rtol=1e-12)


def bound(size):
    """What storing and the floor can move a law by, in TV.

    A root is off by half a step of 1/255 at most, so an entry p by (2√p + 1/510)/510; over a row Σ√p ≤ √V. Normalising
    again at most doubles the half of that sum, and the floor adds V FLOOR in the same way.
    """
    return math.sqrt(size) / 255 + size / 510**2 + size * FLOOR


@pytest.mark.parametrize("size", [2, 10, 96])
@pytest.mark.parametrize("concentration", [0.02, 0.3, 50])
def test_what_storing_moves_is_within_its_bound(size, concentration):
    vocabulary = Vocabulary("".join(chr(33 + i) for i in range(size)))
    rows = np.concatenate([laws(1, 200, size, concentration), np.full((1, size), 1 / size), np.eye(size)])
    contexts = [b"", *(bytes([i % size, i // size]) for i in range(len(rows) - 1))]
    model = Distilled(pack(contexts, rows), vocabulary)
    stored = np.exp([model.row(i) for i in range(len(rows))])
    moved = total_variation(rows, stored / stored.sum(axis=-1, keepdims=True))
    assert 0 < moved.max() <= bound(size) < 0.04
    assert moved[-size:].max() <= size * FLOOR  # a certain token loses the floor alone


def test_every_token_can_be_proposed(table):
    certain = Distilled(pack([b""], one_hot(1)[None]), VOCABULARY)
    law = np.exp(certain.append(certain.start(), [START])[0])
    np.testing.assert_allclose(law, np.array([FLOOR, 1 + FLOOR, FLOOR]) / (1 + 3 * FLOOR), rtol=1e-12)
    scores = table.append(table.start(), [START, 0, 1, 2, 2, 1, 0])
    assert scores.dtype == np.float64 and np.isfinite(scores).all()
    np.testing.assert_allclose(np.exp(scores).sum(axis=-1), 1, rtol=1e-12)
    assert np.exp(scores).min() >= FLOOR / (1.01 + 3 * FLOOR)


# ---- how it is read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ([START], 4),
        ([START, 1], 5),  # the start token is a token of a context
        ([START, 1, 1], 0),  # nothing kept ends in bb or b: the empty context
        ([START, 0], 1),
        ([START, 1, 0], 2),
        ([START, 0, 1, 0], 2),  # aba is not kept, ba is
        ([START, 2, 1, 0], 3),
        ([START, 0, 2, 1, 0], 3),
        ([START, 2, 1], 0),  # cb is no suffix, though it begins a longer context
        ([START, 2, 0], 1),
    ],
)
def test_the_longest_kept_suffix_names_the_row(table, text, row):
    assert table.feed(table.start(), text) == row
    np.testing.assert_array_equal(table.append(table.start(), text)[-1], table.row(row))


def test_twin_the_shortest_suffix():
    class Shortest(Distilled):
        def feed(self, state, tokens):
            super().feed(state, tokens)
            text = bytes(state)
            suffixes = (text[len(text) - length :] for length in range(1, self.longest + 1))
            return next((self._rows[suffix] for suffix in suffixes if suffix in self._rows), self._rows[b""])

    arrays = pack(CONTEXTS, LAWS)
    right, wrong = Distilled(arrays, VOCABULARY), Shortest(arrays, VOCABULARY)
    texts = [START, 0], [START, 1, 0], [START, 2, 1, 0]
    assert [right.feed(right.start(), text) for text in texts] == [1, 2, 3]
    assert [wrong.feed(wrong.start(), text) for text in texts] == [1, 1, 1]


def test_fed_together_or_one_by_one_a_text_has_the_same_rows(table):
    text = [START, *np.random.default_rng(0).integers(0, 3, 40).tolist()]
    together, single, named = table.start(), table.start(), table.start()
    rows = table.append(together, text)
    for i, token in enumerate(text):
        np.testing.assert_array_equal(table.append(single, [token])[0], rows[i])
        np.testing.assert_array_equal(table.row(table.feed(named, [token])), rows[i])
        assert len(single) == len(named) == i + 1
    assert table.key(together) == table.key(single) == table.key(named) == bytes(text)


def test_a_table_of_the_empty_context_alone():
    model = Distilled(pack([b""], LAWS[:1]), VOCABULARY)
    scores = model.append(model.start(), [START, 0, 1])
    assert len(model) == 1 and model.longest == 0 and (scores == model.row(0)).all()


def test_rewinding_copying_and_keys(table):
    text = [START, 0, 2, 1, 0]
    state = table.start()
    table.append(state, text)
    copy = table.copy(state)
    table.rewind(state, 2)
    assert (len(state), len(copy)) == (2, 5) and table.key(state) != table.key(copy)
    np.testing.assert_array_equal(table.append(state, text[2:])[-1], table.row(3))
    assert table.key(state) == table.key(copy)
    for length in (-1, 6):
        with pytest.raises(ValueError, match="cannot rewind a state of 5 tokens"):
            table.rewind(state, length)


@pytest.mark.parametrize("tokens", [[4], [-1], [0, 255], [0.5], ["a"]])
def test_tokens_that_there_are_not_are_refused_and_not_held(table, tokens):
    state = table.start()
    for feed in (table.append, table.feed):
        with pytest.raises(ValueError, match="expected an id from 0 to 2"):
            feed(state, tokens)
        assert len(state) == 0


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [("lengths", [0, 1, 2, 3, 1, 1]), ("lengths", [0, 1, 2, 3, 1]), ("contexts", [0, 1, 0, 2, 1, 0, 3, 3]), ("filled", [3] * 5)],
)
def test_parts_that_do_not_belong_together(name, values):
    arrays = pack(CONTEXTS, LAWS) | {name: np.array(values, np.uint8)}
    with pytest.raises(ValueError, match="contexts, lengths and rows do not belong together: distil the table again"):
        Distilled(arrays, VOCABULARY)


def test_a_table_without_the_empty_context():
    with pytest.raises(ValueError, match="lacks the empty context"):
        Distilled(pack(CONTEXTS[1:], LAWS[1:]), VOCABULARY)


def test_a_vocabulary_that_does_not_fit_a_byte():
    vocabulary = Vocabulary("".join(chr(33 + i) for i in range(256)))
    with pytest.raises(ValueError, match="do not belong together"):
        Distilled(pack([b""], laws(0, 1, 256)), vocabulary)


def written(folder, arrays):
    """The folder of a shipped table."""
    folder.mkdir()
    np.savez_compressed(folder / "table.npz", **arrays)
    facts = {"kind": "distilled n-gram", "name": folder.name, "vocabulary": {"symbols": "abc"}}
    facts["sha256"] = {"table.npz": shipped.hashlib.sha256((folder / "table.npz").read_bytes()).hexdigest()}
    (folder / "card.json").write_text(json.dumps(facts), "utf-8")
    return folder


def test_a_folder_loads_as_the_table_that_was_packed(tmp_path, table):
    loaded = shipped.load(written(tmp_path / "x-ngram", pack(CONTEXTS, LAWS)))
    text = [START, 0, 1, 2, 1, 0, 0, 1, 0]
    np.testing.assert_array_equal(loaded.append(loaded.start(), text), table.append(table.start(), text))


@pytest.mark.parametrize("missing", ["contexts", "lengths", "filled", "tokens", "roots"])
def test_a_folder_that_lacks_an_array_is_refused_by_name(tmp_path, missing):
    arrays = pack(CONTEXTS, LAWS)
    del arrays[missing]
    with pytest.raises(ValueError, match=r"table.npz: no table: .*train it again: python -m specdec.training distil x"):
        shipped.load(written(tmp_path / "x-ngram", arrays))


def test_one_flipped_bit_is_refused(tmp_path):
    folder = written(tmp_path / "x-ngram", pack(CONTEXTS, LAWS))
    content = bytearray((folder / "table.npz").read_bytes())
    content[60] ^= 1
    (folder / "table.npz").write_bytes(content)
    with pytest.raises(ValueError, match="SHA-256"):
        shipped.load(folder)


# ---- distilling, with the extra ------------------------------------------------------------------------------------


@pytest.fixture
def distil(monkeypatch):
    for name in ("torch", "transformers", "tqdm"):
        pytest.importorskip(name, reason='distilling needs the extra: pip install "specdec[training]"')
    from specdec.training import distil

    monkeypatch.setattr(distil, "READ_FROM", 8)
    return distil


def teacher(seed, size, windows, context, read_from=8):
    """Windows of tokens, as torch gives them, and laws at their counted places."""
    generator = np.random.default_rng(seed)
    inputs = generator.integers(0, size, (windows, context))
    inputs[:, 0] = size
    return inputs, generator.dirichlet(np.ones(5), (windows, context - read_from)).astype(np.float16)


def by_dictionary(inputs, laws, length, read_from=8):
    """{context: (count, mean law)} over the counted places."""
    found = {}
    for text, its_laws in zip(inputs.tolist(), laws.astype(np.float64), strict=True):
        for place, law in enumerate(its_laws, start=read_from):
            found.setdefault(tuple(text[place - length + 1 : place + 1]), []).append(law)
    return {context: (len(rows), np.mean(rows, axis=0)) for context, rows in found.items()}


@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("size", [2, 96])
def test_mean_laws_are_those_of_a_dictionary(distil, length, size):
    """Also of long contexts over many symbols, where a code takes nearly 64 bits."""
    inputs, laws = teacher(length, size, 12, 40)
    if size == 96:  # texts that share all but one token, so that contexts recur and differ in one place
        inputs[:6] = inputs[0]
        inputs[6:] = inputs[0]
        inputs[3:6, 20], inputs[6:9, 27], inputs[9:, 33] = inputs[0, 20] ^ 1, inputs[0, 27] ^ 1, inputs[0, 33] ^ 2
    for least in (1, 3):
        contexts, counts, means = distil.mean_laws(inputs, laws, length, least)
        expected = {context: row for context, row in by_dictionary(inputs, laws, length).items() if row[0] >= least}
        assert {tuple(context) for context in contexts.tolist()} == set(expected)
        for context, count, mean in zip(contexts.tolist(), counts, means, strict=True):
            assert count == expected[tuple(context)][0]
            np.testing.assert_allclose(mean, expected[tuple(context)][1], rtol=0, atol=1e-3)


def test_the_rows_worth_keeping_by_hand(distil, monkeypatch):
    """Three counted places after a and three after b, over two symbols, at READ_FROM = 1; contexts up to two tokens.

    The mean of all is (1/2, 1/2). After a it is (1, 0): 3 places, TV 1/2, worth 3/2. So is b's (0, 1). ab stands before two
    places and has the very law of b: worth nothing, though it would be worth 1 against the mean of all.
    """
    monkeypatch.setattr(distil, "READ_FROM", 1)
    monkeypatch.setattr(distil, "LONGEST", 2)
    inputs = np.array([[2, 0, 0, 1, 1, 0, 1]])
    laws = one_hot([0, 0, 1, 1, 0, 1], 2)[None].astype(np.float16)
    kept = dict(distil.kept_rows(inputs, laws, gain=1))
    assert {context: law.tolist() for context, law in kept.items()} == {
        b"": [0.5, 0.5], b"\x00": [1, 0], b"\x01": [0, 1]
    }  # fmt: skip
    assert len(dict(distil.kept_rows(inputs, laws, gain=1.5))) == 3
    assert list(dict(distil.kept_rows(inputs, laws, gain=1.51))) == [b""]


def test_a_row_is_judged_by_its_longest_kept_suffix(distil, monkeypatch):
    """After ba the law is (0, 1), after aa (1, 0), each twice: a alone has (1/2, 1/2), the mean of all, and is not kept.

    ba and aa differ from the empty context by TV 1/2 and are worth 2 · 1/2 = 1 each.
    """
    monkeypatch.setattr(distil, "READ_FROM", 1)
    monkeypatch.setattr(distil, "LONGEST", 2)
    inputs = np.array([[0, 0, 0], [1, 0, 2], [1, 0, 2], [0, 0, 2]])[:, :2]
    laws = one_hot([0, 1, 1, 0], 2)[:, None].astype(np.float16)
    kept = dict(distil.kept_rows(inputs, laws, gain=1))
    assert {context: law.tolist() for context, law in kept.items()} == {
        b"": [0.5, 0.5], b"\x00\x00": [1, 0], b"\x01\x00": [0, 1]
    }  # fmt: skip
    assert list(dict(distil.kept_rows(inputs, laws, gain=1.01))) == [b""]


def test_the_windows_of_a_text_count_each_place_once(distil):
    """Behind the first READ_FROM places of the text: the counted parts of the windows meet and do not overlap."""
    tokens = np.arange(200) % 7
    windows = distil.text_windows(tokens, 24, 9).numpy()
    assert (windows[:, 0] == 9).all()
    starts = [16 * i for i in range(len(windows))]
    for start, window in zip(starts, windows, strict=True):
        assert window[1:].tolist() == tokens[start : start + 23].tolist()
    counted = [start + place for start in starts for place in range(7, 23)]  # the token fed at place + 1
    assert counted == list(range(7, 7 + len(counted))) and len(counted) > 200 - 7 - 24


def test_the_command_distils_a_tiny_target(distil, tmp_path, monkeypatch):
    from specdec.training.__main__ import main

    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    tiny.write(tmp_path / "model", tiny.random_weights())
    facts = json.loads((tmp_path / "model" / "card.json").read_text("utf-8"))
    generator = np.random.default_rng(0)
    text = "".join(generator.choice(list(tiny.VOCABULARY.symbols), 3000))
    monkeypatch.setattr(distil, "book_docstrings", lambda: text)
    monkeypatch.setattr(distil, "split", lambda *_: (text[:2400], text[2400:]))
    main(["distil", "model", "--output", str(tmp_path), "--gain", "1", "--threads", "1"])
    card = shipped.card(tmp_path / "model-ngram")
    assert card["kind"] == "distilled n-gram" and card["target"]["sha256"] == facts["sha256"]["model.safetensors"]
    assert not (tmp_path / "model-ngram.unfinished").exists()
    table = shipped.load(tmp_path / "model-ngram")
    assert len(table) == card["rows"] == sum(card["rows_by_context_length"]) > 10
    assert card["rows_by_context_length"][0] == 1
    with np.load(tmp_path / "model-ngram" / "table.npz") as arrays:
        assert arrays["roots"].min() >= distil.SMALLEST_ROOT  # smaller entries are left to the floor
    # The last token tells much of a tiny random network's next law: far better than the mean law alone.
    assert 0.3 < card["alpha"]["held_out"] <= 1 and 0.3 < card["alpha"]["own_text"] <= 1


@dataclass(frozen=True)
class Abstains:
    """Takes every token away from rows that favour token 1."""

    prefix_free = True

    def __call__(self, scores, prefix):
        return np.where((scores.argmax(axis=-1) == 1)[..., None], -np.inf, scores)


def test_a_transform_that_leaves_some_rows_without_a_token_makes_them_propose_nothing(table):
    known = table.prepared(Transforms((Abstains(),)))
    for number in range(len(table)):
        favours = int(table.row(number).argmax())
        assert (known[number] is None) == (favours == 1)
    assert any(law is None for law in known.values()) and any(law is not None for law in known.values())


def test_a_step_that_cannot_be_a_key_is_used_all_the_same(table):
    step = Abstains()
    unhashable = type("Unhashable", (), {"prefix_free": True, "__call__": lambda _, *a: step(*a), "__hash__": None})()
    decoder = Speculative(table, table, 2, Transforms((unhashable,)), Stop(length=4))
    assert not decoder._known
