"""The catalogue's outlying situations: what is wrong beyond the others' bounds passes them all, and fails where it should."""

from dataclasses import replace

import pytest

from specdec.conformance import check
from specdec.conformance.catalogue import BY_NAME, CATALOGUE, bounds
from specdec.conformance.loop_mutants import in_batches
from specdec.conformance.samplers import loop, speculative, texts
from specdec.conformance.verdicts import Verdict
from specdec.decoding import Speculative, Stop
from specdec.law import RepetitionPenalty, Transforms

OUTLYING = (
    "long run",
    "long block",
    "wide",
    "many stops",
    "stop string",
    "penalty behind a prompt",
    "temperature, then top-p",
    "uneven batch",
)
OTHERS = [situation for situation in CATALOGUE if situation.name not in OUTLYING]

# ---- flaws: what each makes of a decoder --------------------------------------------------------------------------------


def takes(decoder, where):
    """Proposals at the places where(i, x) are taken unverified: the target's row is written over with the draft's."""

    def verify(target, draft, proposals, chance):
        target = target.copy()
        for i, token in enumerate(proposals):
            if where(i, token):
                target[i] = draft[i]
        return decoder.verify(target, draft, proposals, chance)

    return replace(decoder, verify=verify)


def takes_the_fourth(decoder, situation):
    return takes(decoder, lambda i, token: i >= 3)


def takes_high_ids(decoder, situation):
    return takes(decoder, lambda i, token: token > 3)


def knows_one_stop_token(decoder, situation):
    """Only the lowest."""
    return replace(decoder, stop=replace(decoder.stop, tokens=frozenset(sorted(decoder.stop.tokens)[:1])))


def looks_for_stops_in_the_prompt(decoder, situation):
    """A prompt that holds a stop token ends the text at once."""
    met = decoder.stop.tokens & {*situation.request.prompt}
    return replace(decoder, stop=replace(decoder.stop, length=1)) if met else decoder


class Chopped(Stop):
    """Looks for stop strings in the new tokens alone: not across two rounds."""

    def first(self, generated, new):
        plain, _ = Stop(self.length, self.tokens).first(generated, new)
        for kept in range(1, plain + 1):
            if self.strings and any(self._completed(string, new[:kept]) for string in self.strings):
                return kept, "stop string"
        return Stop(self.length, self.tokens).first(generated, new)


def chops_strings(decoder, situation):
    return replace(decoder, stop=Chopped(**vars(decoder.stop)))


class GeneratedOnly:
    """A step that is shown the text without its prompt."""

    def __init__(self, step, skipped):
        self.step, self.skipped = step, skipped

    def __call__(self, scores, prefix):
        return self.step(scores, prefix[self.skipped :])


def spares_the_prompt(decoder, situation):
    skipped = len(situation.request.prompt)
    steps = [
        GeneratedOnly(step, skipped) if isinstance(step, RepetitionPenalty) and skipped else step
        for step in decoder.transforms.steps
    ]
    return replace(decoder, transforms=Transforms(tuple(steps)))


def turns_transforms_round(decoder, situation):
    return replace(decoder, transforms=Transforms(decoder.transforms.steps[::-1]))


FLAWS = {
    takes_the_fourth: "long block",
    takes_high_ids: "wide",
    knows_one_stop_token: "many stops",
    looks_for_stops_in_the_prompt: "many stops",
    spares_the_prompt: "penalty behind a prompt",
    turns_transforms_round: "temperature, then top-p",
    chops_strings: "stop string",
}


def flawed(*flaws):
    def make(situation):
        decoder = speculative(situation)
        for flaw in flaws:
            decoder = flaw(decoder, situation)
        return decoder

    return loop("flawed", make)


class Tires(Speculative):
    """Takes all proposals from the sixth round on."""

    def step(self, state, chance):
        tired = len(state.history) >= 5
        parts = (self.target, self.draft, self.gamma, self.transforms, self.stop, self.verify)
        plain = Speculative(*parts)
        return (takes(plain, lambda i, token: True) if tired else plain).step(state, chance)


def with_first_stop(situation, chance):
    """The first request's stop rules for the whole batch."""
    requests = tuple(replace(request, stop=situation.requests[0].stop) for request in situation.requests)
    return in_batches(replace(situation, requests=requests), chance)


def for_two(situation, chance):
    """Whoever comes third gets the prompt of the second."""
    requests = situation.requests
    requests = (*requests[:2], *(replace(request, prompt=requests[1].prompt) for request in requests[2:]))
    return in_batches(replace(situation, requests=requests), chance)


# ---- the others acquit it, its own situation does not ------------------------------------------------------------------------


@pytest.mark.parametrize("situation", [s for s in OTHERS if len(s.requests) == 1], ids=lambda situation: situation.name)
def test_a_sampler_with_seven_flaws_passes_all_the_other_situations(situation):
    assert not [finding.says for finding in check.in_situation(flawed(*FLAWS), situation) if finding.accused]


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_each_flaw_shows_in_its_own_situation(flaw):
    assert check.in_situation(flawed(flaw), BY_NAME[FLAWS[flaw]])[0].verdict is Verdict.LOSSY


def test_what_goes_wrong_in_the_sixth_round_shows_in_the_long_run_alone():
    """A round commits a token at least, so shorter texts have no sixth round; in the longest of the others it is a bonus."""
    sampler = loop("tires", lambda situation: speculative(situation, kind=Tires))
    (longest,) = [situation for situation in OTHERS if situation.tokens > 5]
    assert longest.name == "two back"
    assert not [finding.says for finding in check.in_situation(sampler, longest) if finding.accused]
    assert check.in_situation(sampler, BY_NAME["long run"])[0].verdict is Verdict.LOSSY


@pytest.mark.parametrize("generate", [with_first_stop, for_two])
def test_what_goes_wrong_in_an_uneven_batch_shows_there_alone(generate):
    verdicts = {
        situation.name: check.in_situation(texts("flawed", generate), situation)[0].verdict
        for situation in CATALOGUE
        if len(situation.requests) > 1
    }
    assert verdicts == {
        "ragged batch": Verdict.LOSSLESS,
        "greedy and sampled": Verdict.LOSSLESS,
        "uneven batch": Verdict.LOSSY,
    }


# ---- bounds -----------------------------------------------------------------------------------------------------------------


def test_the_bounds_are_those_of_the_situations():
    kinds = "no repeat, repetition penalty, temperature, top k, top p"
    assert bounds(OTHERS) == (
        "V ≤ 3, γ ≤ 3, tokens of a text ≤ 6, of a prompt ≤ 2, texts of a batch ≤ 2,"
        f" stop tokens ≤ 1, stop strings ≤ 0, transforms ≤ 1 ({kinds})"
    )
    assert bounds() == (
        "V ≤ 6, γ ≤ 5, tokens of a text ≤ 8, of a prompt ≤ 5, texts of a batch ≤ 3,"
        f" stop tokens ≤ 2, stop strings ≤ 1, transforms ≤ 2 ({kinds})"
    )
    assert bounds([BY_NAME["long run"]]).endswith("transforms ≤ 0 (none)")
