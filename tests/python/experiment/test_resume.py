# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe resume: what a plain loop does not restore is named and proved."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import planted_resumes as planted
import planted_sources
import pytest
from msprobe import cli

SCRIPT = str(Path(planted.__file__))
ALL = "experiments" in os.environ.get("MSPROBE_TEST_SLOW", "")
START = f"{shlex.quote(sys.executable)} {shlex.quote(SCRIPT)}"


@pytest.fixture
def resume(tmp_path, monkeypatch, capsys):
    """resume(kind, *options) -> exit code, resume.json, what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def call(kind, *options, at=4):
        code = cli.main(["resume", "-o", "out", "--at", str(at), *options, f"{START} {kind}"])
        said = capsys.readouterr()
        file = tmp_path / "out/resume.json"
        return code, json.loads(file.read_text()) if file.exists() else {}, said.out + said.err

    return call


@pytest.mark.parametrize("kind", [kind for kind in planted.KINDS if ALL or kind == "no_generator"])
def test_what_is_not_restored_is_named_and_proved(resume, kind):
    code, answer, said = resume(kind)
    assert (code, answer["begins_at"]) == (1, 4 if kind not in ("no_buffers", "half_weights") else None), said
    assert tuple(answer["missing"]) == tuple(one for one in _ORDER if one in planted.KINDS[kind])
    assert "proved: with" in said


_ORDER = ("weights", "random", "inputs", "optimizer")


@pytest.mark.parametrize("at", [4, 5] if ALL else [5])
def test_a_resume_that_restores_all_goes_on(resume, tmp_path, at):
    """At step 5 the last file is that of step 4."""
    options = ["--resume", f"{START} whole --from {{checkpoint}}"]
    code, answer, said = resume("whole", *options, at=at)
    assert (code, answer["begins_at"]) == (0, 4), said
    assert answer["checkpoint"] == planted.FILE
    assert not (tmp_path / planted.FILE).exists()  # in the folders of the runs alone


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_a_resume_that_ignores_the_checkpoint(resume):
    code, answer, said = resume("ignores")
    assert (code, answer["ignored"]) == (1, True)
    assert "ignores the checkpoint" in said


def test_a_training_that_does_not_repeat_itself_is_not_judged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = shlex.quote(str(Path(planted_sources.__file__)))
    command = f"{shlex.quote(sys.executable)} {script} time_seed"
    assert cli.main(["resume", "--quiet", "--at", "2", command]) == 2
    said = capsys.readouterr().err
    assert "expected a training that repeats itself to the bit" in said
    assert "diverge at step 0: initial weights" in said


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_a_run_that_saved_nothing(resume):
    code, _, said = resume("whole", "--quiet", "--resume", f"{START} whole --from {{checkpoint}}", at=1)
    assert code == 2
    assert "saved nothing before step 1" in said
