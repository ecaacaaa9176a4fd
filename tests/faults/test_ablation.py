# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The ablation (ablation.py): what is a worse answer, and that a number of the error model can be another one
in one process, and is the old one afterwards.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ablation import OFF, Question, answers, by_step, compared, mutants, page_of
from msprobe import _core

needs_numbers = pytest.mark.skipif(
    not hasattr(_core, "verdict_numbers"), reason="this msprobe does not give its numbers"
)


def test_outcomes_are_worse_or_better() -> None:
    before = {"a": "first", "b": "other", "c": "clear", "d": "same", "e": "first"}
    after = {"a": "named", "b": "first", "c": "accused", "d": "same", "e": "failed"}
    found = compared(before, after)
    assert found["better"] == ["b: other -> first"]
    assert found["worse"] == ["a: first -> named", "c: clear -> accused", "e: first -> failed"]


def test_each_number_is_multiplied_divided_and_switched_off() -> None:
    found = mutants({"own": 5.0, "opaque": 3.0}, [2.0])
    assert found == {
        "own x 2": ("own", 10.0),
        "own / 2": ("own", 2.5),
        "opaque x 2": ("opaque", 6.0),
        "opaque / 2": ("opaque", 1.5),
        "opaque off": ("opaque", 1),
    }


@needs_numbers
def test_numbers_are_those_of_the_verdict() -> None:
    names = {name for name, _, _ in _core.verdict_numbers()}
    assert set(OFF) <= names
    with pytest.raises(ValueError, match="nothing"):
        _core.set_verdict_number("nothing", 1.0)


def _own() -> str:
    return f"{next(value for name, value, _ in _core.verdict_numbers() if name == 'own'):g}"


def test_what_failed_is_asked_again(tmp_path: Path) -> None:
    assert answers(tmp_path, [Question("a", lambda folder: "failed")], 1) == {"a": "failed"}
    assert answers(tmp_path, [Question("a", lambda folder: "first")], 1) == {"a": "first"}
    assert answers(tmp_path, [Question("a", lambda folder: "same")], 1) == {"a": "first"}


@needs_numbers
def test_another_number_counts_in_this_process_and_those_forked_from_it(tmp_path: Path) -> None:
    question = Question("own", lambda folder: _own())
    own = float(_own())
    _core.set_verdict_number("own", 2 * own)
    try:
        assert answers(tmp_path / "changed", [question], 1) == {"own": f"{2 * own:g}"}
    finally:
        _core.set_verdict_number("own", own)
    assert answers(tmp_path / "unchanged", [question], 1) == {"own": f"{own:g}"}
    assert answers(tmp_path / "changed", [question], 1) == {"own": f"{2 * own:g}"}  # as it was answered


def test_numbers_that_nothing_notices_are_named() -> None:
    results = {
        "own x 2": {"worse": ["a: first -> same"], "better": []},
        "sum x 2": {"worse": [], "better": []},
    }
    page = page_of({"own": 5.0, "sum": 0.5}, results, 7, "abc")
    assert "| own | 5 | x 2 | 1 | 0 | a: first -> same |" in page
    assert page.endswith("Not noticed by any question: `sum`.\n")


def test_dumps_are_found_by_step_and_rank(tmp_path: Path) -> None:
    for place in ("step0/rank", "step2/rank3"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "dump.json").touch()
    folders = {
        place: path.parent.relative_to(tmp_path).as_posix() for place, path in by_step(tmp_path).items()
    }
    assert folders == {(0, 0): "step0/rank", (2, 3): "step2/rank3"}
