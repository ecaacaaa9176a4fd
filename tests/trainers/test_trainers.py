# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Each row of the table, where its trainer is installed; see README.md."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rows import ROWS, Row
from run import diagnose, is_installed, run

pytestmark = pytest.mark.skipif(
    "trainers" not in os.environ.get("MSPROBE_TEST_SLOW", "").split(),
    reason="real trainers: MSPROBE_TEST_SLOW=trainers",
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_trainer_is_recorded_and_stays_the_same(row: Row, tmp_path: Path) -> None:
    if not is_installed(row):
        pytest.skip(f"{row.packages[0]} is not installed")
    plain, recorded, again = run(row, ""), run(row, "", tmp_path / "a"), run(row, "", tmp_path / "b")
    assert plain.code == 0, plain.tail
    assert recorded.numbers == plain.numbers
    assert again.numbers == plain.numbers
    assert (tmp_path / "a" / "dump").is_dir()
    answer = diagnose(tmp_path / "a", tmp_path / "b", tmp_path / "answer")
    assert answer["code"] == 0, answer["sentence"]
