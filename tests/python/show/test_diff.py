# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe diff: two tensors, two files of a kind, exit codes."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msprobe.cli import main


def diff(*arguments: object) -> int:
    try:
        return main(["diff", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    a = np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)
    b = a.copy()
    b[3, 4] += 1
    b[10, 0] = np.nan
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    return tmp_path / "a.npy", tmp_path / "b.npy"


def test_two_arrays(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(*pair) == 1
    text = capsys.readouterr().out
    assert "first difference at [3, 4]" in text
    assert "the first of 2 elements that are not close:" in text
    assert "[10, 0]" in text
    assert diff(*pair, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["not_close"]) == (False, 2)
    a, b = (np.load(path) for path in pair)
    wanted = np.argwhere(~np.isclose(a, b, rtol=0.001, atol=0.001)).tolist()
    assert [list(np.unravel_index(row[0], a.shape)) for row in found["first_not_close"]] == wanted


def test_equal_ones(pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(pair[1], pair[1]) == 0  # with a NaN in it
    torch.save(torch.from_numpy(np.load(pair[0])), tmp_path / "a.pt")
    assert diff(pair[0], tmp_path / "a.pt") == 0
    capsys.readouterr()


def test_other_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros((3, 1)))
    assert diff(tmp_path / "a.npy", tmp_path / "b.npy") == 1
    assert "the shapes differ" in capsys.readouterr().out


def test_entries_of_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"w": torch.zeros(3), "only": torch.ones(1), "same": torch.ones(2)}, tmp_path / "a.pt")
    torch.save(
        {"w": torch.tensor([0, 0.5, 0]), "new": torch.ones(1), "same": torch.ones(2)}, tmp_path / "b.pt"
    )
    both = (tmp_path / "a.pt", tmp_path / "b.pt")
    assert diff(*both) == 1
    text = capsys.readouterr().out
    assert "3 of 4 entries differ" in text
    assert "only in the reference: only" in text
    assert "only in the target: new" in text
    assert "w: 1 of 3 elements differ, largest absolute error 0.5" in text
    assert diff(*both, "same") == 0
    assert diff(*both, "w") == 1
    assert diff(*both, "only", "new") == 0
    assert diff(*both, "only") == 2
    assert "there is no only" in capsys.readouterr().err


def test_a_tensor_of_a_file_next_to_one_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"w": torch.arange(3.0)}, tmp_path / "a.pt")
    np.save(tmp_path / "b.npy", np.arange(3, dtype=np.float32))
    assert diff(tmp_path / "a.pt", tmp_path / "b.npy", "w") == 0
    assert diff(tmp_path / "a.pt", tmp_path / "b.npy") == 2
    assert "expected the NAME of one" in capsys.readouterr().err


def test_records_of_two_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(name: str, mean: float) -> Path:
        item = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1, "Min": 1,
                "Mean": mean, "Norm": 1, "requires_grad": False}  # fmt: skip
        records = {f"Torch.add.{i}.forward": {"input_args": [item], "input_kwargs": {}, "output": []}
                   for i in range(2)}  # fmt: skip
        folder = tmp_path / name
        folder.mkdir()
        (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "data": records}))
        return folder

    a, b, c = write("a", 1), write("b", 2), write("c", 1)
    assert diff(a, b) == 1
    text = capsys.readouterr().out
    assert "2 of 2 entries differ" in text
    assert "mean 1" in text
    assert "mean 2" in text
    assert "msprobe compare REFERENCE TARGET says more" in text
    assert diff(a, c) == 0
    assert diff(a, b, "Torch.add.0.forward") == 1


def test_packs_and_databases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", "1"), ("b", "2")):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as pack:
            pack.writestr("env", json.dumps({"A": value}))
        database = sqlite3.connect(tmp_path / f"{name}.db")
        database.execute("CREATE TABLE t (x)")
        database.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(100)] + [(value,)])
        database.commit()
        database.close()
    assert diff(tmp_path / "a.zip", tmp_path / "b.zip") == 1
    assert diff(tmp_path / "a.zip", tmp_path / "a.zip") == 0
    capsys.readouterr()
    assert diff(tmp_path / "a.db", tmp_path / "b.db") == 1
    assert "t: 1 of 101 rows differ, first row 100" in capsys.readouterr().out
    assert diff(tmp_path / "a.db", tmp_path / "a.zip") == 2
    assert "expected two of a kind" in capsys.readouterr().err


def test_key_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        folder = tmp_path / name / "data/x/step0/rank0/micro_step0"
        folder.mkdir(parents=True)
        np.save(folder / "x.npy", np.full(2, value))
    assert diff(tmp_path / "a", tmp_path / "b") == 0
    assert diff(tmp_path / "a", tmp_path / "c") == 1
    assert "x: 1 of 1 arrays differ" in capsys.readouterr().out


@pytest.mark.parametrize("option", [("--rtol", "-1"), ("--atol", "x"), ("--most", "-3")])
def test_wrong_options(pair: tuple[Path, Path], option: Any) -> None:
    assert diff(*pair, *option) == 2


def test_what_is_equal_is_not_said_of_steps_that_were_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run, last in (("a", 1.0), ("b", 2.0)):
        for step, value in enumerate((0.0, last)):
            place = tmp_path / run / f"step{step}" / "rank"
            place.mkdir(parents=True)
            item = {"type": "float", "value": value}
            data = {"Functional.add.0.forward": {"input_args": [item], "input_kwargs": {}, "output": [item]}}
            dump = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": data}
            (place / "dump.json").write_text(json.dumps(dump))
    runs = (tmp_path / "a", tmp_path / "b")
    assert diff(*runs) == 0
    said = capsys.readouterr().out
    assert f"not compared: 1 dump of other steps or ranks in {tmp_path / 'a'}" in said
    assert diff(*runs, "--step", 1) == 1
    assert "not compared" not in capsys.readouterr().out
