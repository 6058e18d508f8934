"""Unmodified code of Hugging Face transformers: its exact law by interception, its samples, and its edges.

These tests say what the installed version does. One that fails after an upgrade is news about transformers, not about this kit.
"""

from fractions import Fraction as F
from functools import partial

import numpy as np
import pytest

from specdec.chance import Scripted, law_of
from specdec.conformance import blackbox, peers
from specdec.conformance.exact import distance
from specdec.conformance.verdicts import Verdict
from specdec.decoding import Speculative, law_of_text
from specdec.law import RepetitionPenalty, Temperature, TopK, TopP, Transforms, exact
from specdec.models import abc_machine
from specdec.models.table import text_law
from specdec.verification import ended

torch = pytest.importorskip("torch", reason='torch belongs to an extra: pip install -e ".[peers]"')
pytest.importorskip("transformers", reason='transformers belongs to an extra: pip install -e ".[peers]"')

ROUNDING = 1e-6  # transformers verifies in float32


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Many threads on so small matrices cost more than they bring."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model():
    return peers.tiny_model(0, vocab_size=2)


@pytest.fixture(scope="module")
def assistant():
    return peers.tiny_model(4, vocab_size=2)


def first_token(p, q, rule=peers.huggingface_rule):
    def program(chance):
        proposal = chance.draw(q, "propose")
        return rule(np.array([p, p]), np.array([q]), [proposal], chance)[0]

    return law_of(program)


# ---- the function -----------------------------------------------------------------------------------------------------------

PAIRS = {
    "F1": ([5, 3, 2], [2, 2, 6]),
    "the same": ([5, 3, 2], [5, 3, 2]),
    "the same one-hot": ([10, 0, 0], [10, 0, 0]),
    "zeros in either": ([5, 5, 0], [0, 5, 5]),
    "disjoint": ([10, 0, 0], [0, 5, 5]),
    "a one-hot draft": ([5, 3, 2], [0, 10, 0]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_function_of_transformers_has_the_targets_law(name):
    p, q = (exact(row, 10) for row in PAIRS[name])
    law = first_token(p, q)
    assert sum(law.values()) == 1
    assert distance(law, {token: weight for token, weight in enumerate(p) if weight}) < 1e-15


def test_it_has_the_joint_law_of_three_tokens():
    def verify(target, draft, proposals, chance):
        tokens = peers.huggingface_rule(target, draft, proposals, chance)
        return ended(proposals, len(tokens) - 1, tokens[-1], "correction" if len(tokens) <= len(proposals) else "bonus")

    target, draft = abc_machine.remembering()
    law = law_of_text(Speculative(target, draft, 2, verify=verify), length=3)
    assert distance(law, text_law(target, 3)) < 1e-14


def test_a_wrong_twin_of_it_is_caught(monkeypatch):
    """The same file with its residual taken from p alone: on F1 at a distance of 1/10."""
    from transformers.generation import utils

    clamp = torch.clamp
    monkeypatch.setattr(torch, "clamp", lambda residual, min: clamp(residual + torch.tensor([0.2, 0.2, 0.6]), min=min))
    p, q = exact([5, 3, 2], 10), exact([2, 2, 6], 10)
    assert utils.torch.clamp is not clamp
    assert distance(first_token(p, q), dict(enumerate(p))) == pytest.approx(0.1)


def test_a_uniform_of_zero_accepts_an_impossible_token():
    """Its comparison is inclusive. torch's float32 uniform is 0 once in 2**24 calls; law_of gives a single point no weight."""
    p, q = exact([5, 5, 0], 10), exact([2, 2, 6], 10)
    assert peers.huggingface_rule(np.array([p, p]), np.array([q]), [2], Scripted([0, F(3, 10)])) == (2, 0)
    assert peers.huggingface_rule(np.array([p, p]), np.array([q]), [2], Scripted([2.0**-24, F(3, 10)])) == (0,)


def test_rows_that_differ_by_rounding_can_be_rejected_and_leave_no_residual():
    """With probability about 1e-16 here, and 1e-7 in float32, it divides 0 by 0 and raises."""
    p = np.array([0.5861531463527142, 0.2895312338214595, 0.12431561982582631])
    q = np.array([0.5861531463527142, 0.28953123382145957, 0.12431561982582628])
    with pytest.raises(RuntimeError, match="probability tensor contains"):
        first_token(exact([F(x) for x in p]), exact([F(x) for x in q]))


def test_without_proposals_it_draws_from_the_target():
    law = law_of(lambda chance: peers.huggingface_rule(exact([[5, 3, 2]], 10), np.empty((0, 3), dtype=object), [], chance))
    assert distance(law, {(0,): F(1, 2), (1,): F(3, 10), (2,): F(1, 5)}) < 1e-15


# ---- generate ---------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "plain": ({}, ()),
    "temperature": ({"temperature": 0.5}, (Temperature(0.5),)),
    "top-p": ({"top_p": 0.75}, (TopP(0.75),)),
    "repetition penalty": ({"repetition_penalty": 1.5}, (RepetitionPenalty(1.5),)),
}


def law_of_generate(model, length=2, **options):
    law = law_of(peers.huggingface_program(model, [0], length, **options))
    assert sum(law.values()) == 1
    return law


@pytest.mark.parametrize("name", OPTIONS)
def test_generate_with_an_assistant_has_the_targets_law(name, model, assistant):
    options, steps = OPTIONS[name]
    law = law_of_generate(model, assistant_model=assistant, **options)
    assert distance(law, peers.target_law(model, [0], 2, Transforms(steps))) < ROUNDING


def test_top_k_cuts_draft_and_target_alike():
    """transformers/issues/47932 was a draw from the draft's top-k with the raw q returned: not in the installed version."""
    model, assistant = peers.tiny_model(0), peers.tiny_model(1)
    law = law_of_generate(model, assistant_model=assistant, top_k=2)
    assert distance(law, peers.target_law(model, [0], 2, Transforms((TopK(2),)))) < ROUNDING


@pytest.mark.parametrize("how", ["assistant", "lookup"])
def test_generate_ends_behind_a_stop_token_inside_a_block(how, model, assistant):
    """transformers/issues/47912 went on: not in the installed version."""
    options = {"assistant_model": assistant} if how == "assistant" else {"prompt_lookup_num_tokens": 2}
    law = law_of_generate(model, 3, eos_token_id=1, **options)
    assert distance(law, peers.target_law(model, [0], 3, stop=1)) < ROUNDING
    assert {text for text in law if 1 in text[:-1]} == set()


def test_prompt_lookup_has_the_targets_law(model):
    law = law_of(peers.huggingface_program(model, [0, 1, 0, 1, 0], 3, prompt_lookup_num_tokens=2))
    assert distance(law, peers.target_law(model, [0, 1, 0, 1, 0], 3)) < ROUNDING


def test_the_lossy_option_of_transformers_is_refuted(model, assistant):
    """``assistant_ensemble_weight`` verifies against a mixture of p and q, and says so."""
    law = law_of_generate(model, assistant_model=assistant, assistant_ensemble_weight=0.5)
    assert distance(law, peers.target_law(model, [0], 2)) > 0.01


def test_greedy_generate_is_the_targets_own(model, assistant):
    greedy = partial(peers.huggingface_text, model, [0], 12, do_sample=False)
    assert greedy() == greedy(assistant_model=assistant) == greedy(prompt_lookup_num_tokens=3)


def test_samples_of_generate_are_not_refuted_and_those_of_another_model_are(model):
    """False alarms: 1e-9 each. 200 texts refute a model as different as this one with near certainty."""
    law = peers.target_law(model, [0], 3)
    sample = peers.huggingface_sample(model, [0], 3, prompt_lookup_num_tokens=2)
    assert sample(5, 1) == sample(5, 1) != sample(5, 2)
    assert blackbox.check(sample, law, limit=100).verdict is Verdict.NOT_REFUTED
    other = peers.huggingface_sample(peers.tiny_model(4, vocab_size=2), [0], 3)
    assert blackbox.check(other, law, limit=200).verdict is Verdict.LOSSY


# ---- results ----------------------------------------------------------------------------------------------------------------


def test_every_result_says_what_was_run_when_and_with_which_versions():
    keys = {"package", "version", "what", "tier", "verdict", "distance", "note", "date", "versions"}
    for result in peers.RESULTS:
        assert set(result) == keys, result["package"]
        assert set(result["versions"]) == {"python", "torch", "numpy"}
