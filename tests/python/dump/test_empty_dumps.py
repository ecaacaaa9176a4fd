# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is said when a dump is empty, or nothing is recorded at all; and where a relative folder is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, debugger, log_of, run, run_ranks


def words(directory: Path, keys: dict[str, Any], steps: int = 2) -> list[str]:
    """The warnings of a training."""

    def train() -> None:
        import torch
        from msprobe import PrecisionDebugger

        probe = debugger(directory, **{"level": "L1", **keys})
        for _ in range(steps):
            probe.start()
            torch.relu(torch.ones(2))
            probe.stop()
            probe.step()
        PrecisionDebugger._reset()

    return log_of(train)


SCOPE = ["Torch.tanh.0.forward", "Torch.tanh.1.forward"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"rank": [0]}, "nothing is recorded: rank 0 is wanted, and this process has no rank"),
        ({"step": [5, 7]}, "nothing was recorded: step 5, 7 is wanted, and the steps were 0 to 1"),
        (
            {"section": {"scope": SCOPE}},
            f'step 0: the dump is empty. "scope": nothing was called from {SCOPE[0]}',
        ),
        ({"section": {"list": ["tanh"]}}, 'step 0: the dump is empty. "list": no name holds tanh'),
        (
            {"section": {"data_mode": ["backward"]}},
            'the dump of the last recorded step is empty: "data_mode" asks for gradients alone',
        ),
    ],
)  # fmt: skip
def test_an_empty_dump_is_told_once(tmp_path, keys, said):
    lines = run(words, tmp_path, keys)
    assert len(lines) == 1, lines
    assert lines[0].startswith(said)


def words_of_a_bare_layer(directory: Path) -> list[str]:
    def train() -> None:
        import torch
        from msprobe import PrecisionDebugger

        probe = debugger(directory, level="L0")
        layer = torch.nn.Linear(2, 2)
        probe.start(layer)
        layer(torch.ones(2))
        probe.stop()
        probe.step()
        PrecisionDebugger._reset()

    return log_of(train)


def test_a_model_without_modules_inside_is_told(tmp_path):
    (line,) = run(words_of_a_bare_layer, tmp_path)
    assert line.startswith("the dump of the last recorded step is empty: level L0 records the modules inside")


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"step": [1]},
        {"step": [0, 99]},
        {"section": {"list": ["relu"]}},
        {"section": {"list": ["tanh"], "json": "deferred"}},
        {"task": "overflow_check", "section": {"list": ["tanh"]}},
    ],
)
def test_nothing_is_said_of_a_dump_with_records(tmp_path, keys):
    assert run(words, tmp_path, keys) == []


def words_of_rank(directory: Path, keys: dict[str, Any]) -> list[str]:
    from torch import distributed

    distributed.init_process_group("gloo")
    folder = directory / str(distributed.get_rank())
    folder.mkdir()
    lines = words(folder, keys, steps=1)
    distributed.destroy_process_group()
    return lines


def test_a_rank_that_no_process_has(tmp_path):
    (tmp_path / "a").mkdir()
    assert run_ranks(words_of_rank, tmp_path / "a", {"rank": [2, 9]}) == [
        ["nothing is recorded: rank 2, 9 is wanted, and the ranks are 0 to 1"],
        [],
    ]
    (tmp_path / "b").mkdir()
    assert run_ranks(words_of_rank, tmp_path / "b", {"rank": [1]}) == [[], []]


def wander(directory: Path) -> None:
    import torch

    os.chdir(directory)
    probe = debugger(directory, level="L1", dump_path="dump")
    for _ in range(2):
        probe.start()
        torch.relu(torch.ones(2))
        probe.stop()
        probe.step()
        (directory / "elsewhere").mkdir(exist_ok=True)
        os.chdir(directory / "elsewhere")


def test_a_relative_folder_stays_where_it_is(tmp_path):
    run(wander, tmp_path)
    for step in (0, 1):
        assert Dump(tmp_path, step).check().names == ["Torch.relu.0.forward"]
    assert list((tmp_path / "elsewhere").iterdir()) == []
