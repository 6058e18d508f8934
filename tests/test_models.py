"""What every LanguageModel must keep: Table, Automaton, NGram and PromptLookup, as floats and Fractions."""

import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  loads the profile of the whole suite
from specdec.law import exact
from specdec.models.abc_machine import P, remembering
from specdec.models.automaton import Automaton
from specdec.models.ngram import NGram
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table
from specdec.models.text import Vocabulary

REACH = 4
TRANSITIONS = np.array([[1, 2, 0, 0], [2, 3, 1, 0], [3, 0, 2, 0], [0, 1, 3, 0]])  # adds 1, 2 or 0 modulo 4
LAWS = exact([[6, 3, 1], [1, 6, 3], [7, 1, 2], [2, 2, 6]], 10)
TEXT = "ABCABACBBCAABCCAB"

MODELS = {
    "forgetful table": Table(P),
    "table": remembering()[0],
    "float table": Table(remembering()[0].rows.astype(float)),
    "automaton": Automaton(TRANSITIONS, LAWS, REACH),
    "float automaton": Automaton(TRANSITIONS, LAWS.astype(float), REACH),
    "n-gram": NGram(TEXT, Vocabulary("ABC"), 4),
    "exact n-gram": NGram(TEXT, Vocabulary("ABC"), 3, exact=True),
    "prompt lookup": PromptLookup(3, longest=3),
    "exact prompt lookup": PromptLookup(3, longest=2, exact=True),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
continuations = st.lists(st.integers(0, 2), max_size=12)


def fed(model, tokens):
    """A fresh state that was fed ``tokens``, and the rows."""
    state = model.start()
    return state, model.append(state, tokens)


def assert_same(rows, expected):
    assert rows.dtype == expected.dtype and rows.shape == expected.shape
    assert (rows == expected).all()


@each_model
@given(st.lists(continuations, max_size=5))
def test_any_split_of_the_tokens_gives_the_same_rows_and_state(model, pieces):
    pieces = [[model.start_token], *pieces]
    state = model.start()
    rows = np.concatenate([model.append(state, piece) for piece in pieces])
    whole, expected = fed(model, [token for piece in pieces for token in piece])
    assert_same(rows, expected)
    assert model.key(state) == model.key(whole)
    assert len(state) == len(whole) == len(expected)


@each_model
def test_rows_have_the_promised_shape_and_kind(model):
    state, rows = fed(model, [3, 0, 1])
    assert rows.shape == (3, model.vocab_size) and model.start_token == 3
    assert rows.dtype == (object if model.exact else np.float64)
    assert model.append(state, []).shape == (0, model.vocab_size) and len(state) == 3
    assert len(model.start()) == 0


@pytest.mark.parametrize(
    ("name", "expected"),  # after the start token, A, B and B again
    [
        ("forgetful table", [[6, 3, 1]] * 4),
        ("table", [[6, 3, 1], [1, 6, 3], [7, 1, 2], [7, 1, 2]]),
        ("float table", [[6, 3, 1], [1, 6, 3], [7, 1, 2], [7, 1, 2]]),
        ("automaton", LAWS[[0, 1, 3, 1]] * 10),
        ("float automaton", LAWS[[0, 1, 3, 1]] * 10),
    ],
)
def test_row_i_is_the_law_after_token_i(name, expected):
    _, rows = fed(MODELS[name], [3, 0, 1, 1])
    if rows.dtype == object:
        assert (rows == exact(expected, 10)).all()
    else:
        np.testing.assert_allclose(np.exp(rows), np.array(expected, dtype=float) / 10, rtol=1e-15)


@each_model
@given(continuations, continuations, st.data())
def test_a_rewound_state_goes_on_like_a_fresh_one(model, text, other, data):
    text = [model.start_token, *text]
    state, _ = fed(model, text)
    length = data.draw(st.integers(max(0, len(text) - int(min(model.reach, len(text)))), len(text)), "length")
    model.rewind(state, length)
    assert len(state) == length
    continuation = (
        text[length:] + other
    )  # the same tokens again, or others: both must forget what was taken back
    for tokens in (continuation, other):
        again = model.copy(state)
        fresh, expected = fed(model, text[:length] + tokens)
        assert_same(model.append(again, tokens), expected[length:])
        if model.reach == math.inf or len(tokens) >= model.reach:
            assert model.key(again) == model.key(fresh)


@each_model
def test_rewinds_to_first_middle_last_and_nothing(model):
    text = [3, 0, 1, 2, 0, 1, 1, 2]
    for length in (0, 1, len(text) // 2, len(text) - 1, len(text)):
        if len(text) - length <= model.reach:
            state, rows = fed(model, text)
            model.rewind(state, length)
            assert_same(model.append(state, text[length:]), rows[length:])


@each_model
def test_rewinds_add_up(model):
    state, rows = fed(model, [3, 0, 1, 2, 0, 1])
    model.rewind(state, 4)
    model.rewind(state, 3)
    assert_same(model.append(state, [2, 0, 1]), rows[3:])


@each_model
@given(continuations, continuations)
def test_a_copy_is_independent(model, text, other):
    state, _ = fed(model, [3, *text])
    key = model.key(state)
    twin = model.copy(state)
    assert model.key(twin) == key
    model.append(twin, [*other, 1, 1])
    assert model.key(state) == key and len(state) == len(text) + 1
    model.rewind(twin, len(twin) - 1)
    _, expected = fed(model, [3, *text, 2])
    assert_same(model.append(state, [2]), expected[-1:])
    later, _ = fed(model, [3, *text, *other, 1])
    assert_same(model.append(twin, [0]), model.append(later, [0]))  # the copy was not touched by its original


@each_model
def test_keys_are_hashable_and_do_not_follow_the_state(model):
    state, _ = fed(model, [3, 0, 1])
    before = model.key(state)
    copied = {before: "seen"}
    model.append(state, [1])
    assert model.key(state) != before and copied[before] == "seen"
    model.rewind(state, 3)
    assert model.key(state) == before or model.reach < math.inf


@each_model
@given(continuations, continuations, continuations)
def test_states_of_equal_key_behave_alike(model, one, other, future):
    (a, _), (b, _) = fed(model, [3, *one]), fed(model, [3, *other])
    if one != other and model.reach == math.inf:
        assert model.key(a) != model.key(b)
    if model.key(a) == model.key(b):
        assert len(a) == len(b)
        assert_same(model.append(a, future), model.append(b, future))


def test_an_automatons_key_tells_lengths_and_checkpoints_apart():
    model = MODELS["automaton"]
    assert model.key(fed(model, [3, 0, 1])[0]) == model.key(fed(model, [3, 0, 1])[0])
    assert model.key(fed(model, [3, 1, 1])[0]) != model.key(fed(model, [3, 2, 2])[0])  # both end in state 0
    assert model.key(fed(model, [3] + [2] * 8)[0]) != model.key(
        fed(model, [3] + [2] * 9)[0]
    )  # 2 changes no state
    rewound, _ = fed(model, [3, 2, 2, 2, 2, 2, 2])
    model.rewind(rewound, 5)
    assert model.key(rewound) != model.key(fed(model, [3, 2, 2, 2, 2])[0])  # it can go back less far


@each_model
@pytest.mark.parametrize("token", [-1, 4, 0.0, "A", None])
def test_a_token_out_of_range_is_refused_and_changes_nothing(model, token):
    state, _ = fed(model, [3, 0])
    before = model.key(state)
    with pytest.raises(ValueError, match=r"token 1 is .*from 0 to 2"):
        model.append(state, [1, token])
    assert model.key(state) == before and len(state) == 2


@each_model
def test_numpy_integers_are_tokens(model):
    _, expected = fed(model, [3, 0, 1])
    assert_same(fed(model, np.array([3, 0, 1]))[1], expected)


@each_model
@pytest.mark.parametrize("length", [-1, 4, 100])
def test_rewinding_beyond_what_is_held_is_refused(model, length):
    state, _ = fed(model, [3, 0, 1])
    before = model.key(state)
    with pytest.raises(ValueError, match=f"cannot rewind a state of 3 tokens to {length}"):
        model.rewind(state, length)
    assert model.key(state) == before


@pytest.mark.parametrize("name", ["automaton", "float automaton"])
def test_rewinding_further_than_promised_is_refused(name):
    model = MODELS[name]
    state, _ = fed(model, [3, 0, 1, 2, 0, 1, 1, 2])
    with pytest.raises(ValueError, match=r"cannot rewind by 5 tokens.*larger reach"):
        model.rewind(state, 3)
    assert len(state) == 8
    model.rewind(state, 4)  # the promise itself is kept,
    with pytest.raises(ValueError, match="cannot rewind by 1 tokens"):
        model.rewind(state, 3)  # and two rewinds don't add up to more


# ---- bad constructions --------------------------------------------------------------------------------------------------

MOVES = np.array([[0, 1, 0, 0], [1, 1, 1, 1]])
LAWS = exact([[6, 3, 1], [2, 3, 5]], 10)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Table([[0.5, 0.5]]), "rows must be a numpy array"),
        (lambda: Table(np.array(0.5)), "rows must be a numpy array"),
        (lambda: Table(exact([6, 3, 2], 10)), "not a law"),
        (lambda: Table(np.tile(P, (3, 1))), "every context axis needs"),
        (lambda: Automaton(MOVES, exact([[6, 3, 1], [2, 3, 4]], 10), 2), "not a law"),
        (lambda: Automaton(MOVES, P, 2), "one row a state"),
        (lambda: Automaton(MOVES[:, :3], LAWS, 2), "transitions must have shape"),
        (lambda: Automaton(MOVES + 1, LAWS, 2), "transitions must have shape"),
        (lambda: Automaton(MOVES - 1, LAWS, 2), "transitions must have shape"),
        (lambda: Automaton(MOVES + 0.5, LAWS, 2), "transitions must have shape"),
        (lambda: Automaton(MOVES, LAWS, 0), "reach is 0"),
        (lambda: Automaton(MOVES, LAWS, 2.5), "reach is 2.5"),
        (lambda: Automaton(MOVES, LAWS, math.inf), "reach is inf"),
        (lambda: NGram("ABC" * 9, Vocabulary("ABC"), 0), "order is 0"),
        (lambda: NGram("ABC" * 9, Vocabulary("ABC"), 2.5), "order is 2.5"),
        (lambda: NGram("ABC" * 9, Vocabulary("ABC"), np.int64(40)), "below 2\\^63"),
        (lambda: PromptLookup(0), "vocab_size 0"),
        (lambda: PromptLookup(-2), "vocab_size -2"),
        (lambda: PromptLookup(3, longest=2.5), "longest 2.5"),
        (lambda: PromptLookup(3, longest=1, shortest=2), "shortest <= longest"),
    ],
)
def test_a_model_that_cannot_be_says_why(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_transition_table_may_be_a_list():
    assert Automaton(MOVES.tolist(), LAWS, 2).append(Automaton(MOVES, LAWS, 2).start(), [3]).shape == (1, 3)


@pytest.mark.parametrize("model", [remembering()[0], NGram("ABCABBC", Vocabulary("ABC"), 2)])
def test_law_after_takes_token_ids_only_and_gives_nothing_away(model):
    for wrong in ([-1], [4], [0, 7], ["A"]):
        with pytest.raises(ValueError, match="expected an id"):
            model.law_after(wrong)
    before = model.law_after([0]).tolist()
    with suppress(ValueError):  # a read-only view
        model.law_after([0])[:] = 0
    assert model.law_after([0]).tolist() == before


def test_small_integer_tokens_train_the_same_model():
    tokens = [0, 1, 2, 0, 1, 1, 2]
    one, other = (NGram(np.array(tokens, kind), Vocabulary("ABC"), 3) for kind in (np.uint8, np.int64))
    assert one.law_after([0, 1]).tolist() == other.law_after([0, 1]).tolist()
