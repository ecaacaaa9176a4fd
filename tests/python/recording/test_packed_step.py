# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A step of msprobe run is one file, which every command reads as the files of mindstudio-probe."""

from __future__ import annotations

import json
import shutil

import pytest
from msprobe import cli
from msprobe.files.regular_file import is_there, open_text, read_text
from msprobe.native import core
from recording_support import BEGINNING, python

FILES = ["construct.json", "diagnosis.json", "dump.json", "stack.json", "summary.json"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """packed: as it is by default. plain: the same with a file for each. exported: made of the first."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(BEGINNING + "train(2)\n")
    (folder / "plain.json").write_text('{"task": "statistics", "statistics": {"json": "at_stop"}}')
    for name, words in (("packed", ()), ("plain", ("-c", "plain.json"))):
        command = ("-m", "msprobe", "run", *words, "-o", name, "train.py")
        assert python(*command, cwd=folder).returncode == 0
    assert cli.main(["export", "--quiet", str(folder / "packed"), "-o", str(folder / "exported")]) == 0
    return folder


def test_a_step_is_one_file(runs):
    for step in (0, 1):
        folder = runs / f"packed/dump/step{step}/rank"
        assert [path.name for path in folder.iterdir()] == ["step.zip"]


def test_its_files_are_those_without_it(runs):
    for step in (0, 1):
        packed, plain = (runs / run / f"dump/step{step}/rank" for run in ("packed", "plain"))
        assert sorted(path.name for path in plain.iterdir()) == FILES
        for name in ("construct.json", "dump.json", "stack.json"):
            assert read_text(packed / name) == (plain / name).read_text(), name
        states = [json.loads(read_text(folder / "diagnosis.json")) for folder in (packed, plain)]
        for state in states:
            state.pop("rng")  # nobody has set the seeds of Python and NumPy
        assert states[0] == states[1]
        kept, other = (json.loads(read_text(folder / "summary.json")) for folder in (packed, plain))
        assert {**kept, "wall_time_s": 0} == {**other, "wall_time_s": 0}


def test_export_writes_them(runs):
    for step in (0, 1):
        made = runs / f"exported/dump/step{step}/rank"
        assert sorted(path.name for path in made.iterdir()) == FILES
        for name in FILES:
            assert (made / name).read_text() == read_text(runs / f"packed/dump/step{step}/rank" / name)


@pytest.mark.parametrize("target", ["plain/dump", "exported/dump"])
def test_both_forms_are_compared(runs, tmp_path, target):
    assert cli.main(["compare", str(runs / "packed"), str(runs / target), "-o", str(tmp_path / "out")]) == 0


def test_every_command_takes_it(runs, tmp_path, capsys):
    step = runs / "packed/dump/step1"
    dump = str(step / "rank/dump.json")  # which is not on the disk
    assert cli.main(["compare", dump, dump, "-o", str(tmp_path / "compare")]) == 0
    assert cli.main(["graph", str(step / "rank"), "-o", str(tmp_path / "graph")]) == 0
    assert cli.main(["nan_analyze", str(runs / "packed"), "-o", str(tmp_path / "nan")]) == 0
    for name in ("dump.json", "stack.json", "construct.json", "diagnosis.json"):
        assert cli.main(["show", str(step / "rank" / name)]) == 0
    assert "Module.0.Linear.forward.0" in capsys.readouterr().out
    with open_text(dump) as file:
        assert file.read() == read_text(dump)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more"])
def test_one_that_is_no_archive(runs, tmp_path, capsys, content):
    run = shutil.copytree(runs / "packed", tmp_path / "run")
    path = run / "dump/step0/rank/step.zip"
    path.write_bytes(content)
    assert is_there(path.with_name("dump.json"))
    with pytest.raises(OSError, match=r"step\.zip: byte \d+: expected the end record"):
        read_text(path.with_name("dump.json"))
    assert cli.main(["compare", str(runs / "packed"), str(run), "-o", str(tmp_path / "out")]) == 1
    assert "step 0" in capsys.readouterr().out
    assert cli.main(["export", str(run), "-o", str(tmp_path / "made")]) == 2
    assert "step.zip" in capsys.readouterr().err
    assert (tmp_path / "made/dump/step1/rank/dump.json").exists()


def test_a_log_of_events_where_it_is_asked_for(tmp_path):
    (tmp_path / "train.py").write_text(BEGINNING + "train(1)\n")
    (tmp_path / "config.json").write_text('{"statistics": {"json": "deferred"}}')
    command = ("-m", "msprobe", "run", "-c", "config.json", "-o", "a", "train.py")
    assert python(*command, cwd=tmp_path).returncode == 0
    names = sorted(path.name for path in (tmp_path / "a/dump/step0/rank").iterdir())
    assert names == ["diagnosis.json", "summary.json", "trace.msprobe"]
    assert core.read_packed(tmp_path / "a/dump/step0/rank/dump.json") is None
