# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Along which axes ranks lie, by the process groups of a rank or by layout.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msprobe.layout.axes import axes_of
from written_jobs import ddp, state, write_job

if TYPE_CHECKING:
    from pathlib import Path


def job(folder: Path, ranks: int, groups: Any, names: Any = None, **more: Any) -> Path:
    first = state(0, weights={}, ranks=ranks, **more)
    first["layout"] = {**first["layout"], "groups": groups, "group_names": names}
    return write_job(folder / "dump", [[first]])


WORLD = [*range(16)]


@pytest.mark.parametrize(
    ("groups", "names", "axes"),
    [
        # Of Megatron-core: the world, tensor, data, pipeline, and two that span several axes.
        (
            [WORLD, [0, 1], [0, 2, 4, 6], [0, 8], [0, 1, 8, 9], [*range(8)]],
            [
                "",
                "TENSOR_MODEL_PARALLEL_GROUP",
                "DATA_PARALLEL_GROUP",
                "mesh_pp",
                "MODEL_GROUP",
                "x",
            ],
            [("tensor model parallel", 2), ("data parallel", 4), ("pp", 2)],
        ),
        # Of another rank than the first.
        ([WORLD, [4, 5], [1, 5, 9, 13]], ["", "mesh_tp", ""], [("tp", 2), ("", 8)]),
        ([WORLD, [0, 4, 8, 12], [*range(4)]], None, [("", 4), ("", 4)]),
        ([WORLD], None, [("", 16)]),
        ([WORLD, [0, 1, 2, 3, 4]], None, []),  # no part of 16
        ([[0, 4, 8, 12]], None, []),  # what is between is not known
        ([], [], []),
        ("x", 7, []),
        ([["x"], 3, [True]], ["", "", ""], []),
    ],
)
def test_axes_by_the_process_groups(tmp_path: Path, groups: Any, names: Any, axes: Any) -> None:
    assert axes_of(job(tmp_path, 16, groups, names)) == axes


def test_copies_are_data_parallel(tmp_path: Path) -> None:
    assert axes_of(job(tmp_path, 4, [[0, 1, 2, 3]], copies=ddp(4))) == [("data parallel", 4)]


def test_what_the_user_wrote_counts_first(tmp_path: Path) -> None:
    dump = job(tmp_path, 8, [[*range(8)]])
    written = tmp_path / "layout.yaml"
    written.write_text("ranks: {pp: 2, dp: 2, tp: 2}\nparameters: {}\n")
    assert axes_of(dump) == [("tp", 2), ("dp", 2), ("pp", 2)]
    written.write_text("ranks: {dp: 3}\nparameters: {}\n")  # of another job
    assert axes_of(dump) == [("", 8)]
    written.write_text("ranks: [")
    assert axes_of(dump) == []


def test_what_is_no_dump_has_none(tmp_path: Path) -> None:
    assert axes_of(tmp_path) == axes_of(tmp_path / "absent") == []
