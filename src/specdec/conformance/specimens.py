"""Wrong samplers and look-alikes as data: each with its symptom, its cause, public reports, and what is wrong on a fixture.

What exactly is wrong, a law or a count, is kept in ``specimens.json`` as Fractions; ``record`` renews it, a test recomputes it.
Reports are named as owner/repo#number and stand on github.com.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from specdec.chance import Scripted, law_of
from specdec.conformance import counts, exact, loop_mutants, mutants
from specdec.conformance.catalogue import BY_NAME, DRAFT, GRAMMAR, RECURRENT, SEPARATING, TARGET, A, B, forgetful
from specdec.conformance.guard import BrokenError
from specdec.conformance.loop_mutants import changed, in_batches, misplaced, none, other_stop, retold, then, without
from specdec.conformance.samplers import Sampler, loop, rule, speculative, texts
from specdec.conformance.situations import Law, Request, Situation, Text
from specdec.conformance.walk import Walk, walk
from specdec.decoding import Autoregressive, Stop
from specdec.law import RepetitionPenalty, Temperature, TopK, TopP, Transforms
from specdec.models import LanguageModel
from specdec.models.automaton import Automaton
from specdec.models.prompt_lookup import PromptLookup
from specdec.models.table import Table
from specdec.tuning import Adaptive
from specdec.verification import Verify, block, sample_match, strict


@dataclass(frozen=True)
class Specimen:
    """A sampler whose verdict is known.

    ``symptom`` is what a user sees, ``cause`` what the code does; of an innocent: why it looks wrong, and why it is right.
    ``fixture`` names the situation in SITUATIONS whose wrong law, or wrong count, ``specimens.json`` holds.
    """

    sampler: Sampler
    symptom: str
    cause: str
    reports: tuple[str, ...] = ()
    fixture: str = "first token"

    @property
    def name(self) -> str:
        """The sampler's."""
        return self.sampler.name


# ---- fixtures -----------------------------------------------------------------------------------------------------------


def _short(name: str, tokens: int, gamma: int) -> Situation:
    """A situation of the catalogue, cut to a few tokens at one γ."""
    many = "first token" if tokens == 1 else f"{tokens} tokens"
    return replace(BY_NAME[name], name=f"{name}, {many} at γ = {gamma}", tokens=tokens, gammas=(gamma,))


def _cycle(size: int) -> Table:
    """Token after token, with certainty, and from the last to the first."""
    return Table(np.roll(np.eye(size + 1, size, dtype=int).astype(object), 1, axis=1)[[*range(size), size - 1]])


UNCAPPED = "distinct rows, no cap"
_SORTS = (("temperature", Temperature), ("top-k", TopK), ("top-p", TopP))
_PROMPTS = (Request(stop=Stop(length=1)), Request((B,), stop=Stop(length=1)))
_GREEDY = Request(transforms=Transforms((Temperature(0),)), stop=Stop(length=1))

FIXTURES: tuple[Situation, ...] = (
    SEPARATING,
    replace(BY_NAME["distinct rows"], name=UNCAPPED, requests=(Request(stop=Stop()),)),
    Situation("first token", "F1 of the public reports", *forgetful([5, 3, 2], [2, 2, 6]), (1,), tokens=1),
    _short("half", 1, 1),
    *(_short(name, 1, 1) for name, _ in _SORTS),
    Situation("first token, raw q", "what two likeliest proposals hide", *forgetful([5, 3, 2], [3, 1, 6]), (1,), tokens=1),
    *(_short("distinct rows", *size) for size in ((2, 1), (2, 2))),
    _short("half", 1, 2),
    _short("half", 2, 2),
    _short("penalty", 2, 1),
    _short("smaller draft", 1, 1),
    _short("two back", 2, 1),
    RECURRENT,
    replace(RECURRENT, name="recurrent, 2 tokens at γ = 1", gammas=(1,), tokens=2),
    _short("zeros in p", 1, 1),
    replace(_short("zeros in p", 1, 1), name="zeros in p, first token after A", requests=(Request((A,)),)),
    Situation("one third", "block accepts 11/9 a round, strict 10/9", *forgetful([1, 2], [2, 1], 3), tokens=1),
    _short("disjoint", 1, 1),
    _short("equal", 1, 1),
    GRAMMAR,
    replace(GRAMMAR, name="grammar, 2 tokens at γ = 1", gammas=(1,), tokens=2),
    Situation(
        "stop before cap",
        "one sure text, A B C, whose C is a stop token ahead of the cap in the same round",
        _cycle(6),
        _cycle(6),
        (5,),
        (Request(stop=Stop(length=5, tokens=frozenset({2}))),),
        tokens=5,
    ),
    Situation("two requests", "one token each, after different prompts", TARGET, DRAFT, (1,), _PROMPTS, tokens=1),
    Situation("greedy beside sampled", "one token each", TARGET, DRAFT, (1,), (_GREEDY, _PROMPTS[0]), tokens=1),
)
"""The specimens' own situations: so small that a wrong law is a line or two."""

SITUATIONS: dict[str, Situation] = BY_NAME | {situation.name: situation for situation in FIXTURES}

FIRST, PAIR, ROWS = "first token", "distinct rows, 2 tokens at γ = 1", "distinct rows, 2 tokens at γ = 2"


# ---- mutants ------------------------------------------------------------------------------------------------------------


def _rule(name: str, verify: Any, fixture: str, symptom: str, cause: str, *reports: str) -> Specimen:
    return Specimen(rule(name, verify, "strict"), symptom, cause, reports, fixture)


def _block(name: str, verify: Verify, fixture: str, symptom: str, cause: str, *reports: str) -> Specimen:
    return Specimen(rule(name, verify, "block"), symptom, cause, reports, fixture)


def _loop(
    name: str, make: Callable[[Situation], Any], fixture: str, symptom: str, cause: str, *reports: str
) -> Specimen:
    return Specimen(loop(name, make, "strict"), symptom, cause, reports, fixture)


_CORRECTIONS = (
    _rule(
        "residual replaced by p", mutants.residual_is_p, FIRST,
        "rejected tokens come back, and what the draft overrates stays overrated",
        "the correction is drawn from p, not from (p - q)+",
    ),
    _rule(
        "residual not normalised, rest to the last token", mutants.residual_not_normalised_last, FIRST,
        "the last id of the vocabulary comes far too often",
        "a uniform below 1 is looked up in running sums that end below 1, and the search is clamped to the range",
    ),
    _rule(
        "residual not normalised, rest to token 0", mutants.residual_not_normalised_first, FIRST,
        "token 0 comes far too often",
        "a uniform below 1 is looked up in running sums that end below 1, and an argmax that finds nothing gives 0",
    ),
    _rule(
        "residual through softmax", mutants.residual_through_softmax, FIRST,
        "tokens come that the residual excludes",
        "the residual goes through softmax, where division by its sum was due: a weight of 0 becomes 1",
        "huggingface/transformers#28508",
    ),
    _rule(
        "residual altered at the rejected token alone", mutants.one_hot_residual, FIRST,
        "a bias that grows with the draft's doubt",
        "the correction is p without the rejected token, which is right for a one-hot q, and q is dense",
        "SafeAILab/EAGLE#20",
    ),
    _rule(
        "residual from the previous row", mutants.residual_from_previous_row, ROWS,
        "the first token is right, the text is not",
        "the correction at position i is drawn from the residual of row i - 1",
    ),
    _rule(
        "residual from the next row", mutants.residual_from_next_row, PAIR,
        "corrections read as if a token were missing before them",
        "the correction at position i is drawn from the residual of row i + 1",
    ),
    _rule(
        "correction from q", mutants.correction_from_q, FIRST,
        "the text leans to the draft's",
        "the correction is drawn from the draft's row",
    ),
    _rule(
        "residual |p - q|", mutants.residual_is_absolute, FIRST,
        "the text leans to what the draft overrates",
        "the absolute difference stands where the positive part was due",
    ),
    _rule(
        "residual (q - p)+", mutants.residual_is_turned_round, FIRST,
        "the text leans strongly to what the draft overrates",
        "p and q are exchanged in the residual",
    ),
    _rule(
        "residual clipped to the target's top two", mutants.residual_clipped, "half, first token at γ = 1",
        "rare tokens never come as corrections",
        "the residual is cut to the target's two likeliest tokens and normalised again",
    ),
    _rule(
        "correction by argmax of p", mutants.correction_is_argmax_of_p, FIRST,
        "corrections are always the target's likeliest token",
        "greedy resampling after a rejection",
    ),
    _rule(
        "correction by argmax of the residual", mutants.correction_is_argmax_of_residual, FIRST,
        "corrections are always the same token after the same prefix",
        "the largest entry of p - q is taken instead of a draw",
    ),
    _rule(
        "correction uniform where p > q", mutants.correction_is_uniform, FIRST,
        "corrections are too even",
        "the residual's support is kept, its weights are not",
    ),
    _rule(
        "correction from p where p > q", mutants.correction_is_p_where_larger, FIRST,
        "corrections lean to the target's likely tokens",
        "p is masked to where it exceeds q, and q is not subtracted",
    ),
    _rule(
        "laws divided in place", mutants.laws_divided_in_place, FIRST,
        "a bias that vanishes when p and q are printed before the round",
        "the ratio p/q is written over p's memory, and the residual is formed from it",
        "vllm-project/vllm#16952",
    ),
    _rule(
        "residuals normalised ahead of need", mutants.residual_before_need, "equal, first token at γ = 1",
        "NaN, or an exception, where draft and target agree",
        "the residual is normalised before anything is rejected: 0/0 where p = q",
        "jaymody/speculative-sampling#5",
    ),
)

_ENDS = (
    _rule(
        "bonus from the previous row", mutants.bonus_from_previous_row, PAIR,
        "the token behind a fully accepted block reads like the one before it",
        "the bonus is drawn from row γ - 1 of the target",
    ),
    _rule(
        "bonus from the first row", mutants.bonus_from_first_row, PAIR,
        "the token behind a fully accepted block reads like the block's first",
        "an index one too far wraps round to row 0",
    ),
    _rule(
        "bonus from the residual", mutants.bonus_from_residual, PAIR,
        "the token behind a fully accepted block reads like a correction",
        "one line draws the last token of every round from the residual of row γ - 1",
    ),
    _rule(
        "bonus after a rejection", mutants.bonus_after_rejection, PAIR,
        "one token too many in every round that rejects, and it does not fit",
        "the bonus is drawn from row γ even when a proposal before it was rejected",
    ),
    _rule(
        "tokens after a rejection kept", mutants.keeps_discarded_branch, ROWS,
        "high acceptance, and text that does not fit together",
        "the rejected proposal is replaced, and those behind it are kept",
    ),
)

_ACCEPTANCES = (
    _rule(
        "match count taken for acceptance", mutants.accepts_all, FIRST,
        "drafts are always accepted",
        "the number of proposals that equal themselves is taken for the number accepted",
        "huggingface/transformers#28508",
    ),
    _rule(
        "first proposal committed unverified", mutants.first_unverified, FIRST,
        "greedy decoding leaves the target's text",
        "the first proposal of a round is committed before the target has seen it",
        "ohdearquant/lattice#243",
    ),
    _rule(
        "lenience 2", mutants.lenience_2, FIRST,
        "more is accepted, and the text leans to the draft's",
        "the acceptance is min(1, 2 p/q), with the residual of strict",
    ),
    _rule(
        "lenience 1.1", mutants.lenience_1_1, FIRST,
        "a little more is accepted, and the text leans to the draft's",
        "the acceptance is min(1, 1.1 p/q), with the residual of strict",
    ),
    _rule(
        "threshold instead of chance", mutants.threshold, FIRST,
        "proposals that the draft overrates never pass",
        "a proposal is accepted where p >= q, and rejected otherwise",
    ),
    _rule(
        "inverted ratio", mutants.inverted_ratio, FIRST,
        "the draft's overrated tokens always pass",
        "the acceptance is min(1, q/p)",
    ),
    _rule(
        "ratio from the next row", mutants.ratio_from_next_row, PAIR,
        "acceptance falls as soon as rows differ",
        "proposal i is judged by target row i + 1",
    ),
    _rule(
        "accepts the target's top two", mutants.top_two, FIRST,
        "rare proposals never pass, likely ones always do",
        "membership in the target's top two decides, without regard to q",
    ),
    _rule(
        "one decision for the whole block", mutants.all_or_nothing, ROWS,
        "all proposals pass or none",
        "the product of the ratios, capped at 1, decides about all proposals together",
    ),
    _rule(
        "draft probabilities dropped", mutants.drops_draft_laws, FIRST,
        "the text is right and acceptance poor: .28 for .60",
        "q is taken for one-hot at each proposal, though it was drawn from a dense one",
        "vllm-project/vllm#40269",
    ),
    Specimen(
        rule("tokenwise under the name of block", strict.verify, "block"),
        "block verification gains nothing",
        "the option is read, and the tokenwise rule runs all the same",
        ("vllm-project/vllm-ascend#7807",),
        "one third",
    ),
)

_UNIFORMS = (
    _rule(
        "one uniform for all acceptances", mutants.one_uniform_for_all, "half, 2 tokens at γ = 2",
        "proposals pass or fail together",
        "one uniform a round is compared with every ratio",
    ),
    _rule(
        "acceptance uniform reused for the correction", mutants.one_uniform_for_two, FIRST,
        "corrections lean to the higher ids",
        "the uniform that rejected draws the correction: it is no longer uniform",
        "vllm-project/vllm-ascend#16370",
    ),
    _loop(
        "one seed for draft and verifier", lambda s: loop_mutants.SameSeed(**_parts(s)), FIRST,
        "acceptance depends on a token's id",
        "two generators with one seed: the uniform that drew a proposal also judges it",
    ),
    _rule(
        "inclusive acceptance", mutants.inclusive_acceptance, "zeros in p, first token at γ = 1",
        "once in 2^24 tokens an impossible one",
        "u <= p/q accepts a token with p = 0 where u is 0",
        "sgl-project/sglang#35771",
    ),
    _rule(
        "inclusive inverse transform", mutants.inclusive_draw, "zeros in p, first token after A",
        "once in 2^24 tokens an impossible one",
        "the first running sum that is at least u: token 0 where u is 0, whatever its weight",
        "sgl-project/sglang#35771",
    ),
)

_BLOCKS = (
    _block(
        "block with strict's residual", mutants.block_plain_residual, "half, 2 tokens at γ = 2",
        "block verification is lossy behind a proposal with p < q",
        "the correction is drawn from (p - q)+ instead of (r p - q)+",
    ),
    _block(
        "block ratio restarts", mutants.block_restarts, ROWS,
        "block verification accepts too much",
        "every ratio starts at 1 again: nothing is carried over from the proposals before",
    ),
    _block(
        "block ratio capped late", mutants.block_caps_late, ROWS,
        "an excess early in a block pays for a lack behind it",
        "the product of p/q is capped where it is read, not at every step",
    ),
    _block(
        "block ratio capped early", mutants.block_caps_early, ROWS,
        "block verification accepts too little, and the rest does not fit",
        "the product of min(1, p/q) stands where the block's ratio was due",
    ),
    _block(
        "block mass from the previous row", mutants.block_mass_from_previous_row, FIRST,
        "block verification is lossy at every γ",
        "the mass behind a prefix is formed at the row that judged its last proposal",
    ),
    _block(
        "block tests every prefix alike", mutants.block_same_test_everywhere, ROWS,
        "block verification accepts too much",
        "each prefix passes with its ratio, as if no longer one had been tried",
    ),
    _block(
        "block stops at the first failure", mutants.block_stops_at_first_failure, ROWS,
        "block verification accepts too little",
        "the search goes from the front and ends at the first prefix that fails",
    ),
    _block(
        "block with one uniform", mutants.block_one_uniform, "half, first token at γ = 2",
        "a small bias where two prefixes fail",
        "one uniform is compared for all prefixes",
    ),
    _block(
        "block residual after tokenwise acceptance", mutants.block_tokenwise, ROWS,
        "block verification gains nothing and is lossy",
        "strict's acceptances stand before the block's residual",
    ),
)


def _parts(situation: Situation) -> dict[str, Any]:
    """The arguments of our own decoder, for another class of it."""
    made = speculative(situation)
    return {name: getattr(made, name) for name in ("target", "draft", "gamma", "transforms", "stop", "verify")}


def _same(transforms: Transforms) -> Transforms:
    return transforms


def _misplacements(name: str, kind: type) -> tuple[Specimen, ...]:
    """Three places in which a transform of one kind is forgotten or comes too late."""
    less, fixture = without(kind), f"{name}, first token at γ = 1"
    return (
        _loop(
            f"{name} applied after drawing", lambda s: retold(s, drawn=less), fixture,
            f"a bias that comes with {name}",
            "proposals are drawn from the untransformed draft, and the ratio is formed with the transformed one",
        ),
        _loop(
            f"{name} on the bonus alone", lambda s: misplaced(s, less, less, _same), fixture,
            f"{name} acts on some tokens only",
            "draft and target rows are left as they are, only the bonus's row is transformed",
            "vllm-project/vllm#42802",
        ),
        _loop(
            f"{name} ignored by the verifier", lambda s: misplaced(s, _same, less, less), fixture,
            f"the text is that of a request without {name}",
            "the draft is transformed, and the target is scored with default parameters",
            *{"temperature": ("ohdearquant/lattice#974",), "top-k": ("vllm-project/vllm#9834",)}.get(name, ()),
        ),
    )


_TRANSFORMS = (
    _loop(
        "argmax draft with its soft law", lambda s: loop_mutants.ArgmaxDraft(**_parts(s)), FIRST,
        "the draft's favourite comes too often, and greedy decoding does not match",
        "the draft proposes its likeliest token, and the ratio is formed as if it had been drawn",
        "huggingface/transformers#32867", "jaymody/speculative-sampling#3",
    ),
    _loop(
        "drawn from the draft's top two, raw law told", lambda s: retold(s, drawn=then(TopK(2))), "first token, raw q",
        "biased by default, without any sampling parameter",
        "the draft has a top-k of its own, and returns the law before it",
        "huggingface/transformers#47932",
    ),
    _loop(
        "raw law told after a transformed draw", lambda s: retold(s, told=none), "top-k, first token at γ = 1",
        "a bias that comes with any transform",
        "the draft draws from its transformed law and returns the raw one",
        "huggingface/transformers#47932",
    ),
    *(specimen for sort in _SORTS for specimen in _misplacements(*sort)),
    _loop(
        "transforms ignored by the bonus", lambda s: misplaced(s, _same, _same, none), "penalty, 2 tokens at γ = 1",
        "now and then a token that the request forbids",
        "the bonus is drawn from the target's raw row",
    ),
    _loop(
        "penalty misses the earlier proposals",
        lambda s: changed(s, transforms=loop_mutants.Shortsighted(s.request.transforms.steps, RepetitionPenalty)),
        "penalty, 2 tokens at γ = 1",
        "repetitions within a block",
        "the penalty counts the committed tokens, not the proposals before a row",
        "vllm-project/vllm#18902",
    ),
    _loop(
        "processors miss the earlier proposals",
        lambda s: changed(s, transforms=loop_mutants.Shortsighted(s.request.transforms.steps)),
        "grammar, 2 tokens at γ = 1",
        "text that the grammar forbids, within a block",
        "the target's rows are processed with the committed text alone",
        "vllm-project/vllm#36138",
        "vllm-project/vllm#42802",
    ),
    _loop(
        "processors see the whole block",
        lambda s: changed(s, transforms=loop_mutants.Farsighted(s.request.transforms.steps)),
        "penalty, 2 tokens at γ = 1",
        "tokens are penalised that have not come yet",
        "every row is processed with all proposals, also its own and those behind it",
    ),
    _loop(
        "low-precision draw, high-precision ratio", lambda s: retold(s, drawn=then(loop_mutants.Rounded(8))), FIRST,
        "a small bias that no seed explains",
        "the draft draws in bfloat16, and the ratio is formed in single precision",
        "deepseek-ai/DeepSpec#31",
    ),
    _loop(
        "low-confidence proposal dropped", lambda s: loop_mutants.DropsDoubt(**_parts(s)), PAIR,
        "tokens that the draft doubts are too rare",
        "a proposal with a small q is dropped after it was drawn: what is left is no longer drawn from q",
    ),
    _loop(
        "target cut to the draft's vocabulary", loop_mutants.cut_to_draft, "smaller draft, first token at γ = 1",
        "tokens that the draft lacks never come",
        "the target's laws are cut to the draft's size and normalised again",
    ),
)


def _target(rewind: Callable[..., Any], kind: type = object) -> Callable[[Situation], Any]:
    """The decoder whose target, if it is of a kind, rewinds in another way."""
    return lambda s: changed(s, target=_unrewound(s.target, rewind, kind))


def _draft(rewind: Callable[..., Any]) -> Callable[[Situation], Any]:
    return lambda s: changed(s, draft=_unrewound(s.draft, rewind, object))


def _unrewound(model: LanguageModel, rewind: Callable[..., Any], kind: type) -> Any:
    return loop_mutants.Unrewound(model, rewind) if isinstance(model, kind) else model


TWO_BACK, SUM = "two back, 2 tokens at γ = 1", "recurrent, 2 tokens at γ = 1"

_CACHES = (
    _loop(
        "rejected tokens left in the target's cache", _target(loop_mutants.rewinds_nothing, Table), TWO_BACK,
        "the text goes on as if rejected tokens stood in it",
        "the length is set back, the entries stay: five rejected proposals leave six more, where one was due",
        "lucidrains/speculative-decoding#3",
    ),
    _loop(
        "target's cache trimmed too little", _target(loop_mutants.rewinds_too_little, Table), TWO_BACK,
        "the text goes on as if one rejected token stood in it",
        "one entry too many is kept after a rejection",
    ),
    _loop(
        "target's cache trimmed too far", _target(loop_mutants.rewinds_too_far), SUM,
        "the target forgets a token in every round",
        "one entry too few is kept after a rejection",
    ),
    _loop(
        "rewind does nothing on cumulative state", _target(loop_mutants.rewinds_nothing, Automaton), SUM,
        "a recurrent model goes astray after the first rejection",
        "trimming a recurrent state is a call without effect",
        "ml-explore/mlx-lm#1109",
    ),
    _loop(
        "rewind resets cumulative state", _target(loop_mutants.rewinds_to_start, Automaton), SUM,
        "a recurrent model forgets the prompt after the first rejection",
        "a recurrent state that can't be cut is cleared, and the text is not fed again",
        "paiml/aprender#2014",
    ),
    _loop(
        "rejected tokens left in the draft's cache", _draft(loop_mutants.rewinds_nothing), "recurrent",
        "the text is right, and acceptance falls with its length",
        "the draft's length is set back, its entries stay",
        "lucidrains/speculative-decoding#3",
    ),
    _loop(
        "draft's cache trimmed too little", _draft(loop_mutants.rewinds_too_little), "recurrent",
        "the text is right, and acceptance falls",
        "one rejected proposal stays in the draft's cache",
    ),
    _loop(
        "draft's cache trimmed too far", _draft(loop_mutants.rewinds_too_far), "recurrent",
        "the text is right, and acceptance falls",
        "one committed token is cut from the draft's cache, and not fed again",
    ),
    _loop(
        "draft's cache misses the last proposal", lambda s: changed(s, draft=loop_mutants.ShortCache(s.draft)), "two back",
        "the text is right, and acceptance falls after full acceptance",
        "of several pending tokens the draft is fed only the last, the bonus",
        "vllm-project/vllm#9730",
    ),
    _loop(
        "bonus corrupts the draft's cache", lambda s: changed(s, draft=loop_mutants.BonusOverProposal(s.draft)), "two back",
        "the text is right, and acceptance falls after full acceptance",
        "the bonus is written over the last proposal's place in the draft's cache",
        "vllm-project/vllm#9730",
    ),
)

_STOPS = (
    _loop(
        "generation goes on after a stop token in a block", lambda s: other_stop(s, loop_mutants.LateStop), "stop before cap",
        "text behind the end of the text",
        "only the last token of a round is compared with the stop tokens",
        "huggingface/transformers#47912",
    ),
    _loop(
        "cap checked before stop tokens", lambda s: other_stop(s, loop_mutants.CapFirst), "stop before cap",
        "text behind a stop token when the length limit falls into the same round",
        "a round that reaches the cap is cut there, and stop tokens are not looked for",
        "sgl-project/sglang#31599",
    ),
    _loop(
        "counts past a stop", lambda s: loop_mutants.CountsPastStop(**_parts(s)), "stop token",
        "more tokens are billed than the text has",
        "all emitted tokens are reported as committed, also those behind a stop",
    ),
    _rule(
        "accepted counted past the first rejection", mutants.counts_past_rejection, "distinct rows",
        "acceptance looks better than the speed",
        "the sum of the mask is reported: 2 for [1, 0, 1], where one proposal was kept",
        "vllm-project/vllm#2658",
    ),
    _rule(
        "bonus counted as accepted", mutants.counts_bonus, "distinct rows",
        "acceptance above 100 %",
        "all emitted tokens are reported as accepted proposals",
    ),
    Specimen(
        loop("acceptance over all that was drafted", speculative, "strict", acceptance=loop_mutants.accepted_of_drafted),
        "acceptance falls when γ grows, with the same draft",
        "proposals behind a rejection, which nobody verified, count as rejected",
        (),
        "distinct rows",
    ),
)

_BATCHES = (
    Specimen(
        texts("one seed for all rows", lambda s, chance: in_batches(s, chance, chances=loop_mutants.one_seed_for_all)),
        "the same prompt gives the same text in every row",
        "the rows of a batch are drawn with the same uniforms: the requests' own seeds are ignored",
        ("vllm-project/vllm#6038",),
        "two requests",
    ),
    Specimen(
        texts("neighbour's rows", lambda s, chance: in_batches(s, chance, target=loop_mutants.NeighboursRows)),
        "texts answer another request's prompt",
        "the batched pass hands each text the target's rows of the one before it",
        (),
        "two requests",
    ),
    Specimen(
        texts("first row's transforms for the whole batch", lambda s, chance: in_batches(s, chance, of=lambda r, i: r[0])),
        "sampled requests turn greedy beside a greedy one",
        "one marker for the batch stands where each row has its own",
        ("vllm-project/vllm#27077",),
        "greedy beside sampled",
    ),
)

_BROKEN = (
    _rule(
        "reciprocal ratio", mutants.reciprocal_ratio, "disjoint, first token at γ = 1",
        "an exception where the target forbids a proposal",
        "min(1, p/q) is written as 1 / max(1, q/p): division by p = 0",
    ),
    _rule(
        "output padded with id V", mutants.padded, PAIR,
        "ids outside the vocabulary, or garbage between the tokens",
        "a round always returns γ + 1 ids, and nothing tells how many count",
    ),
    _rule(
        "no correction", mutants.no_correction, FIRST,
        "empty output",
        "a round returns the accepted prefix alone: nothing, where the first proposal is rejected",
    ),
    _rule(
        "redraws from the draft until accepted", mutants.redraws_until_accepted, "disjoint, first token at γ = 1",
        "it hangs where draft and target disagree",
        "a rejected proposal is replaced by the next one from q, until one is accepted",
    ),
)

MUTANTS: tuple[Specimen, ...] = (
    *_CORRECTIONS,
    *_ENDS,
    *_ACCEPTANCES,
    *_UNIFORMS,
    *_BLOCKS,
    *_TRANSFORMS,
    *_CACHES,
    *_STOPS,
    *_BATCHES,
    *_BROKEN,
)
"""Wrong samplers, each of which at least one tier accuses."""


# ---- innocents ----------------------------------------------------------------------------------------------------------


def _innocent(sampler: Sampler, symptom: str, cause: str, *reports: str) -> Specimen:
    return Specimen(sampler, symptom, cause, reports)


INNOCENTS: tuple[Specimen, ...] = (
    _innocent(
        rule("strict", strict.verify, "strict"),
        "tokens come that the target would not have picked with this seed",
        "the law is the target's: Leviathan et al. (2023), Chen et al. (2023)",
    ),
    _innocent(
        rule("block", block.verify, "block"),
        "proposals with p < q pass together that fail alone",
        "what passes as a block is paid for in the residual: Sun et al. (2025)",
    ),
    _innocent(
        rule("sample and match", sample_match.verify, "sample-and-match"),
        "the draft's probabilities are never looked at",
        "every emitted token is a plain draw from the target",
        "ml-explore/mlx-swift-lm#459",
    ),
    _innocent(
        loop("argmax draft told as one-hot", lambda s: loop_mutants.OneHotDraft(**_parts(s)), None),
        "a draft without chance, and q = 1",
        "q is one-hot, and that is the law the proposal was drawn from",
        "SafeAILab/EAGLE#329",
        "SafeAILab/EAGLE#183",
    ),
    _innocent(
        loop("prompt lookup", lambda s: changed(s, draft=PromptLookup(s.target.vocab_size, exact=True)), None),
        "proposals are copied from the text",
        "a one-hot draft may depend on the text before it, and may have nothing to propose",
    ),
    _innocent(
        rule("greedy by comparison", mutants.argmax_or_strict, "strict"),
        "at temperature 0 no ratio is formed",
        "where p is one-hot, min(1, p/q) is 1 at its token and 0 elsewhere",
    ),
    _innocent(
        rule("no bonus", mutants.no_bonus, None),
        "a token less than γ + 1 after full acceptance",
        "a round may end anywhere, as long as what it emits has the target's law",
    ),
    _innocent(
        loop("stops behind a proposal in doubt", lambda s: loop_mutants.EndsBehindDoubt(**_parts(s)), None),
        "γ depends on the proposals of its own round",
        "every token that was drawn is kept: what is drawn next may depend on it",
    ),
    _innocent(
        loop("silent in doubt", lambda s: changed(s, draft=loop_mutants.SilentInDoubt(s.draft, Fraction(6, 10))), None),
        "γ depends on the draft's confidence",
        "it looks at the law before anything is drawn from it",
    ),
    _innocent(
        loop("γ adapts", lambda s: changed(s, gamma=Adaptive(first=1, least=1, most=3, up=1)), None),
        "γ depends on what was accepted",
        "it looks at rounds that are over",
    ),
    _innocent(
        loop("transforms on the target alone", lambda s: misplaced(s, none, _same, _same), None),
        "the draft ignores the request's sampling parameters",
        "any q is a legal draft: lossless for the processed target, with fewer accepted",
    ),
    _innocent(
        loop("low-precision draft, told as drawn", lambda s: misplaced(s, then(loop_mutants.Rounded(8)), _same, _same), None),
        "the draft is rounded to eight bits",
        "the rounded law is the one that is drawn from and the one in the ratio",
    ),
    _innocent(
        rule("weights of any total", mutants.weights_of_any_total),
        "the residual does not add up to 1",
        "the draw divides by the total",
    ),
    _innocent(
        rule("bonus drawn first", mutants.draws_bonus_first),
        "another text for the same seed",
        "the order of independent draws does not matter to the law",
    ),
    _innocent(
        rule("uniform recycled with care", mutants.recycled_uniform),
        "the uniform that rejects draws the correction as well",
        "behind the acceptance a it is uniform on [a, 1), and the cells are stretched to that",
        "vllm-project/vllm-ascend#16370",
    ),
    _innocent(
        loop("autoregressive", lambda s: Autoregressive(s.target, s.request.transforms, s.request.stop), None),
        "nothing is accepted",
        "nothing is proposed: one draw from the target a token",
    ),
    _innocent(
        texts("our own batch", in_batches),
        "texts of a batch run apart in length, greedy beside sampled",
        "no text looks at another: each has its own draft, verification, transforms and chance",
    ),
)
"""Look-alikes that are right: no tier may accuse them."""


# ---- what is wrong, exactly -----------------------------------------------------------------------------------------------

RECORD = Path(__file__).with_name("specimens.json")


def law_in(sampler: Sampler, situation: Situation) -> Law:
    """The exact joint law of the texts that a sampler makes in a situation."""
    if sampler.make is None:
        return exact.texts_law(sampler, situation)
    return _joint(_walked(sampler, situation))


def _walked(sampler: Sampler, situation: Situation) -> Walk:
    assert sampler.make is not None
    return walk(sampler.make(situation), situation, sampler.acceptance)


def _joint(walked: Walk) -> Law:
    return {(text,): weight for text, weight in walked.law.items()}


def wrong(specimen: Specimen) -> dict[str, Any]:
    """What is wrong with a mutant on its fixture: a fault, a law, counts against those that are due, or an impossible token."""
    situation, sampler = SITUATIONS[specimen.fixture], specimen.sampler
    try:
        walked = _walked(sampler, situation) if sampler.make is not None else None
        law = _joint(walked) if walked is not None else exact.texts_law(sampler, situation)
    except BrokenError as fault:
        return {"fault": str(fault)}
    if law != situation.law:
        shown = {_text(texts): str(law[texts]) for texts in sorted(law, key=str)}
        return {"distance": str(exact.distance(law, situation.law)), "law": shown}
    assert walked is not None and sampler.declares is not None
    ours, due = _figures(walked), _due(sampler.declares, situation)
    if ours != due:
        return {name: {"found": str(ours[name]), "due": str(due[name])} for name in due if ours[name] != due[name]}
    return _at_zero(sampler, situation)


def _figures(walked: Walk) -> dict[str, Any]:
    """Expected counts of a text, as they are reported, and the two parts of the acceptance."""
    found = counts.means(walked)
    figures = {name: getattr(found, name) for name in ("rounds", "proposed", "accepted", "emitted", "committed")}
    for part, name in enumerate(("acceptance: accepted", "acceptance: verified")):
        shares = ((walked.visits[key] * p, m.counts) for key, out in walked.passages.items() for m, p in out.items())
        figures[name] = sum(weight * claim.acceptance[part] for weight, claim in shares)
    return figures


@cache
def _due(declares: str, situation: Situation) -> dict[str, Any]:
    """The figures of the declared rule's own decoder."""
    return _figures(walk(speculative(situation, verify=counts.RULES[declares]), situation))


def _at_zero(sampler: Sampler, situation: Situation) -> dict[str, Any]:
    """An impossible first token, where as few uniforms of the first round as can be are 0 and the others next to 1."""
    assert sampler.make is not None
    almost = Fraction(2**53 - 1, 2**53)
    for script in sorted(product((0, almost), repeat=4), key=lambda script: script.count(0)):
        decoder = sampler.make(situation)
        record, _ = decoder.step(decoder.start(situation.request.prompt), Scripted(script))
        token = record.round.tokens[0]
        if not any(texts[0][0] == token for texts in situation.law):  # type: ignore[index]
            return {"uniforms that are 0": [i for i, u in enumerate(script) if u == 0], "impossible token": _text(((token,),))}
    raise ValueError(f"nothing is wrong with {sampler.name!r} in {situation.name!r}")


def _text(joint: Any) -> str:
    """Texts as symbols, the requests' texts apart by a bar."""
    return " | ".join(" ".join("ABCDEFGH"[token] for token in text) for text in joint)


def four_tokens(sampler: Sampler) -> Law:
    """The law of four tokens on the ABC machine at γ = 2 without a cap, from one round after each symbol.

    That is enough for a sampler that remembers nothing but caches: on this machine the last token decides every row.
    """
    assert sampler.make is not None
    decoder = sampler.make(SITUATIONS[UNCAPPED])

    def after(last: Text) -> Law:
        return law_of(lambda chance: decoder.step(decoder.start(last), chance)[0].committed_tokens)

    rounds = {last: after(last) for last in ((), *((token,) for token in range(decoder.models["target"].vocab_size)))}
    law: Law = defaultdict(int)
    going: dict[Text, Any] = {(): 1}
    while going:
        following: dict[Text, Any] = defaultdict(int)
        for text, weight in going.items():
            for emitted, probability in rounds[text[-1:]].items():
                longer = (*text, *emitted)[:4]  # type: ignore[misc]
                (law if len(longer) == 4 else following)[longer] += weight * probability
        going = following
    return {(text,): weight for text, weight in law.items()}


def entry(specimen: Specimen) -> dict[str, Any]:
    """A mutant's part of the record: its fixture, what is wrong there, and the distance of four tokens on the ABC machine."""
    out = {"fixture": specimen.fixture, **wrong(specimen)}
    if specimen.sampler.make is not None and "fault" not in out:
        out[UNCAPPED] = str(exact.distance(four_tokens(specimen.sampler), SITUATIONS[UNCAPPED].law))
    return out


def record() -> None:
    """Write ``specimens.json`` afresh, a mutant a line."""
    lines = [json.dumps({specimen.name: entry(specimen)}, ensure_ascii=False)[1:-1] for specimen in MUTANTS]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def recorded() -> dict[str, dict[str, Any]]:
    """``specimens.json``: what is wrong with each mutant, by name."""
    return json.loads(RECORD.read_text(encoding="utf-8"))
