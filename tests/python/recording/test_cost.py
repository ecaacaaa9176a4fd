# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a step costs, told before the second one."""

from __future__ import annotations

import pytest
from msprobe.recording.cost import Cost, cost_of, size_text


@pytest.mark.parametrize(("rank", "folder"), [(0, "rank"), (0, "rank0"), (3, "rank3")])
def test_a_run_with_one_step(tmp_path, rank, folder):
    for name in ("dump.json", "stack.json"):
        (tmp_path / "dump/step0" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "dump/step0" / folder / name).write_bytes(bytes(1000))
    (tmp_path / "dump/step1" / folder).mkdir(parents=True)
    (tmp_path / "dump/step1" / folder / "trace.msprobe").write_bytes(bytes(9))  # of the step that begins
    (tmp_path / "dump/step0/rank7").mkdir()
    (tmp_path / "dump/step0/rank7/dump.json").write_bytes(bytes(9))
    (tmp_path / f"grad_probe/rank{rank}").mkdir(parents=True)
    (tmp_path / f"grad_probe/rank{rank}/gradients.msprobe").write_bytes(bytes(500))
    for name in (f"run.rank{rank}.json", f"losses.rank{rank}.csv", "config_check.zip"):
        (tmp_path / name).write_bytes(b"x")
    assert cost_of(tmp_path, rank, 0, 1) == Cost(files_of_step=2, bytes_of_step=2500, files_of_run=3)
    assert cost_of(tmp_path, rank, 0, 8).files_of_run == 2  # losses are in one file of all


def test_the_sentence_is_of_all_processes():
    cost = Cost(files_of_step=1, bytes_of_step=1_300_000, files_of_run=2)
    assert cost.sentence(3, 1024) == (
        "a recorded step is 1 file, 1.3 MB per process; 3 steps of 1024 processes: 5,120 files, 4.0 GB"
    )
    assert cost.sentence(0, 8) == "a recorded step is 1 file, 1.3 MB per process, 8 files in 8 processes"
    assert Cost(1, 10, 0).sentence(1, 1).endswith("; 1 step of 1 process: 1 file, 10 bytes")


def test_sizes():
    assert [size_text(size) for size in (0, 999, 1500, 25e9)] == ["0 bytes", "999 bytes", "1.5 KB", "25 GB"]
