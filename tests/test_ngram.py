"""The n-gram against a textbook recursion over Counters, by hand, in the theorem, and on numpy's text."""

from collections import Counter
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  loads the profile of the whole suite
from specdec.chance import law_of
from specdec.law import exact, to_law
from specdec.models.abc_machine import remembering
from specdec.models.automaton import Automaton
from specdec.models.ngram import NGram, bits_per_character
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table, text_law
from specdec.models.text import PRINTABLE, Vocabulary, numpy_docstrings, split
from specdec.verification.strict import verify

ABC = Vocabulary("ABC")
VOCABULARY = Vocabulary(PRINTABLE)
texts = st.lists(st.integers(0, 2), min_size=4, max_size=30)
contexts = st.lists(st.integers(0, 3), max_size=8)
orders = st.integers(1, 4)


def textbook(tokens, size, order, context):
    """The law after ``context`` by Chen and Goodman's recursion, with a Counter of grams at each length."""
    padded = [size] * (order - 1) + list(tokens)
    law = [F(1, size)] * size
    for length in range(order):
        grams = [tuple(padded[i - length : i + 1]) for i in range(order - 1, len(padded))]
        count = Counter(gram for gram in grams if gram[:-1] == tuple(context[len(context) - length :]))
        total, distinct = sum(count.values()), len(count)
        if total:
            after = {gram[-1]: number for gram, number in count.items()}
            law = [(after.get(x, 0) + distinct * law[x]) / F(total + distinct) for x in range(size)]
    return law


@given(texts, orders, contexts)
def test_exact_rows_are_the_textbook_recursion_and_sum_to_exactly_one(text, order, context):
    row = NGram(text, ABC, order, exact=True).law_after(context)
    assert list(row) == textbook(text, 3, order, [3] * order + context)
    assert row.sum() == 1 and (row > 0).all()
    assert all(isinstance(value, F) and type(value.numerator) is int for value in row)


@given(texts, orders, contexts)
def test_floats_agree_with_fractions(text, order, context):
    as_floats, as_fractions = NGram(text, ABC, order), NGram(text, ABC, order, exact=True)
    fed = [3, *context]
    logits, weights = as_floats.append(as_floats.start(), fed), as_fractions.append(as_fractions.start(), fed)
    assert logits.dtype == np.float64 and weights.dtype == object
    np.testing.assert_allclose(np.exp(logits), weights.astype(float), rtol=1e-12)
    np.testing.assert_allclose(as_floats.law_after(context).sum(), 1, rtol=1e-14)


@given(texts, orders, contexts, st.permutations(range(3)))
def test_renaming_the_symbols_renames_the_rows(text, order, context, names):
    row = NGram(text, ABC, order, exact=True).law_after(context)
    names = [*names, 3]
    renamed = NGram([names[x] for x in text], ABC, order, exact=True).law_after([names[x] for x in context])
    assert [renamed[names[x]] for x in range(3)] == list(row)


def test_worked_by_hand():
    model = NGram("aab", Vocabulary("ab"), 2, exact=True)
    assert list(NGram("aab", Vocabulary("ab"), 1, exact=True).law_after([])) == [
        F(3, 5),
        F(2, 5),
    ]  # (2+2/2)/(3+2)
    assert list(model.law_after([])) == [F(4, 5), F(1, 5)]  # only a starts a text: (1+3/5)/(1+1)
    assert list(model.law_after([0])) == [F(11, 20), F(9, 20)]  # a once, b once: (1+2*3/5)/(2+2)
    assert list(model.law_after([1])) == [F(3, 5), F(2, 5)]  # nothing follows b: the unigram


def test_text_and_tokens_train_the_same_model():
    assert (
        NGram("ABCA", ABC, 2).law_after([0]) == NGram(np.array([0, 1, 2, 0]), ABC, 2).law_after([0])
    ).all()


def test_only_the_last_tokens_matter():
    model = NGram("ABCABACBBCA", ABC, 3, exact=True)
    assert (model.law_after([0, 1, 2, 0, 1]) == model.law_after([2, 2, 0, 1])).all()
    assert (model.law_after([0, 1]) != model.law_after([1])).any()


# ---- edges -------------------------------------------------------------------------------------------------


def test_largest_order_keeps_its_codes_apart():
    text = VOCABULARY.encode("~}~~}~~~}~~~~} ~~\n~")
    model = NGram(text, VOCABULARY, 9, exact=True)
    for end in range(1, len(text)):
        assert list(model.law_after(text[:end])) == textbook(text, 96, 9, [96] * 9 + text[:end])


@pytest.mark.parametrize(
    ("order", "fault"), [(0, "order is 0"), (-1, "order is -1"), (10, "97.order below 2.63")]
)
def test_impossible_orders_are_refused(order, fault):
    with pytest.raises(ValueError, match=fault):
        NGram("x" * 100, VOCABULARY, order)


def test_a_text_shorter_than_the_order_is_refused():
    NGram("ABC", ABC, 3)
    for text in ("AB", "", []):
        with pytest.raises(ValueError, match="order 3 needs at least 3"):
            NGram(text, ABC, 3)


@pytest.mark.parametrize("tokens", [[0, 3, 1], [0, -1, 1], [0.5, 1.0, 2.0]])
def test_training_tokens_must_be_ids(tokens):
    with pytest.raises(ValueError, match="integers from 0 to 2"):
        NGram(tokens, ABC, 2)


@pytest.mark.parametrize("is_exact", [False, True])
def test_what_a_caller_does_to_a_row_changes_nothing(is_exact):
    model = NGram("ABCABAC", ABC, 2, exact=is_exact)
    before = model.law_after([0])
    kept = before.copy()
    before *= 0
    scores = model.append(model.start(), [3, 0])
    scores *= 0
    assert (model.law_after([0]) == kept).all()


def test_forgetting_rows_changes_no_row():
    tokens = [3, 0, 1, 2, 0, 0, 1, 2, 2, 1, 0, 1]
    small, large = NGram("ABCABACBBCA", ABC, 4, remembered=1), NGram("ABCABACBBCA", ABC, 4)
    assert (small.append(small.start(), tokens) == large.append(large.start(), tokens)).all()


# ---- the theorem on an n-gram ------------------------------------------------------------------------------


def test_a_round_of_two_ngrams_emits_the_targets_law():
    target, draft = (NGram("ABCABACBBCAABC", ABC, order, exact=True) for order in (3, 1))

    def two_tokens(chance):
        proposals = []
        for _ in range(2):
            proposals.append(chance.draw(draft.law_after(proposals), "propose"))
        p = np.array([target.law_after(proposals[:i]) for i in range(3)])
        q = np.array([draft.law_after(proposals[:i]) for i in range(2)])
        text = list(verify(p, q, proposals, chance).tokens[:2])
        while len(text) < 2:
            text.append(chance.draw(target.law_after(text), "sample"))
        return tuple(text)

    assert law_of(two_tokens) == text_law(target, 2)


# ---- bits per character ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_bits_are_the_mean_of_minus_log2_whatever_the_chunk(chunk):
    assert bits_per_character(Table(exact([2, 1, 1], 4)), [0, 1, 2], chunk) == pytest.approx(5 / 3, abs=1e-15)
    target, _ = remembering()  # 6/10, then B after A 6/10, then A after B 7/10
    expected = -np.log2([0.6, 0.6, 0.7]).mean()
    assert bits_per_character(target, [0, 1, 0], chunk) == pytest.approx(expected, abs=1e-14)
    as_floats = Table(target.rows.astype(float))
    assert bits_per_character(as_floats, [0, 1, 0], chunk) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_bits_of_a_model_with_running_state(chunk):
    stay_or_go = Automaton(np.array([[0, 1, 0], [1, 0, 1]]), np.array([[0.5, 0.5], [0.25, 0.75]]), reach=1)
    assert bits_per_character(stay_or_go, [1, 1, 0], chunk) == pytest.approx(
        -np.log2([0.5, 0.75, 0.5]).mean()
    )


def test_bits_are_infinite_where_a_token_is_excluded():
    assert bits_per_character(Table(np.array([1.0, 0.0])), [0, 1]) == np.inf


@pytest.mark.parametrize("tokens", [[], [0, 3], [0, -1]])
def test_bits_refuse_an_empty_text_and_the_start_token(tokens):
    with pytest.raises(ValueError, match=r"needs tokens, all from 0 to 2"):
        bits_per_character(Table(exact([2, 1, 1], 4)), tokens)


def test_bits_refuse_a_model_without_a_law():
    with pytest.raises(ValueError, match="no token possible"):
        bits_per_character(PromptLookup(3), [0, 1])


@pytest.fixture(scope="module")
def numpy_text():
    """Training and held-out tokens."""
    return [VOCABULARY.encode(text) for text in split(numpy_docstrings())]


def test_on_numpy_text_longer_contexts_help_until_they_are_too_rare(numpy_text):
    train, held_out = numpy_text
    tokens = held_out[60_000:70_000]
    bits = [bits_per_character(NGram(train, VOCABULARY, order), tokens) for order in (1, 3, 5, 6, 8)]
    unigram, three, five, six, eight = bits
    assert five < six < three < unigram < np.log2(96)
    assert five < six < eight  # Witten-Bell trusts rare contexts too much: more order is not always better
    assert six > 1.5  # far below would mean that the held-out text leaked into the training text


def test_rows_of_the_numpy_text_are_laws(numpy_text):
    train, held_out = numpy_text
    model = NGram(train, VOCABULARY, 6)
    laws = to_law(model.append(model.start(), [96, *held_out[:2000]]))
    np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-12)
    assert (laws > 0).all()
