"""The committed record of the benchmark: whole, consistent with itself, and shown as it is."""

import json
import math

import pytest

from specdec.benchmark import report
from specdec.book import results

PARTS = {"small", "base", "passes", "drafts", "processes", "hugging face", "compiled"}
RECORD = results.record()


def rounds():
    return [(target, row) for target in ("small", "base") for row in RECORD[target]["rounds"]]


def test_the_record_holds_every_part_with_its_machine_and_enough_turns():
    assert RECORD.keys() == PARTS
    for figures in RECORD.values():
        assert figures["turns"] >= 20
        assert all(blas["threads"] == 1 and blas["kernels"] for blas in figures["machine"]["blas"])
        assert figures["machine"]["OPENBLAS_CORETYPE"] and figures["machine"]["date"]


def test_the_record_is_plain_json_without_nan():
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    json.loads(results.FILE.read_text("utf-8"), parse_constant=refuse)


def test_counts_and_times_of_each_row_belong_together():
    for target, row in rounds():
        assert row["sum_of_positions"] == pytest.approx(row["tokens_per_round"], abs=1e-9)
        assert row["wasted_rows"] == pytest.approx(1 - row["tokens_per_round"] / (row["gamma"] + 1))
        assert sum(row["seconds_share"].values()) == pytest.approx(1)
        assert 0.97 < row["ledger_share"] <= 1, "the ledger must add up to the wall clock within 3 %"
        assert row["bookkeeping"] == pytest.approx(row["seconds_share"]["choosing"] + row["seconds_share"]["state"])
        assert row["speedup"]["low"] <= row["speedup"]["median"] <= row["speedup"]["high"]
        assert row["speedup"]["turns"] == RECORD[target]["turns"]


def test_a_prediction_by_hand():
    figures = {
        "baseline": "plain loop", "microseconds_per_token": {"plain loop": 100.0},
        "costs": {"draft_step_us": 5.0, "pass_us": {"4": 185.0}},
    }  # fmt: skip
    assert report.units(figures, 3) == (0.05, 1.85)
    assert report.predicted(figures, {"gamma": 3, "tokens_per_round": 3.0}) == pytest.approx(3 / (3 * 0.05 + 1.85))


@pytest.mark.parametrize("part", sorted(PARTS))
def test_every_table_of_a_part_has_full_rows(part):
    tables = report.tables(part, RECORD[part])
    assert tables
    for number, columns in enumerate(tables):
        assert columns.rows and all(len(row) == len(columns.header) for row in columns.rows)
        assert columns.title in str(columns) and columns.title in repr(results.shown(part, number))
    assert RECORD[part]["machine"]["processor"] in repr(results.machine(part))


def test_verdicts_say_of_each_bar_whether_it_is_met():
    rows = results.verdicts().rows
    assert len(rows) == 9
    for _, bar, value, verdict in rows:
        if bar == "no bar":
            assert verdict == "–"
        else:
            sign, number = bar.split()
            met = float(value) >= float(number) if sign == "≥" else float(value) <= float(number)
            assert verdict == ("met" if met else "missed") or math.isclose(float(value), float(number), rel_tol=0.01)


def test_needed_passes_are_the_bars_turned_round():
    for rule, gamma, count, _, at_bar in results.needed().rows:
        c, _ = report.units(RECORD["small"], int(gamma))
        speed = float(count) / (int(gamma) * c + float(at_bar))
        assert speed == pytest.approx(results.small_bars()[rule], rel=2e-3)
