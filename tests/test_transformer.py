"""The numpy transformer against torch's stored logits, and against GPT-2 written down plainly, on every way to feed it."""

import math

import numpy as np
import pytest

import tiny
from specdec.models.text import Vocabulary
from specdec.models.transformer import Transformer, behind_norm, centred

START = 10
WEIGHTS, TOKENS, LOGITS = tiny.stored()
TEXT = [START, *np.random.default_rng(1).integers(0, 10, 90).tolist()]
CLOSE = {"rtol": 0, "atol": 1e-4}  # float32 through two layers, logits of size up to ten


@pytest.fixture(scope="module")
def model():
    return Transformer(WEIGHTS, tiny.HEADS, tiny.VOCABULARY)


@pytest.fixture(scope="module")
def sliding():
    return Transformer(WEIGHTS, tiny.HEADS, tiny.VOCABULARY, slides=True)


@pytest.fixture(scope="module")
def sliding_rows():
    """The row after each length of TEXT, every one from its own pass over its window."""
    rows = {}
    for length in range(1, len(TEXT) + 1):
        first = 12 * max(0, math.ceil((length - 24) / 12))
        rows[length] = tiny.textbook(WEIGHTS, tiny.HEADS, [START, *TEXT[first + 1 : length]])[-1, :START]
    return rows


def fed(model, tokens, parts):
    """The rows after ``tokens``, fed in parts of the given lengths."""
    state, rows, done = model.start(), [], 0
    for part in parts:
        rows.append(model.append(state, tokens[done : done + part]))
        done += part
    assert done == len(tokens) == len(state)
    return np.concatenate(rows)


# ---- the function --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts", [[24], [1] * 24, [23, 1], [1, 23], [5, 1, 1, 8, 9], [2] * 12], ids=["24", "1", "23+1", "1+23", "mixed", "2"]
)
def test_logits_are_torchs(model, parts):
    rows = fed(model, TOKENS, parts)
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows, LOGITS[:, :START], **CLOSE)


def test_the_plain_form_is_torchs_too():
    np.testing.assert_allclose(tiny.textbook(WEIGHTS, tiny.HEADS, TOKENS), LOGITS, rtol=0, atol=1e-5)


def test_the_stored_logits_are_what_torch_computes(request):
    """With ``--update-references`` the file is written anew."""
    torch = pytest.importorskip("torch", reason="torch is only in the extra `training`")
    transformers = pytest.importorskip("transformers", reason="transformers is only in the extra `training`")
    renew = request.config.option.update_references
    weights, tokens = (tiny.random_weights(), [START, *TEXT[40:63]]) if renew else (WEIGHTS, TOKENS)
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config(**tiny.CONFIG)).eval()
    tensors = {f"transformer.{name}": torch.from_numpy(values) for name, values in weights.items()}
    network.load_state_dict({**tensors, "lm_head.weight": tensors["transformer.wte.weight"]})
    with torch.no_grad():
        logits = network(torch.tensor([tokens])).logits[0].numpy()
    if renew:
        np.savez_compressed(tiny.REFERENCE, tokens=tokens, logits=logits, **weights)
    else:
        np.testing.assert_allclose(logits, LOGITS, rtol=0, atol=1e-5)


def test_folding_a_norm_into_the_matrix_behind_changes_nothing():
    draw = np.random.default_rng(2).normal
    gain, shift, matrix, x = draw(1, 1, 8), draw(0, 1, 8), draw(0, 1, (9, 5)), draw(0, 2, (6, 8))
    x -= x.mean(-1, keepdims=True)
    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gain + shift
    folded = behind_norm({"n.weight": gain, "n.bias": shift}, "n", matrix)
    divided = x / np.sqrt((x**2).sum(-1, keepdims=True) + 8 * 1e-5)
    np.testing.assert_allclose(divided @ folded[:-1] + folded[-1], normed @ matrix[:-1] + matrix[-1], rtol=0, atol=1e-12)


def test_a_common_shift_of_what_is_added_to_the_stream_changes_nothing():
    shifted = dict(WEIGHTS)
    for name in ("wpe.weight", "h.0.attn.c_proj.bias", "h.1.mlp.c_proj.bias"):
        shifted[name] = WEIGHTS[name] + np.float32(3)  # a norm follows that takes it away
    rows = Transformer(shifted, tiny.HEADS, tiny.VOCABULARY)
    np.testing.assert_allclose(rows.append(rows.start(), TOKENS), LOGITS[:, :START], **CLOSE)
    assert abs(centred(WEIGHTS["wte.weight"]).mean(-1)).max() < 1e-7


def test_weights_are_not_changed_and_float16_ones_count_as_their_values():
    before = {name: values.copy() for name, values in WEIGHTS.items()}
    halves = {name: values.astype(np.float16) for name, values in WEIGHTS.items()}
    widened = {name: values.astype(np.float32) for name, values in halves.items()}
    one, other = (Transformer(weights, tiny.HEADS, tiny.VOCABULARY) for weights in (halves, widened))
    assert (one.append(one.start(), TOKENS) == other.append(other.start(), TOKENS)).all()
    Transformer(WEIGHTS, tiny.HEADS, tiny.VOCABULARY)
    assert all((WEIGHTS[name] == values).all() for name, values in before.items())


# ---- the protocol --------------------------------------------------------------------------------------------------


def test_cached_rows_are_recomputed_rows_at_every_length(model):
    state = model.start()
    for length in range(1, 25):
        row = model.append(state, TEXT[length - 1 : length])
        whole = model.append(model.start(), TEXT[:length])
        assert len(state) == length and row.shape == (1, 10) and whole.shape == (length, 10)
        np.testing.assert_allclose(row[0], whole[-1], **CLOSE)
        np.testing.assert_allclose(row[0], tiny.textbook(WEIGHTS, 2, TEXT[:length])[-1, :START], **CLOSE)


@pytest.mark.parametrize("length", [0, 1, 5, 11])
def test_after_a_rewind_other_tokens_follow_as_if_the_first_had_never_been(model, length):
    state = model.start()
    model.append(state, TEXT[:12])
    model.rewind(state, length)
    assert len(state) == length
    other = [START] * (length == 0) + TEXT[50:60]
    expected = tiny.textbook(WEIGHTS, 2, TEXT[:length] + other)[length:, :START]
    np.testing.assert_allclose(model.append(state, other), expected, **CLOSE)


def test_a_copy_and_its_original_go_different_ways(model):
    state = model.start()
    model.append(state, TEXT[:6])
    copy = model.copy(state)
    assert model.key(copy) == model.key(state)
    model.append(copy, TEXT[40:44])
    rows = model.append(state, TEXT[6:9])
    np.testing.assert_allclose(rows, tiny.textbook(WEIGHTS, 2, TEXT[:9])[6:, :START], **CLOSE)
    assert (len(copy), len(state)) == (10, 9)


def test_the_key_tells_what_a_state_holds(model):
    state = model.start()
    model.append(state, TEXT[:6])
    key = model.key(state)
    model.append(state, TEXT[6:8])
    longer = model.key(state)
    model.rewind(state, 6)
    assert len({key, longer}) == 2
    assert model.key(state) == key  # what lies beyond the rewind is forgotten
    stale = model.copy(state)
    stale.keys[1, 0, 3, 5] += 1  # same tokens, another number in the cache
    assert model.key(stale) != key


def test_what_a_caller_does_to_rows_changes_nothing(model):
    state = model.start()
    for part in (TEXT[:1], TEXT[1:2], TEXT[2:6]):
        rows = model.append(state, part)
        rows *= 0
    np.testing.assert_allclose(model.append(state, TEXT[6:7])[0], tiny.textbook(WEIGHTS, 2, TEXT[:7])[-1, :START], **CLOSE)


def test_the_end_of_the_context_is_an_error_with_a_remedy(model):
    state = model.start()
    model.append(state, TEXT[:23])
    key = model.key(state)
    with pytest.raises(ValueError, match=r"23 tokens and 2 more do not fit into the context of 24: .*slides=True"):
        model.append(state, TEXT[23:25])
    assert model.key(state) == key
    model.append(state, TEXT[23:24])
    with pytest.raises(ValueError, match="24 tokens and 1 more do not fit"):
        model.append(state, [0])


@pytest.mark.parametrize("token", [-1, 11, 2.0])
def test_a_token_outside_the_vocabulary_is_refused_and_nothing_is_held(model, token):
    state = model.start()
    with pytest.raises(ValueError, match=r"token 1 is .*expected an id from 0 to 9"):
        model.append(state, [START, token])
    assert len(state) == 0


@pytest.mark.parametrize("length", [-1, 5])
def test_a_rewind_to_where_the_state_never_was_is_refused(model, length):
    state = model.start()
    model.append(state, TEXT[:4])
    with pytest.raises(ValueError, match=f"cannot rewind a state of 4 tokens to {length}"):
        model.rewind(state, length)


@pytest.mark.parametrize(
    ("symbols", "heads", "need"), [("abcdefghi", 2, "9 char"), ("abcdefghijk", 2, "11 char"), ("abcdefghij", 3, ".* 3 heads")]
)
def test_another_vocabulary_or_number_of_heads_is_refused(symbols, heads, need):
    with pytest.raises(ValueError, match=f"embedding has 11 rows of width 16: {need}"):
        Transformer(WEIGHTS, heads, Vocabulary(symbols))


# ---- sliding windows -----------------------------------------------------------------------------------------------


def test_windows_begin_at_multiples_of_half_a_context(sliding):
    lengths = [1, 24, 25, 36, 37, 48, 49, 60]
    assert [sliding.window_start(length) for length in lengths] == [0, 0, 12, 12, 24, 24, 36, 36]
    for length in range(1, 200):
        first = sliding.window_start(length)
        assert first % 12 == 0 and (12 < length - first <= 24 or first == 0)


@pytest.mark.parametrize("part", [1, 2, 7, 12, 24, 91])
def test_rows_of_sliding_windows_depend_on_the_text_before_and_on_nothing_else(sliding, sliding_rows, part):
    parts = [part] * (len(TEXT) // part) + [len(TEXT) % part] * (len(TEXT) % part > 0)
    rows = fed(sliding, TEXT, parts)
    for length, row in sliding_rows.items():
        np.testing.assert_allclose(row, rows[length - 1], **CLOSE, err_msg=f"after {length} tokens")


@pytest.mark.parametrize("seed", range(8))
def test_random_steps_and_rewinds_across_windows_give_the_same_rows(sliding, sliding_rows, seed):
    generator = np.random.default_rng(seed)
    state = sliding.start()
    for _ in range(60):
        begin = len(state)
        number = min(int(generator.choice([1, 1, 2, 5, 13, 30])), len(TEXT) - begin)
        if number:
            rows = sliding.append(state, TEXT[begin : begin + number])
            for i, row in enumerate(rows):
                np.testing.assert_allclose(row, sliding_rows[begin + i + 1], **CLOSE, err_msg=f"{begin} + {i + 1}")
        back = int(generator.choice([0, 1, 3, 9, 26])) if len(state) < len(TEXT) else 60
        sliding.rewind(state, max(0, len(state) - back))
        state = sliding.copy(state)


def test_other_tokens_after_a_rewind_into_an_earlier_window(sliding):
    state = sliding.start()
    sliding.append(state, TEXT[:30])
    sliding.rewind(state, 20)
    other = TEXT[:20] + TEXT[60:75]
    rows = sliding.append(state, other[20:])
    np.testing.assert_allclose(rows[3], tiny.textbook(WEIGHTS, 2, other[:24])[-1, :START], **CLOSE)
    np.testing.assert_allclose(rows[-1], tiny.textbook(WEIGHTS, 2, [START, *other[13:]])[-1, :START], **CLOSE)


# ---- batches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [(1, 1, 1), (3, 17, 9), (1, 20, 1)])
def test_a_batch_of_texts_of_different_lengths_gives_each_its_own_rows(model, held):
    texts = [[START, *TEXT[5 * i + 1 :]] for i in range(3)]
    parts = [4, 1, 2]
    states = [model.start() for _ in held]
    for state, text, length in zip(states, texts, held, strict=True):
        model.append(state, text[:length])
    ends = [length + part for length, part in zip(held, parts, strict=True)]
    together = model.append_batch(states, [text[n:m] for text, n, m in zip(texts, held, ends, strict=True)])
    for rows, state, text, begin, end in zip(together, states, texts, held, ends, strict=True):
        assert rows.shape == (end - begin, 10) and len(state) == end
        np.testing.assert_allclose(rows, tiny.textbook(WEIGHTS, 2, text[:end])[begin:, :START], **CLOSE)
    after = model.append_batch(states, [text[end : end + 1] for text, end in zip(texts, ends, strict=True)])
    for rows, text, end in zip(after, texts, ends, strict=True):
        np.testing.assert_allclose(rows[0], tiny.textbook(WEIGHTS, 2, text[: end + 1])[-1, :START], **CLOSE)


def test_a_batch_whose_texts_cross_windows_at_different_places(sliding, sliding_rows):
    states = [sliding.start() for _ in range(4)]
    for state, length in zip(states, (1, 20, 24, 35), strict=True):
        sliding.append(state, TEXT[:length])
    for number in (1, 1, 7, 3, 1):
        begins = [len(state) for state in states]
        together = sliding.append_batch(states, [TEXT[begin : begin + number] for begin in begins])
        for begin, rows in zip(begins, together, strict=True):
            for i, row in enumerate(rows):
                np.testing.assert_allclose(row, sliding_rows[begin + i + 1], **CLOSE)


def test_one_text_too_long_leaves_the_whole_batch_as_it_was(model):
    states = [model.start(), model.start()]
    model.append(states[1], TEXT[:24])
    keys = [model.key(state) for state in states]
    with pytest.raises(ValueError, match="24 tokens and 1 more"):
        model.append_batch(states, [TEXT[:3], [0]])
    assert [model.key(state) for state in states] == keys


@pytest.mark.parametrize("window", [1, 5])
def test_a_window_that_cannot_be_halved_does_not_slide(window):
    weights = dict(tiny.random_weights())
    weights["wpe.weight"] = weights["wpe.weight"][:window]

    Transformer(weights, tiny.HEADS, tiny.VOCABULARY)
    with pytest.raises(ValueError, match=f"a window of {window} tokens can't slide by half"):
        Transformer(weights, tiny.HEADS, tiny.VOCABULARY, slides=True)
