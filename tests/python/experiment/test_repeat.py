# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe repeat: trainings that repeat themselves, and planted ones that do not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import planted_sources as planted
import pytest
from msprobe import cli
from msprobe.experiment.narrowing import needed_of

SCRIPT = str(Path(planted.__file__))
ALL = "experiments" in os.environ.get("MSPROBE_TEST_SLOW", "")
ALWAYS = ("time_seed",)


@pytest.fixture
def repeat(tmp_path, monkeypatch, capsys):
    """repeat(kind, *options) -> exit code, repeat.json, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def call(kind, *options, script=SCRIPT):
        code = cli.main(["repeat", "-o", "out", *options, script, kind])
        said = capsys.readouterr()
        file = tmp_path / "out/repeat.json"
        return code, json.loads(file.read_text()) if file.exists() else {}, said.out + said.err

    return call


@pytest.mark.parametrize("kind", [kind for kind in planted.KINDS if ALL or kind in ALWAYS])
def test_a_planted_source_is_named_and_proved(repeat, kind):
    code, answer, said = repeat(kind)
    assert code == 1, said
    assert not answer["repeats"]
    assert [one["change"]["name"] for one in answer["proved"]] == [planted.KINDS[kind]]
    assert "proved: with" in said


@pytest.mark.parametrize("kind", [kind for kind in planted.HEALTHY if ALL or kind == "logs_time"])
def test_a_training_that_repeats_itself(repeat, tmp_path, kind):
    code, answer, said = repeat(kind)
    assert (code, answer["repeats"], answer["runs"]) == (0, True, 2), said
    assert answer["steps"] == 6
    assert "equal to the bit in 6 steps" in said
    code, _, said = repeat(kind)
    assert code == 2
    assert "--force" in said


def test_a_script_that_fails_is_told_in_one_sentence(repeat, tmp_path):
    (tmp_path / "wrong.py").write_text("raise KeyError('lr')\n")
    code, answer, said = repeat("", "--quiet", script="wrong.py")
    assert (code, answer, said.count("\n")) == (2, {}, 1)
    assert "failed with exit code 1: KeyError: 'lr'" in said
    assert "KeyError" in (tmp_path / "out/run_1/output.txt").read_text()


def test_a_script_that_hangs_is_ended(repeat, tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)\n")
    code, _, said = repeat("", "--quiet", "--limit", "1", script="slow.py")
    assert code == 2
    assert "was ended after 1 s" in said


def test_a_script_without_a_training(repeat, tmp_path):
    (tmp_path / "other.py").write_text("print('nothing to do')\n")
    code, _, said = repeat("", "--quiet", script="other.py")
    assert code == 2
    assert "trained no step that msprobe sees: nothing to do" in said


def test_a_model_that_is_called_beside(repeat):
    """As the frozen reference of a training by preferences is: recorders are told of it."""
    script = Path(__file__).parents[1] / "recording/scripts/reference_model_unnamed.py"
    code, answer, said = repeat("", script=str(script))
    assert (code, answer["repeats"], answer["steps"]) == (0, True, 4), said


def test_what_suffices_without_a_change_does_not_need_it():
    tried = []

    def suffices(some):
        tried.append("".join(some))
        return "b" in some

    assert needed_of("abc", suffices) == ["b"]
    assert tried == ["bc", "c", "b"]
    assert needed_of("abc", suffices, least=2) == ["b", "c"]
