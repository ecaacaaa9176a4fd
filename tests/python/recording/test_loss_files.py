# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Losses of several processes: a file of its own while each runs, one of all at the end; both are read."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pytest
from msprobe.diagnose.losses import read_ranks
from msprobe.files.loss_files import JOINED, losses_of, own_file
from msprobe.recording.losses import LossFile, finish_losses

if TYPE_CHECKING:
    from pathlib import Path


def record(folder: Path, rank: int, losses: list[float]) -> None:
    file = LossFile(folder / own_file(rank))
    for step, loss in enumerate(losses):
        file.add(step, [loss])
    file.close()


def test_processes_that_end_at_the_same_time_are_joined(tmp_path: Path) -> None:
    children = []
    for rank in range(8):
        child = os.fork()
        if child == 0:
            record(tmp_path, rank, [rank + 0.1] * 200)
            os._exit(finish_losses(tmp_path, rank, 8) != JOINED)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert [path.name for path in tmp_path.iterdir()] == [JOINED]
    found = read_ranks([tmp_path / JOINED])
    assert found == {rank: dict.fromkeys(range(200), rank + 0.1) for rank in range(8)}


def test_what_a_killed_process_left_is_read_beside_the_others(tmp_path: Path) -> None:
    record(tmp_path, 1, [1.0, math.nan])
    finish_losses(tmp_path, 1, 3)
    with (tmp_path / JOINED).open("a") as file:
        file.write("2,0,0.1,1\n2,1,0.")  # killed while it joined
    record(tmp_path, 2, [0.1, 0.25])
    record(tmp_path, 0, [2.0])
    finish_losses(tmp_path, 0, 3)
    assert losses_of(tmp_path) == {0: {0: "2.0"}, 1: {0: "1.0", 1: "nan"}, 2: {0: "0.1", 1: "0.25"}}
    assert sorted(path.name for path in tmp_path.iterdir()) == [own_file(2), JOINED]


def test_a_process_alone_keeps_its_file(tmp_path: Path) -> None:
    record(tmp_path, 0, [1.0])
    assert finish_losses(tmp_path, 0, 1) == own_file(0)
    assert (tmp_path / own_file(0)).read_text() == "step,loss,backward_calls\n0,1.0,1\n"


def test_where_the_file_of_all_cannot_be_written_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / JOINED).mkdir()
    record(tmp_path, 3, [1.0])
    assert finish_losses(tmp_path, 3, 4) == own_file(3)
    assert read_ranks([tmp_path / own_file(3)]) == {3: {0: 1.0}}


@pytest.mark.parametrize(
    "line", ["", ",,,", "x,0,1.0,1", "-1,0,1.0,1", "0,0,1.0", "9" * 30 + ",0,1.0,1", "\0"]
)
def test_a_line_that_is_none_is_passed_by(tmp_path: Path, line: str) -> None:
    (tmp_path / JOINED).write_text(f"rank,step,loss,backward_calls\n{line}\n5,1,0.5,1\n")
    assert read_ranks([tmp_path / JOINED]) == {5: {1: 0.5}}
