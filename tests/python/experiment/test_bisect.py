# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe bisect: the least of some changes with which a check passes."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import planted_modules as planted
import pytest
from msprobe import cli
from msprobe.bisect.experiment import Bisection, bisect
from msprobe.experiment import launch
from msprobe.experiment.command_line import Command
from msprobe.experiment.narrowing import least_of
from msprobe.experiment.plan import Change

SCRIPT = str(Path(planted.__file__))
START = f"{shlex.quote(sys.executable)} {shlex.quote(SCRIPT)}"
ALL = "experiments" in os.environ.get("MSPROBE_TEST_SLOW", "")


@pytest.mark.parametrize("needed", [{3}, {0, 7}, {1, 2, 5}, set(range(8))])
def test_the_least_that_suffices(needed):
    runs = []

    def suffice(some):
        runs.append(some)
        return needed <= set(some)

    assert set(least_of(range(8), suffice)) == needed
    assert len(needed) > 1 or len(runs) <= 6


@pytest.fixture
def bisected(tmp_path, monkeypatch):
    """bisected(passes, changes, **options): without processes; passes(changes) is what the check says."""
    plans = []

    def run(command, plan, **_):
        Path(plan.folder).mkdir(parents=True)
        (Path(plan.folder) / "modules.txt").write_text("a\na.x\na.y\nb\nc.0\nc.1\n")
        plans.append(plan.changes)
        return launch.Run(Path(plan.folder), 8, 0.0)

    def call(passes, *changes, **options):
        monkeypatch.setattr("msprobe.bisect.experiment.run_command", run)
        monkeypatch.setattr(
            "msprobe.bisect.experiment._Bisecting._checked", lambda *_: (passes(plans[-1]), "")
        )
        command = Command(("true",))
        (tmp_path / "out").mkdir()
        made = tuple(Change(*change) for change in changes)
        return bisect(Bisection(command, command, tmp_path / "out", made, **options))

    return call


def test_settings(bisected):
    answer = bisected(lambda some: "b" in [one.name for one in some], ("a", "1"), ("b", "2"), ("c", "3"))
    assert (answer.status, answer.changes, answer.exit_code) == ("found", ("b=2",), 1)
    assert answer.trials[0].changes == ()


def test_the_smallest_module(bisected):
    answer = bisected(
        lambda some: any("a.y".startswith(one.name[10:]) for one in some), modules="precision=float32"
    )
    assert answer.changes == ("precision.a.y=float32",)


def test_the_latest_step(bisected):
    answer = bisected(lambda some: bool(some) and some[0].first <= 5, ("a", "1"), finds_step=True)
    assert (answer.changes, answer.first) == (("a=1",), 5)
    assert "from step 5 on" in answer.sentence


@pytest.mark.parametrize(("result", "status", "code"), [(True, "passes", 0), (False, "not found", 3)])
def test_nothing_to_find(bisected, result, status, code):
    answer = bisected(lambda _: result, ("a", "1"))
    assert (answer.status, answer.exit_code) == (status, code)


def test_the_runs_are_spent(bisected):
    answer = bisected(lambda some: len(some) == 4, *zip("abcd", "1234"), most_runs=3)
    assert (answer.status, len(answer.trials)) == ("out of runs", 3)


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    told = """import sys; sys.exit("0.9" in open(sys.argv[1] + "/output.txt").read())"""
    check = f"{shlex.quote(sys.executable)} -c {shlex.quote(told)} {{run}}"
    words = ["--check", check, "--set", "m.drop.p=0", f"{START} none plain"]
    assert cli.main(["bisect", *words]) == 0, capsys.readouterr()
    assert json.loads((tmp_path / "bisect/bisect.json").read_text())["status"] == "passes"
