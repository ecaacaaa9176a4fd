# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The held-out sets are whole: every line that a case changes is in its script. Their answers are asked once,
by hand (unseen/held_out.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "unseen"))

from case import Case
from cases import CASES, SETS
from recording import folder_of, is_recorded, numbers_of, runs_of


@pytest.mark.parametrize("cases", SETS.values(), ids=SETS)
def test_there_are_forty_of_each(cases: tuple[Case, ...]) -> None:
    assert [sum(case.is_healthy == kind for case in cases) for kind in (False, True)] == [40, 40]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_scripts_of_a_case_are_programs(case: Case) -> None:
    reference, target = runs_of(case)
    for run in (reference, target):
        compile(run.text, run.script, "exec")
    assert reference != target or case.name.endswith(".again")


def test_what_a_script_prints_is_read() -> None:
    log = "step 0 loss 1.5\nnoise\nrank 1 step 2 loss 2e-05 3\nrank 0 weights 4.25\n"
    assert numbers_of(log) == {"step 0": [1.5], "rank 1 step 2": [2e-05, 3.0], "rank 0 weights": [4.25]}


def test_a_run_of_which_nothing_was_recorded_is_not_asked_about(tmp_path: Path) -> None:
    run = runs_of(CASES[0])[0]
    folder_of(tmp_path, run).mkdir(parents=True)
    content = {"outcome": "ended", "asked": {"parts": ["dump"]}}
    found = []
    for recorded in ({}, {"dump": "dump"}):
        text = json.dumps({**content, "recorded": recorded})
        (folder_of(tmp_path, run) / "run.rank0.json").write_text(text, encoding="utf-8")
        found.append(is_recorded(tmp_path, run))
    assert found == [False, True]
