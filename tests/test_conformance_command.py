"""``python -m specdec.conformance``: what it prints, its exit status, and what can't be loaded."""

import sys

import pytest

from specdec.conformance.__main__ import main

MODULE = '''
import numpy as np

from specdec.conformance.catalogue import BY_NAME
from specdec.conformance.mutants import residual_is_p
from specdec.conformance.samplers import black_box, rule
from specdec.verification.strict import verify

wrong = rule("resampler", residual_is_p)
number = 3
law = {(0,): 0.5, (1,): 0.5}
coin = black_box("coin", lambda number, seed: [(int(x),) for x in np.random.default_rng(seed).integers(0, 2, number)], law)


class Engine:
    verify = staticmethod(verify)
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "engine_under_test.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("engine_under_test", None)


def test_a_right_rule_exits_with_0_and_writes_its_page(module, capsys):
    page = module / "report.html"
    assert main(["engine_under_test:Engine.verify", "--declares", "strict", "--html", str(page)]) == 0
    assert "LOSSLESS on the catalogue" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_wrong_one_exits_with_1(module, capsys):
    assert main(["engine_under_test:wrong"]) == 1
    out = capsys.readouterr().out
    assert "LOSSY" in out and "distinct rows" in out


def test_a_black_box_is_sampled(module, capsys):
    assert main(["engine_under_test:coin"]) == 0
    assert "NOT REFUTED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["engine_under_test"], "write package.module:name"),
        (["no_such_module_here:x"], "can't be imported"),
        (["engine_under_test:missing"], "has no missing"),
        (["engine_under_test:number"], "neither a Sampler nor a rule"),
        (["engine_under_test:wrong", "--declares", "block"], "leave --declares out"),
    ],
)
def test_what_cannot_be_loaded_is_named(module, arguments, says, capsys):
    assert main(arguments) == 2
    assert says in capsys.readouterr().err
