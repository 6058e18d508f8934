"""Prompt lookup against a backwards scan, by hand, and through its own proposals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies  # noqa: F401  loads the profile of the whole suite
from specdec.law import has_weight, to_law
from specdec.models.prompt_lookup import PromptLookup

tokens_and_starts = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=25)  # 3 is the start token


def scanned(tokens, start_token, longest, shortest):
    """The proposal by definition: for each length, scan back for an earlier occurrence, take its follower."""
    for length in range(min(longest, len(tokens)), shortest - 1, -1):
        suffix = tokens[len(tokens) - length :]
        for begin in range(len(tokens) - length - 1, -1, -1):
            follower = tokens[begin + length]
            if tokens[begin : begin + length] == suffix and start_token not in [*suffix, follower]:
                return follower
    return None


def proposals(model, tokens):
    """What the rows propose after each token; None for a row without weight."""
    rows = model.append(model.start(), tokens)
    assert rows.shape == (len(tokens), model.vocab_size)
    none, one = (0, 1) if model.exact else (-np.inf, 0.0)
    assert all((row == none).sum() >= model.vocab_size - 1 and set(row) <= {none, one} for row in rows)
    return [int(np.argmax(row)) if has_weight(row) else None for row in rows]


@given(tokens_and_starts, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_proposals_are_those_of_a_backwards_scan(tokens, one, other, exact):
    shortest, longest = sorted((one, other))
    model = PromptLookup(3, longest=longest, shortest=shortest, exact=exact)
    expected = [scanned(tokens[: i + 1], 3, longest, shortest) for i in range(len(tokens))]
    assert proposals(model, tokens) == expected


@pytest.mark.parametrize(
    ("tokens", "longest", "shortest", "proposal"),
    [
        ([9, 0, 1, 2, 0, 1], 3, 1, 2),  # 0 1 was followed by 2
        ([9, 0, 1, 2, 4, 1, 3, 0, 1], 3, 1, 2),  # the longer match wins over the more recent one
        ([9, 0, 1, 2, 4, 1, 3, 0, 1], 1, 1, 3),  # where only one token counts, the more recent one
        ([9, 0, 1, 2, 0, 1, 3, 0, 1], 2, 1, 3),  # of equal lengths, the more recent one
        ([9, 5, 5], 3, 1, 5),  # an occurrence may overlap the suffix
        ([9, 0, 1, 2, 1], 2, 2, None),  # too short a match
        ([9, 0, 1, 2], 3, 1, None),  # nothing repeats
        ([9, 9], 3, 1, None),  # the start token is not matched
        ([9, 1, 9, 1], 3, 1, None),  # nor proposed
        ([9], 3, 1, None),
    ],
)
def test_worked_by_hand(tokens, longest, shortest, proposal):
    assert proposals(PromptLookup(9, longest=longest, shortest=shortest), tokens)[-1] == proposal


def test_its_own_proposals_continue_the_copy():
    model = PromptLookup(10, longest=3)
    state = model.start()
    row = model.append(state, [10, 1, 2, 3, 4, 5, 1, 2])[-1]
    copied = []
    for _ in range(7):
        copied.append(int(np.argmax(row)))
        row = model.append(state, copied[-1:])[-1]
    assert copied == [3, 4, 5, 1, 2, 3, 4]


def test_exact_rows_are_laws_once_they_have_weight():
    model = PromptLookup(3, exact=True)
    rows = model.append(model.start(), [3, 0, 0])
    assert rows.dtype == object and not has_weight(rows[1])
    assert to_law(rows[2]).tolist() == [1, 0, 0]


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(-6, -1)), max_size=40))
def test_any_mixture_of_appends_and_rewinds_equals_a_fresh_run(operations):
    model, history = PromptLookup(3, longest=3), []
    state = model.start()
    for operation in operations:  # 0 to 3 appends a token, -n takes n back
        if operation >= 0:
            history.append(operation)
            row = model.append(state, [operation])
            assert row.tolist() == model.append(model.start(), history)[-1:].tolist()
        else:
            del history[max(0, len(history) + operation) :]
            model.rewind(state, len(history))
        fresh = model.start()
        model.append(fresh, history)
        assert model.key(state) == model.key(fresh) and len(state) == len(history)


@pytest.mark.parametrize(("longest", "shortest"), [(0, 0), (2, 3), (3, 0)])
def test_impossible_lengths_are_refused(longest, shortest):
    with pytest.raises(ValueError, match="1 <= shortest <= longest"):
        PromptLookup(3, longest=longest, shortest=shortest)
