# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The table of all verdicts: how answers are judged and counted, and a sample of it, of some minutes.

The whole table is made by table.py, outside of continuous integration.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import table
from asking import Question, by_place
from judging import Answer, Expectation
from recordings import TASKS, cases, fingerprint, is_recorded
from run import Case

RIGHT = {"kind": "weight", "name": "a.weight", "module": "a", "operator": "", "step": 1, "rank": 0}
OTHER = {**RIGHT, "kind": "operator"}
EXPECTED = Expectation(frozenset(("weight",)), 1, (r"^a\b",))

# Columns and cases of the sample: each way to go wrong once.
SAMPLE = (
    *("token", "layer_norm_eps", "softmax_kernel", "gelu_backward", "max_norm", "again_transformer"),
    *("not_zeroed", "convolution_kernel", "first_moment_kernel", "embedding_backward"),
)
COLUMNS = ("float32/*/statistics/diagnosis", "bfloat16/*/statistics/diagnosis")


# ---- one answer


@pytest.mark.parametrize(
    ("status", "culprits", "outcome"),
    [
        ("differ", (RIGHT, OTHER), "first"),
        ("differ", (OTHER, RIGHT), "named"),
        ("differ", (OTHER,), "other"),
        ("differ", (), "unexplained"),
        ("incomplete", (), "incomplete"),
        ("agree", (), "same"),
        ("equal", (), "same"),
        ("rounding", (), "same"),
    ],
)
def test_answer_to_a_fault(status: str, culprits: Any, outcome: str) -> None:
    assert Answer(status, culprits).outcome(EXPECTED) == outcome


@pytest.mark.parametrize(
    ("status", "culprits", "outcome"),
    [
        ("agree", (), "clear"),
        ("equal", (), "clear"),
        ("rounding", (), "clear"),
        ("differ", (), "accused"),
        ("differ", (OTHER,), "accused"),
        ("rounding", (OTHER,), "accused"),
        ("incomplete", (), "incomplete"),
    ],
)
def test_answer_to_a_healthy_run(status: str, culprits: Any, outcome: str) -> None:
    assert Answer(status, culprits).outcome(None) == outcome


@pytest.mark.parametrize("rank", [None, 0, 1])
def test_rank_counts_where_one_is_expected(rank: int | None) -> None:
    expected = Expectation(frozenset(("weight",)), 1, ("a",), rank)
    assert expected.is_met(RIGHT) is (rank != 1)


def test_what_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    for side in ("golden", "target"):
        (tmp_path / side / "step0/rank").mkdir(parents=True)
        (tmp_path / side / "step0/rank/dump.json").write_text("{")
    question = Question("", tmp_path / "golden", tmp_path / "target", lambda answer: answer.outcome(None))
    assert [question.outcome(answer) for answer in question.answers()] == ["failed"]


def test_dumps_are_found_by_step_and_rank(tmp_path: Path) -> None:
    for place in ("step0/rank", "step2/rank3"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "dump.json").touch()
    assert {
        place: path.parent.relative_to(tmp_path).as_posix() for place, path in by_place(tmp_path).items()
    } == {(0, 0): "step0/rank", (2, 3): "step2/rank3"}


# ---- a column


def cell(outcome: str, status: str, **more: Any) -> table.Cell:
    usual = {"first": "", "beyond": True, "differs": True, "seconds": 0.1}
    return {"outcome": outcome, "status": status, **usual, **more}


def test_column_counts_what_is_asked_for() -> None:
    found = table.summary(
        {
            "a": cell("first", "differ", counts="yes"),
            "b": cell("named", "differ", counts="yes"),
            "c": cell("unexplained", "differ", counts="yes"),
            "d": cell("same", "agree", counts="small", beyond=False),
            "e": cell("clear", "rounding"),
            "f": cell("accused", "differ"),
        }
    )
    counts = [found[key] for key in ("faults", "asked", "first", "named", "no_culprit")]
    assert counts == [4, 3, 1, 2, 1]
    assert (found["healthy"], found["accused"], found["called_same"]) == (2, ["f"], [])


@pytest.mark.parametrize(
    ("one", "is_called_same"),
    [
        (cell("same", "rounding", counts="yes"), True),
        (cell("same", "agree", counts="small", beyond=False), False),
        (cell("same", "equal", counts="small", beyond=False), True),
        (cell("clear", "rounding"), False),
        (cell("clear", "equal"), True),
        (cell("clear", "equal", differs=False), False),
        (cell("unexplained", "differ", counts="yes"), False),
    ],
)
def test_worst_answer_is_that_nothing_differs(one: table.Cell, is_called_same: bool) -> None:
    assert table.summary({"a": one})["called_same"] == (["a"] if is_called_same else [])


def test_changes_of_two_tables_show_the_worse_ones_first() -> None:
    before = {
        "float32/quiet/md5/bare": {
            "a": cell("first", "differ"),
            "b": cell("accused", "differ"),
            "c": cell("clear", "agree"),
        }
    }
    after = {
        "float32/quiet/md5/bare": {
            "a": cell("other", "differ", counts="yes"),
            "b": cell("clear", "rounding"),
            "c": cell("clear", "rounding"),
        }
    }
    words = [line.split()[0] for line in table.changes(before, after)]
    assert words == ["worse", "other", "better"]
    assert table.changes(after, after) == []


def test_columns_are_chosen_by_pattern() -> None:
    assert len(table.wanted_columns(())) == 48
    assert table.wanted_columns(["bfloat16/*/md5/bare"]) == [
        "bfloat16/quiet/md5/bare",
        "bfloat16/noise/md5/bare",
    ]


# ---- recordings


def test_recordings_of_a_column() -> None:
    wanted = cases(["token"], ["bfloat16"], ["noise"])
    assert {case.mode for case in wanted} == {"golden", "noise", "noise2"}
    assert {case.precision for case in wanted} == {"bfloat16"}


def test_fingerprint_is_that_of_the_plant() -> None:
    one, same, other = (
        Case("quiet", name, "transformer", "mix", 1) for name in ("linear_L0", "linear_L1", "token")
    )
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)


def test_nothing_is_recorded_in_an_empty_folder(tmp_path: Path) -> None:
    assert not any(
        is_recorded(tmp_path, Case("quiet", "token", "transformer", "mix", 1), task) for task in TASKS
    )


# ---- a sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> table.Cells:
    out = tmp_path_factory.mktemp("table")
    results = out / "results.json"
    words = [str(out / "cache"), "-o", str(results), "--only", ",".join(SAMPLE)]
    assert table.main([*words, *(word for name in COLUMNS for word in ("--columns", name))]) == 0
    content = json.loads(results.read_text())
    assert content["not_recorded"] == {}
    cells: table.Cells = content["cells"]
    return cells


def columns_of(sample: table.Cells, precision: str) -> list[dict[str, Any]]:
    found = [table.summary(items) for name, items in sample.items() if name.startswith(precision)]
    assert len(found) == 2
    return found


def test_float32_is_judged_right(sample: table.Cells) -> None:
    for found in columns_of(sample, "float32"):
        assert found["asked"] == found["first"] == len(SAMPLE) - 1
        assert found["called_same"] == found["accused"] == found["failed"] == []


def test_bfloat16_is_judged_right(sample: table.Cells) -> None:
    for found in columns_of(sample, "bfloat16"):
        assert found["first"] == found["asked"]
        assert found["called_same"] == found["accused"] == found["failed"] == []


def test_what_rounding_hides_is_not_asked_for(sample: table.Cells) -> None:
    cell = sample["bfloat16/noise/statistics/diagnosis"]["layer_norm_eps"]
    assert cell["counts"] in ("small", "yes")
    assert sample["float32/quiet/statistics/diagnosis"]["layer_norm_eps"]["counts"] == "yes"
