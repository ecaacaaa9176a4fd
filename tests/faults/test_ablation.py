# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The ablation (ablation.py): what is a worse answer, and that another model of the verdict is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from ablation import OFF, Change, OfRuns, compared, mutants, page_of
from asking import by_place
from judging import Answer
from msprobe import _core

CULPRIT = {"kind": "weight", "name": "a.weight", "module": "a", "record": "", "operator": "", "step": 1}


def test_outcomes_are_worse_or_better_or_another_place() -> None:
    before = dict(a="first", b="other", c="clear", d="same", e="first", f="other")
    after = dict(a="named", b="first", c="accused", d="same", e="failed", f="other")
    answers = {
        name: {"": (outcome, "x"), "m": (after[name], "y" if name == "f" else "x")}
        for name, outcome in before.items()
    }
    change = compared({**answers, "g": {"": ("first", "x")}}, "m")
    assert change.asked == len(before)
    assert change.better == ["b: other -> first"]
    assert change.worse == ["a: first -> named", "c: clear -> accused", "e: first -> failed"]
    assert change.other == ["f"]


def test_each_number_is_multiplied_divided_and_switched_off_and_each_rule_is_off() -> None:
    assert mutants({"own": 5.0, "opaque": 3.0}, ["kink"], [2.0]) == {
        "own x 2": {"own": 10.0},
        "own / 2": {"own": 2.5},
        "opaque x 2": {"opaque": 6.0},
        "opaque / 2": {"opaque": 1.5},
        "opaque off": {"opaque": 1},
        "kink off": {"kink": 0},
    }


def test_numbers_and_rules_are_those_of_the_verdict() -> None:
    assert set(OFF) <= {name for name, _, _ in _core.verdict_numbers()}
    assert "kink" in dict(_core.verdict_switches())
    with pytest.raises(ValueError, match="nothing"):
        _core.judge([], model={"nothing": 1.0})


@pytest.mark.parametrize(
    ("place", "step", "status", "culprits", "outcome"),
    [
        ("a.weight", 1, "differ", (CULPRIT,), "first"),
        ("a.weight", 0, "differ", (CULPRIT,), "other"),
        ("b", 1, "differ", (CULPRIT, {**CULPRIT, "name": "b"}), "named"),
        ("b", 1, "differ", (), "unexplained"),
        ("b", 1, "rounding", (), "same"),
        ("", 1, "rounding", (), "clear"),
        ("", 1, "differ", (CULPRIT,), "accused"),
    ],
)
def test_outcome_of_runs(
    place: str, step: int, status: str, culprits: tuple[dict[str, object], ...], outcome: str
) -> None:
    assert OfRuns(place, (step,))(Answer(status, culprits)) == outcome


def test_page_shows_what_each_decides() -> None:
    changes = {
        "own x 2": Change(2, ["plants/a: first -> same"], [], []),
        "sum x 2": Change(2, [], [], []),
        "kink off": Change(1, [], [], ["plants/b"]),
    }
    page = page_of({"own": 5.0, "sum": 0.5}, {"kink": "it jumps"}, changes, ["plants/a", "plants/b"])
    assert "| `own` 5 x 2 | 2 | 1 | 0 | 0 | plants/a: first -> same |" in page
    assert "Not noticed by any question: sum x 2." in page
    assert "| `kink` | it jumps | 1 | 0 | 0 | 1 | plants/b |" in page
    assert "2 planted faults and healthy runs (a, b)." in page


def test_a_packed_step_is_asked_about_and_a_folder_without_a_dump_is_no_question(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no dump"):
        by_place(tmp_path)
    packed = tmp_path / "step1" / "rank0"
    packed.mkdir(parents=True)
    (packed / "step.zip").touch()
    assert by_place(tmp_path) == {(1, 0): packed / "dump.json"}
