"""``python -m specdec.kv``: exact numbers, both units, and one line for every mistake."""

import io
import json
import os
import subprocess
import sys
from fractions import Fraction

import pytest

from specdec.kv import catalogue
from specdec.kv.__main__ import UNITS, main, parse_size
from specdec.kv.engines import VLLM, LlamaCpp
from specdec.kv.plan import GB, GIB, Plan, Speculation
from specdec.kv.shape import attention

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "hidden_size": 4096, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
SMALL = {**CONFIG, "num_hidden_layers": 16, "head_dim": 64, "hidden_size": 2048}
TOKEN = 131_072


@pytest.fixture
def path(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return str(tmp_path / "config.json")


@pytest.fixture
def draft(tmp_path):
    (tmp_path / "draft.json").write_text(json.dumps(SMALL))
    return str(tmp_path / "draft.json")


@pytest.fixture
def run(capsys):
    def ran(*arguments):
        assert main([str(each) for each in arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return ran


@pytest.fixture
def facts(run):
    return lambda *arguments: json.loads(run(*arguments, "--json"))


@pytest.fixture
def refused(capsys):
    def ran(*arguments):
        assert main([str(each) for each in arguments]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
        return printed.err

    return ran


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_the_page_of_text(run, path):
    out = run(path, "--tokens", 8192, "--sequences", 32, "--engine", "vllm", "--budget", "40GiB")
    assert out == """\
llama, vLLM, 32 sequences of 8,192 tokens

  the model's own bytes per token  131,072 B = 128.00 KiB (131.07 kB)
  the model's own fixed bytes      0 B
  one sequence, allocated          1,073,741,824 B = 1.00 GiB (1.07 GB)
  all sequences                    34,359,738,368 B = 32.00 GiB (34.36 GB)

Derivation
  all layers: 16,384 blocks x 2,097,152 B (16 tokens a block)
    = 34,359,738,368 B = 32.00 GiB (34.36 GB)

What fits
  budget of a rank                42,949,672,960 B = 40.00 GiB (42.95 GB)
  32 sequences of 8,192           fit
  most sequences of 8,192 tokens  40
  longest with 32 sequences       10,240 tokens
"""


def test_exact_integers(facts, path):
    found = facts(path, "--tokens", 8192, "--sequences", 32)
    assert (found["bytes_per_token"], found["fixed_bytes_per_sequence"]) == (TOKEN, 0)
    assert (found["bytes_per_sequence"], found["total_bytes"]) == (8192 * TOKEN, 32 * 8192 * TOKEN)
    assert found["parts"] == {"target cache": 32 * 8192 * TOKEN}
    assert found["warnings"] == []
    assert "budget" not in found
    far = facts(path, "--tokens", 10**12, "--sequences", 10**9)
    assert far["total_bytes"] == 10**21 * TOKEN
    assert far["warnings"] == ["a length of 1,000,000,000,000 is past the model's maximum of 131,072"]


def test_absurd_numbers_are_printed(run, path):
    assert f"{10**320 * TOKEN:,} B" in run(path, "--tokens", 10**320)


def test_memory_is_exact(facts, path):
    parts = ("--utilisation", "0.9", "--weights", "16.06GB", "--activations", "2GiB")
    found = facts(path, "--tokens", 8192, "--memory", "80GiB", *parts)
    assert found["budget"] == 80 * GIB * 9 // 10 - 16_060_000_000 - 2 * GIB
    assert found["most_sequences"] == found["budget"] // (8192 * TOKEN)
    assert found["longest"] == found["budget"] // TOKEN
    assert found["fits"] is True
    third = facts(path, "--tokens", 1, "--memory", 3 * 10**30, "--utilisation", "1/3")
    assert third["budget"] == 10**30
    sharp = facts(path, "--tokens", 1, "--memory", 10**30, "--utilisation", "0.3")
    assert sharp["budget"] == 3 * 10**29 != int(10**30 * 0.3)  # the float would lose bytes


def test_memory_in_words(run, path):
    out = run(path, "--tokens", 8192, "--memory", "80GiB", "--weights", "16GB")
    assert "x 9/10 - 16,000,000,000 B - 0 B (weights, activations)" in out
    assert "85,899,345,920 B = 80.00 GiB (85.90 GB)" in out


def test_speculation_costs_sequences(facts, run, path, draft):
    use = (path, "--tokens", 8192, "--sequences", 32)
    arguments = (*use, "--engine", "vllm", "--budget", "40GiB", "--draft", draft, "--gamma", 5)
    found = facts(*arguments)
    assert found["parts"]["row buffers"] == 180_584_448
    assert set(found["parts"]) == {"target cache", "speculative slots", "draft cache", "row buffers"}
    assert sum(line["bytes"] for line in found["lines"]) == found["total_bytes"]
    assert (found["most_sequences"], found["most_sequences_without_speculation"]) == (31, 40)
    assert "speculation costs" in run(*arguments) and "9 sequences" in run(*arguments)
    looked_up = facts(*use, "--gamma", 5, "--vocabulary", 1000)
    assert looked_up["parts"]["row buffers"] == 32 * 6 * 1000 * 4


def test_engines_and_their_options(facts, path):
    def total(*options):
        return facts(path, "--tokens", 1000, "--sequences", 3, *options)["total_bytes"] // TOKEN

    assert total() == 3000
    assert total("--engine", "vllm") == 3 * 1008
    assert total("--engine", "vllm", "--block", 64) == 3 * 1024
    assert total("--engine", "llama.cpp") == 3 * 1024
    assert total("--engine", "llama.cpp", "--unified") == 3072
    assert total("--engine", "tensorrt-llm") == 3 * 1024
    assert total("--engine", "sglang", "--block", 256) == 3 * 1024
    assert total("--shared", 900) == 900 + 3 * 100


def test_options_reach_the_rules(facts):
    gemma = catalogue.load("Gemma-3-27B")
    for options, rule in [
        (["vllm", "--no-hybrid"], VLLM(hybrid=False)),
        (["vllm", "--batched-tokens", 2048], VLLM(batched_tokens=2048)),
        (["llama.cpp", "--ubatch", 2048], LlamaCpp(ubatch=2048)),
        (["llama.cpp", "--swa-full"], LlamaCpp(swa_full=True)),
    ]:
        found = facts("Gemma-3-27B", "--tokens", 32768, "--sequences", 2, "--engine", *options)
        assert found["total_bytes"] == Plan(gemma, rule).storage(32768, 2).bytes != Plan(gemma).storage(32768, 2).bytes
    hybrid = next(name for name in catalogue.names() if any(group.state for group in catalogue.load(name).groups)
                  and any(group.token for group in catalogue.load(name).groups))  # fmt: skip
    one, two = (facts(hybrid, "--tokens", 100, "--engine", "vllm", "--state-blocks", n)["total_bytes"] for n in (1, 2))
    assert two > one
    for grain, block in ((16, 784), (64, 832)):
        found = facts("Qwen3.5-27B", "--tokens", 1, "--engine", "vllm", "--grain", grain)
        assert any(f"{block} tokens a block" in line["formula"] for line in found["lines"])


def test_dtypes(facts, path, draft):
    def token(*options):
        return facts(path, "--tokens", 1, *options)["bytes_per_token"]

    assert token("--kv-dtype", "fp8") == TOKEN // 2
    assert token("--kv-dtype", "q8_0") == TOKEN * 34 // 64
    assert token("--k-dtype", "q8_0", "--v-dtype", "q4_0") == 32 * 8 * 4 * (34 + 18)
    assert token("--kv-dtype", "fp8", "--k-dtype", "bf16") == TOKEN * 3 // 4
    parts = facts(path, "--tokens", 1000, "--draft", draft, "--gamma", 1, "--kv-dtype", "fp8")["parts"]
    assert parts["draft cache"] == 1001 * 16 * 8 * 64 * 2
    assert facts("DeepSeek-V3 / R1", "--tokens", 1, "--kv-dtype", "fp8_ds_mla")["bytes_per_token"] == 61 * 656


def test_dtype_of_states(facts):
    def fixed(*options):
        return facts("Qwen3.5-27B", "--tokens", 1, *options)["fixed_bytes_per_sequence"]

    state, conv = 48 * 48 * 128 * 128, 48 * 3 * 10240 * 2
    assert fixed() == 4 * state + conv == fixed("--kv-dtype", "fp8")
    assert fixed("--state-dtype", "bf16") == 2 * state + conv
    both = ("Llama-3.1-8B", "--tokens", 1, "--draft", "Qwen3.5-27B", "--gamma", 1)
    whole, half = (facts(*both, *more)["parts"]["draft cache"] for more in ((), ("--state-dtype", "bf16")))
    assert whole - half == 2 * 2 * state  # the draft's states too, and their copies


def test_values_that_are_not_cached(facts):
    """A dtype for both is no mistake for a latent cache; one for values alone is told."""
    sentence = "no values are cached beside the keys: the dtype of V is not used"
    latent = ("DeepSeek-V3 / R1", "--tokens", 1)
    assert sentence not in facts(*latent, "--kv-dtype", "fp8")["warnings"]
    assert sentence in facts(*latent, "--v-dtype", "fp8")["warnings"]
    beside = facts("Llama-3.1-8B", "--tokens", 1, "--gamma", 1, "--draft", "DeepSeek-V3 / R1", "--kv-dtype", "fp8")
    assert f"draft: {sentence}" not in beside["warnings"]


def test_ranks(facts, run, path):
    found = facts(path, "--tokens", 100, "--tp", 16)
    assert (found["rank_bytes_per_token"], found["total_bytes"]) == (TOKEN // 8, 100 * TOKEN // 8)  # a head on each rank
    found = facts(path, "--tokens", 100, "--partition", "8,24", "--budget", f"{800 * 4096},{4800 * 4096}")
    assert (found["pp"], found["total_bytes"]) == (2, 100 * 24 * 4096)
    assert (found["most_sequences"], found["longest"]) == (1, 100)
    assert found["budget"] == [800 * 4096, 4800 * 4096]
    assert ", tp 1, pp 2: the fullest rank" in run(path, "--tokens", 100, "--pp", 2)


def test_what_does_not_fit_is_no_error(facts, path):
    found = facts(path, "--tokens", 8192, "--budget", "1MB")
    assert (found["fits"], found["most_sequences"], found["longest"]) == (False, 0, 7)
    assert facts(path, "--tokens", 8192, "--budget", 0)["longest"] == 0


def test_no_end(facts, run, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "model_type": "mistral", "sliding_window": 4096}))
    arguments = (tmp_path, "--tokens", 10_000, "--budget", "40GiB")  # a folder holds a config.json
    found = facts(*arguments)
    assert (found["bytes_per_token"], found["fixed_bytes_per_sequence"], found["longest"]) == (0, 4096 * TOKEN, None)
    assert "any length" in run(*arguments)


def test_standard_input_and_names(facts, path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(CONFIG)))
    assert facts("-", "--tokens", 1)["bytes_per_token"] == TOKEN
    assert facts("Llama-3.1-8B", "--tokens", 1)["bytes_per_token"] == TOKEN
    assert facts("meta-llama/Llama-3.1-8B", "--tokens", 1)["model"] == "Llama-3.1-8B"


def test_a_drafts_guesses_are_told(facts, path, tmp_path):
    guessed = {key: value for key, value in SMALL.items() if key not in ("head_dim", "num_key_value_heads")}
    (tmp_path / "guess.json").write_text(json.dumps(guessed))
    found = facts(path, "--tokens", 1, "--draft", tmp_path / "guess.json", "--gamma", 1)
    assert len([each for each in found["warnings"] if each.startswith("draft: ") and "head_dim" in each]) == 1  # and once only
    assert found["warnings"] == list(dict.fromkeys(found["warnings"]))


def test_vocabularies_that_differ_are_told(facts, run, path, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps({**SMALL, "vocab_size": 151936}))
    arguments = (path, "--tokens", 1, "--draft", tmp_path / "other.json", "--gamma", 1)
    sentence = "target and draft have vocabularies of 128,256 and 151,936: they must share one"
    assert facts(*arguments)["warnings"] == [sentence]
    assert f"Warning: {sentence}" in run(*arguments)


# ---- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "number"), [
    ("4096", 4096), ("4096B", 4096), ("80GiB", 80 * GIB), ("80GB", 80 * GB), ("80 GB", 80 * GB), ("0.1GB", 10**8),
    ("1.5MiB", 1_572_864), ("0.3GiB", GIB * 3 // 10), ("2kB", 2000), ("2KiB", 2048), ("1TiB", 2**40), (" 7MB ", 7 * 10**6),
    ("123456789012.000000001GB", 123_456_789_012 * GB + 1),
])  # fmt: skip
def test_sizes(text, number):
    assert parse_size(text) == number


def test_units_differ():
    assert Fraction(UNITS["GiB"], UNITS["GB"]) == Fraction(2**30, 10**9)
    assert len({value for name, value in UNITS.items() if name not in ("", "KB")}) == len(UNITS) - 2


# ---- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "--tokens"),
    (["--tokens", "1.5"], "--tokens: invalid int value: '1.5'"),
    (["--tokens", "0"], "length is 0: it must be at least 1"),
    (["--tokens", "-5"], "length is -5"),
    (["--tokens", "9", "--sequences", "-1"], "sequences is -1"),
    (["--tokens", "9", "--engine", "exllama"], "engine 'exllama' is not modelled; modelled are ideal"),
    (["--tokens", "9", "--ubatch", "64"], "--ubatch is an option of llama.cpp, not of ideal"),
    (["--tokens", "9", "--engine", "llama.cpp", "--block", "64"], "--block is an option of vllm, sglang, tensorrt-llm"),
    (["--tokens", "9", "--engine", "vllm", "--block", "0"], "tokens a block is 0"),
    (["--tokens", "9", "--engine", "vllm", "--grain", "0"], "grain of a block is 0"),
    (["--tokens", "9", "--grain", "16"], "--grain is an option of vllm, not of ideal"),
    (["--tokens", "9", "--state-dtype", "f17"], "cache dtype 'f17' is not known"),
    (["--tokens", "9", "--kv-dtype", "f17"], "cache dtype 'f17' is not known"),
    (["--tokens", "9", "--kv-dtype", "fp8_ds_mla"], "latent attention, which this model does not have"),
    (["--tokens", "9", "--tp", "3"], "tensor parallelism 3 and 8 heads"),
    (["--tokens", "9", "--tp", "0"], "tensor parallelism is 0"),
    (["--tokens", "9", "--pp", "0"], "pipeline parallelism is 0"),
    (["--tokens", "9", "--partition", "16,15"], "must make 32"),
    (["--tokens", "9", "--partition", "16;16"], "'16;16' is no list of layers"),
    (["--tokens", "9", "--pp", "2", "--budget", "1,2,3"], "3 budgets for 2 pipeline stages"),
    (["--tokens", "9", "--budget", "80G"], "'80G' is no size: give bytes, or a unit of B, kB"),
    (["--tokens", "9", "--budget", "80gb"], "no size"),
    (["--tokens", "9", "--budget", "-1"], "no size"),
    (["--tokens", "9", "--budget", "1e9"], "no size"),
    (["--tokens", "9", "--budget", "1GB", "--memory", "1GB"], "give one"),
    (["--tokens", "9", "--weights", "1GB"], "--weights is a part of --memory"),
    (["--tokens", "9", "--memory", "10GB", "--weights", "10GB"], "leave nothing for a cache"),
    (["--tokens", "9", "--memory", "10GB", "--utilisation", "1.1"], "utilisation is (11, 10)"),
    (["--tokens", "9", "--memory", "10GB", "--utilisation", "most"], "'most' is no share"),
    (["--tokens", "9", "--memory", "10GB", "--utilisation", "1/0"], "'1/0' is no share"),
    (["--tokens", "9", "--gamma", "-1"], "gamma is -1"),
    (["--tokens", "9", "--draft", "Qwen3-0.6B"], "need --gamma"),
    (["--tokens", "9", "--gamma", "1", "--vocabulary", "0"], "vocabulary is 0"),
    (["--tokens", "9", "--shared", "10"], "length is 9: it must be at least 10"),
    (["--tokens", "9", "--colour"], "unrecognized arguments: --colour"),
])  # fmt: skip
def test_mistakes(refused, path, arguments, words):
    assert words in refused(path, *arguments)


@pytest.mark.parametrize(("content", "words"), [
    ("{", "not JSON"), ("[1, 2]", "not a list"), ("", "not JSON"), ("{}", "config lacks"), ("3", "not a int"),
    ('"meta/eight"', "not a str"),
    (json.dumps({**CONFIG, "layer_types": ["mlp"] * 32}), "keeps nothing: no layer has a cache"),
    (json.dumps({**CONFIG, "num_hidden_layers": -3}), "num_hidden_layers is -3"),
])  # fmt: skip
def test_faulty_configs(refused, tmp_path, content, words):
    (tmp_path / "config.json").write_text(content)
    assert words in refused(tmp_path / "config.json", "--tokens", 9)


def test_faulty_names(refused, tmp_path):
    assert "close are" in refused("Llama-3.1-8", "--tokens", 9)
    assert "not in the catalogue" in refused("nothing of the kind at all", "--tokens", 9)
    assert "can't be read" in refused(tmp_path / "missing.json", "--tokens", 9)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    refused(tmp_path / "binary.json", "--tokens", 9)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    refused(tmp_path / "deep.json", "--tokens", 9)


def test_a_name_that_no_encoding_holds(refused, facts, path, tmp_path):
    """A lone surrogate can't be printed as text; as JSON it is escaped."""
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "_name_or_path": "\ud800"}))
    assert "surrogates not allowed" in refused(path, "--tokens", 9)
    assert facts(path, "--tokens", 9)["model"] == "\ud800"


def test_a_reader_may_leave_early(path):
    """As ``| head`` does: nothing on standard error, neither from us nor from the flush at exit."""
    command = [sys.executable, "-m", "specdec.kv", path, "--tokens", "9"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (found.returncode, found.stderr) == (0, "")


def test_as_a_process(path):
    def ran(*arguments, given=""):
        command = [sys.executable, "-m", "specdec.kv", *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)

    right = ran("-", "--tokens", "8192", "--sequences", "32", "--json", given=json.dumps(CONFIG))
    assert (right.returncode, right.stderr) == (0, "")
    assert json.loads(right.stdout)["total_bytes"] == Plan(catalogue.load("Llama-3.1-8B")).storage(8192, 32).bytes
    wrong = ran(path, "--tokens", "none")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "error: argument --tokens: invalid int value: 'none'\n"


def test_the_library_says_the_same(facts, path, draft):
    """One setting with everything, against ``Plan``."""
    small = attention(16, 8, 64, k="fp8", v="fp8")
    target = catalogue.load("Llama-3.1-8B").with_dtypes("fp8", "fp8")
    speculation = Speculation(3, catalogue.config.read(SMALL).with_dtypes("fp8", "fp8"))
    assert speculation.draft.groups == (small,)
    whole = Plan(target, VLLM(32), speculation, 2, 2, [16, 16], 64)
    found = facts(
        path, "--tokens", 5000, "--sequences", 7, "--engine", "vllm", "--block", 32, "--kv-dtype", "fp8", "--tp", 2, "--pp", 2,
        "--partition", "16,16", "--shared", 64, "--draft", draft, "--gamma", 3, "--budget", "20GiB",
    )  # fmt: skip
    stored = whole.storage(5000, 7)
    assert (found["total_bytes"], found["parts"]) == (stored.bytes, stored.parts)
    assert found["most_sequences"] == whole.sequences(5000, 20 * GIB)
    assert found["longest"] == whole.length(7, 20 * GIB)
