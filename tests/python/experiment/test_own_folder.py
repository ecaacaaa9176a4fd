# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The working directory of a run: all of the user's is seen in it, and nothing of it is changed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from msprobe.experiment.command_line import command_of, parse_command
from msprobe.experiment.own_folder import mirrored
from msprobe.native import InvalidArgument

WRITES = """
import os, sqlite3, sys
from msprobe.experiment.own_folder import copy_before_writing
sys.addaudithook(copy_before_writing(sys.argv[1]))
assert open("data/rows.txt").read() == "rows"
assert os.path.islink("data/rows.txt")
open("data/rows.txt", "a").write(" and more")
open("data/new.txt", "w").write("new")
open("../beside.txt", "w").write("changed")
os.remove("gone.txt")
with sqlite3.connect("base.db") as base:
    base.execute("create table t (x)")
"""


@pytest.fixture
def folder(tmp_path):
    project = tmp_path / "home/project"
    (project / "data").mkdir(parents=True)
    (project / "data/rows.txt").write_text("rows")
    (project / "gone.txt").write_text("here")
    (project / "base.db").write_bytes(b"")
    (project / "out").mkdir()
    (tmp_path / "home/beside.txt").write_text("beside")
    return project


def test_what_is_written_stays_with_the_run(folder, tmp_path):
    run = folder / "out/run_1"
    work = mirrored(folder, run / "work", folder / "out")
    assert sorted(os.listdir(work)) == ["base.db", "data", "gone.txt"]  # the results are left out
    subprocess.run([sys.executable, "-c", WRITES, str(run)], cwd=work, check=True)
    assert (work / "data/rows.txt").read_text() == "rows and more"
    assert (work / "data/new.txt").read_text() == "new"
    assert (work / "base.db").stat().st_size > 0
    assert (folder / "data/rows.txt").read_text() == "rows"
    assert sorted(os.listdir(folder / "data")) == ["rows.txt"]
    assert (folder / "gone.txt").exists()
    assert (folder / "base.db").stat().st_size == 0
    assert (tmp_path / "home/beside.txt").read_text() == "beside"


def test_a_command_is_words_and_variables(tmp_path):
    command = parse_command("A=1 python train.py --out {run}/x", tmp_path)
    assert command.environment == {"A": "1"}
    assert command.placed(run="/r").words == ("python", "train.py", "--out", "/r/x")
    assert command.said == "A=1 python train.py --out '{run}/x'"


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "expected a command"), (["no.py"], "no.py does not exist"), (["no_such_program"], "there is none")],
)
def test_a_command_that_is_none(tmp_path, words, said):
    with pytest.raises(InvalidArgument, match=said):
        command_of(words, tmp_path)
