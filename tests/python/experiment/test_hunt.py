# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe hunt: planted faults are proved from two commands alone; msprobe run --set."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import planted_faults as planted
import pytest
import torch
from msprobe import cli
from msprobe.diagnose.cause import Cause
from msprobe.experiment import updates
from msprobe.experiment.changes import BACKENDS, check, with_torch
from msprobe.experiment.command_line import Command, parse_command
from msprobe.experiment.digests import Parting, first_parting
from msprobe.experiment.plan import Change, Plan, parse_change, read_plan, write_plan
from msprobe.hunt.candidates import settings_of, values_of
from msprobe.hunt.command import _placed
from msprobe.hunt.following import Follower
from msprobe.hunt.hunting import _Hunting, _Left
from msprobe.hunt.runs import Hunt, OutOfRuns, Runs
from msprobe.native import FormatError, InvalidArgument
from torch import nn

SCRIPT = str(Path(planted.__file__))
ALL = "experiments" in os.environ.get("MSPROBE_TEST_SLOW", "")


@pytest.fixture
def hunt(tmp_path, monkeypatch, capsys):
    """hunt(kind, *options) -> exit code, hunt.json, what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def call(kind, *options, reference="none"):
        start = f"{shlex.quote(sys.executable)} {shlex.quote(SCRIPT)}"
        commands = ["--reference", f"{start} {reference}", "--target", f"{start} {kind}"]
        code = cli.main(["hunt", "-o", "out", *commands, *options])
        said = capsys.readouterr()
        file = tmp_path / "out/hunt.json"
        return code, json.loads(file.read_text()) if file.exists() else {}, said.out + said.err

    return call


@pytest.mark.parametrize("kind", [kind for kind in planted.FAULTS if ALL or kind == "scale"])
def test_a_planted_fault_is_proved_both_ways(hunt, tmp_path, kind):
    code, answer, said = hunt(kind)
    assert (code, answer["status"]) == (1, "proved"), said
    changed = [name.partition("=")[0] for cause in answer["causes"] for name in cause["changes"]]
    assert tuple(sorted(changed)) == planted.FAULTS[kind]
    assert "the target follows" in answer["proof"]
    is_ladder = changed == ["compile.backend"]  # the other way round is the target with one backend more
    assert ("it leaves it" if is_ladder else "the reference leaves it") in answer["proof"]
    is_setting = not changed[0].startswith("feed.")
    assert ("answer/change.py" in answer["reproduction"]) == is_setting
    assert "proved" in (tmp_path / "out/answer/index.html").read_text()
    again, _, said = hunt(kind)  # nothing is run a second time
    assert again == 1
    assert said.count("was there already") == sum(answer["runs"].values())


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_nothing_parts(hunt):
    code, answer, said = hunt("other")
    assert (code, answer["status"]) == (0, "equal"), said


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_what_is_not_proved_is_not_called_so(hunt):
    code, answer, said = hunt("fewer")
    assert (code, answer["status"]) == (3, "unproved"), said
    assert "not proved" in answer["proof"]
    assert "judged to the bit" in answer["proof"]  # and what to give where the target rounds otherwise
    assert "--target-env" in answer["proof"]


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_where_the_runs_are_spent_the_suspicion_is_said(hunt):
    code, answer, said = hunt("scale", "--max-runs", "2")
    assert (code, answer["status"], answer["causes"]) == (3, "unproved", []), said
    assert "1.scale = 1.05 (reference: 1" in answer["sentence"]
    assert answer["sentence"].endswith("the runs are spent (--max-runs, --max-time)")


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
def test_in_an_environment_that_rounds_otherwise_the_reference_is_run_there(hunt):
    code, answer, said = hunt("weight", "--target-env", "ATEN_CPU_CAPABILITY=default")
    assert (code, answer["status"]) == (1, "proved"), said
    assert "in the environment of the target: differs by rounding" in said
    assert answer["proof"].startswith("in the environment of the target: with the weights of the reference")
    assert "follows it to the bit" in answer["proof"]


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
@pytest.mark.parametrize("kind", ["none", "scale"])
def test_a_reference_with_noise_is_followed_within_it(hunt, kind):
    code, answer, said = hunt(f"noisy-{kind}", reference="noisy-none")
    if kind == "none":
        assert (code, answer["status"]) == (0, "equal"), said
        return
    assert (code, answer["status"]) == (1, "proved"), said
    assert "follows the reference within the noise of the reference" in answer["proof"]
    assert "to the bit" not in answer["proof"]


@pytest.mark.skipif(not ALL, reason="MSPROBE_TEST_SLOW=experiments")
@pytest.mark.parametrize("how", ["killed", "interrupted", "full disk"])
def test_a_hunt_that_was_ended_goes_on(hunt, tmp_path, how):
    start = f"{shlex.quote(sys.executable)} {shlex.quote(SCRIPT)}"
    words = [sys.executable, "-m", "msprobe", "hunt", "-o", "out"]
    words += ["--reference", f"{start} none", "--target", f"{start} scale"]

    def limited():
        if how == "full disk":  # of the size of a file: the first dump does not fit
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    ended = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=limited)
    if how != "full disk":
        deadline = time.monotonic() + 300
        while not (tmp_path / "out/target/1/plan.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        ended.send_signal(signal.SIGKILL if how == "killed" else signal.SIGINT)
    said = ended.communicate()[1]
    assert ended.returncode != 0, said
    assert "fault of msprobe" not in said
    assert not (tmp_path / "out/hunt.json").exists()
    code, answer, said = hunt("scale")
    assert (code, answer["status"]) == (1, "proved"), said
    assert said.count("was there already") == (0 if how == "full disk" else 1)


def test_settings_that_can_be_set_are_candidates():
    def cause(name, values):
        return Cause("operators", "dump", name, "", 0.9, 4, values=values)

    causes = [
        cause("operator Functional.gelu.0", ("", "")),
        cause("module attribute layers.2.norm1.eps", ("0.1", "1e-05")),
        cause("optimizer setting optimizer.groups.0.lr", ("0.1", "0.2")),
        cause("module attribute layers.2.norm1.bias", ("absent", "True")),
    ]
    found = settings_of(causes, 0)
    assert [one.mended().said for one in found] == ["layers.2.norm1.eps=1e-05", "optimizer.groups.0.lr=0.2"]
    assert found[0].broken() == Change("layers.2.norm1.eps", "0.1", 4)


def test_where_a_scheduler_sets_the_rate_what_it_begins_with_is_the_setting(tmp_path):
    """The rate of a warm-up differs in each step."""
    runs = [
        _write_digests(tmp_path / name, 1, {}, {"schedules": {"groups.0": rate, "groups.1": "1.0"}})
        for name, rate in (("reference", "0.01"), ("target", "0.02"))
    ]
    name = "optimizer setting optimizer.groups.{}.lr".format
    seen = [Cause("optimizer", "dump", name(n), "", 0.9, 1, values=("0.004", "0.002")) for n in (0, 1)]
    found = [(one.mended().said, one.broken().said) for one in settings_of(seen, 0, runs)]
    first = "optimizer.groups.0.initial_lr=0.01", "optimizer.groups.0.initial_lr=0.02"
    assert found == [first, ("optimizer.groups.1.lr=0.002", "optimizer.groups.1.lr=0.004")]


def test_a_scheduler_begins_with_the_rate_that_is_set(monkeypatch):
    scheduler = torch.optim.lr_scheduler
    monkeypatch.setattr(scheduler.LRScheduler, "__init__", scheduler.LRScheduler.__init__)
    with_torch([Change("optimizer.groups.1.initial_lr", "0.5")])
    updates.leave(print)
    weights = [nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [one]} for one in weights], lr=0.1)
    made = scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 4)
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.125]
    scheduler.LambdaLR(optimizer, lambda _: 1.0)  # a second one finds what the first one found
    assert made.base_lrs == [0.1, 0.5]
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]


@pytest.mark.parametrize(("needed", "runs"), [("b", 2), ("bd", 9), ("", 5)])
def test_a_set_of_settings_is_found_where_no_single_one_helps(needed, runs):
    """Of four that differ."""
    tried = []

    class Search(_Hunting):
        def __init__(self):
            pass

        def _helps(self, settings, left):
            tried.append("".join(one.name for one in settings).replace("m.", ""))
            return (needed and set(needed) <= set(tried[-1])) or None

    names = [f"module attribute m.{name}" for name in "abcd"]
    causes = [Cause("operators", "dump", name, "", 0.9, values=("1", "2")) for name in names]
    some, found = Search()._next_settings([], _Left(Parting(0, 0, "loss"), causes, []))
    assert "".join(one.name for one in some).replace("m.", "") == needed
    assert (found is not None) == bool(needed)
    assert len(tried) == runs, tried


def test_what_is_put_in_first_is_what_the_diagnosis_says():
    def tried(kind, *causes, drawn=False):
        return values_of(causes, Parting(0, 0, kind), drawn=drawn)

    data = Cause("data", "config", "dataset: tensors", "", 0.9)
    gelu = Cause("operators", "dump", "operator gelu", "", 0.9, 0, module="blocks.1.act")
    around = Cause("operators", "dump", "operator add", "", 0.9, 0, module="blocks.1")
    assert tried("loss", data) == ["feed.inputs", "feed.random", "feed.weights", "feed.loss"]
    assert tried("gradients", gelu, around) == ["transplant.blocks.1.act", "feed.loss", "feed.gradients"]
    assert tried("weights", gelu, drawn=True) == ["feed.update", "feed.random"]
    assert tried("steps") == []


def test_a_plan_comes_back_as_it_was(tmp_path):
    plan = Plan(str(tmp_path), (Change("optimizer.lr", "0.1", 3),), stop=4, steps="0-2", keeps=(1, 4))
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(FormatError, match='"format"'):
        read_plan(tmp_path / "plan.json")


def test_a_change_needs_a_name_and_a_value():
    assert parse_change("a.b=c=d") == Change("a.b", "c=d")
    with pytest.raises(InvalidArgument, match="NAME=VALUE"):
        parse_change("layers.2.eps")


def test_run_with_a_setting(tmp_path):
    words = ["run", "-o", "run", "--quiet", "--without", "config", "--without", "dump", "--set"]

    def run(change):
        command = [sys.executable, "-m", "msprobe", *words, change, SCRIPT, "none"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert run("9.scale=2").stderr.endswith("msprobe: 9.scale: the model has no module 9\n")
    words.insert(1, "--force")
    done = run("1.scale=1.05")
    assert done.returncode == 0, done.stderr
    with_it = (tmp_path / "run/losses.rank0.csv").read_text()
    script = [sys.executable, "-m", "msprobe", *words[:-1], SCRIPT, "scale"]
    subprocess.run(script, cwd=tmp_path, check=True)
    assert (tmp_path / "run/losses.rank0.csv").read_text() == with_it


def test_a_run_that_records_nothing_is_no_equal_run(hunt, monkeypatch, tmp_path):
    """The recorder cannot be loaded: nothing that is there is equal."""
    hidden = tmp_path / "hidden/sitecustomize.py"
    hidden.parent.mkdir()
    hidden.write_text("import msprobe.experiment.digests as d\ndel d.DigestRecorder\n")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    code, _, said = hunt("scale", "--quiet")
    assert code == 2
    assert "trained no step" in said or "not every step is recorded" in said


def test_one_command_in_two_environments(tmp_path):
    (tmp_path / "train.py").touch()
    one = parse_command("OMP_NUM_THREADS=1 python train.py", tmp_path)
    placed = _placed(one, sys.executable, [("OMP_NUM_THREADS", "2"), ("A", "b")])
    assert placed.words == (sys.executable, "train.py")
    assert placed.environment == {"OMP_NUM_THREADS": "2", "A": "b"}
    started = Command(("/bin/torchrun", "--nproc-per-node", "2", "a.py")).with_python(sys.executable)
    assert started.words[:3] == (sys.executable, "-m", "torch.distributed.run")
    with pytest.raises(InvalidArgument, match="expected python, torchrun or a script"):
        parse_command("sh -c 'python train.py'").with_python(sys.executable)
    with pytest.raises(InvalidArgument, match="expected an interpreter"):
        one.with_python("no_such_python")


def test_no_run_begins_behind_the_time_that_was_given(tmp_path):
    command = parse_command("python train.py", tmp_path)
    runs = Runs(Hunt(command, command, tmp_path, most_seconds=10))
    runs.begin -= 11
    with pytest.raises(OutOfRuns):
        runs.run("reference", "1")
    assert not list(tmp_path.iterdir())


def test_the_reference_can_be_moved_to_the_environment_of_the_target(tmp_path):
    one, there = parse_command("python a.py", tmp_path), parse_command("A=1 python a.py", tmp_path)
    runs = Runs(Hunt(one, parse_command("A=1 python b.py", tmp_path), tmp_path, reference_there=there))
    assert runs.folder("reference", "1") == tmp_path / "reference/1"
    runs.move_reference()
    assert runs.folder("reference", "1") == tmp_path / "there/1"
    assert runs.folder("target", "1") == tmp_path / "target/1"
    assert runs._command_of("reference") == there


@pytest.mark.parametrize(
    ("state", "weights", "is_noise"), [("1", "a", True), ("2", "a", False), ("1", "b", False)]
)
def test_noise_is_what_differs_behind_equal_beginnings(tmp_path, state, weights, is_noise):
    def run(name, state, weights, gradient):
        first = {"initial weights": {"w": weights}, "random generators": {"torch": state, "python": name}}
        drawn = {"random generators": {"torch": state + "+", "python": name}}
        folder = _write_digests(tmp_path / name, 1, {**first, "gradients": {"w": gradient}}, drawn)
        (folder / "losses.rank0.csv").write_text("step,loss,backward_calls\n0,1.0,1\n1,1.5,1\n")
        return folder

    follower = Follower(tmp_path / "diagnosis", (), print)
    runs = [run("a", "1", "a", "1"), run("b", state, weights, "2")]
    assert follower.take_noise(runs) == is_noise
    assert follower.knows_noise == is_noise
    assert follower.words == ("within the noise of the reference" if is_noise else "within rounding")


def _write_digests(folder: Path, ranks: int, *lines: dict[str, dict[str, str]]) -> Path:
    folder.mkdir()
    for rank in range(ranks):
        text = "".join(json.dumps({"step": step, **line}) + "\n" for step, line in enumerate(lines))
        (folder / f"digest.rank{rank}.jsonl").write_text(text)
    return folder


def test_other_numbers_of_processes_are_an_error(tmp_path):
    one, two = (_write_digests(tmp_path / str(ranks), ranks, {}) for ranks in (1, 2))
    with pytest.raises(InvalidArgument, match=r"expected as many processes that train as .*, 1, found 2"):
        first_parting(one, two)


def test_inputs_that_only_one_run_sees_are_no_difference(tmp_path):
    """A compiled model is called where nothing is seen."""
    eager = _write_digests(tmp_path / "a", 1, {"inputs": {"0.0": "1"}, "weights": {"w": "1"}})
    compiled = _write_digests(tmp_path / "b", 1, {"inputs": {}, "weights": {"w": "1"}})
    other = _write_digests(tmp_path / "c", 1, {"inputs": {"0.0": "2"}, "weights": {"w": "1"}})
    assert first_parting(eager, compiled) is None
    assert first_parting(eager, other) == Parting(0, 0, "inputs", ("0.0",))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_backend_of_every_compile_is_set(monkeypatch, backend):
    calls = []
    monkeypatch.setattr(torch, "compile", lambda model=None, **kwargs: calls.append(kwargs))
    change = Change("compile.backend", backend)
    check([change])
    with_torch([change])
    torch.compile(nn.Linear(1, 1), mode="max-autotune", fullgraph=True)
    updates.leave(print)
    mode = {"mode": "max-autotune"} if backend in ("off", "inductor") else {}
    set_ = {"disable": True} if backend == "off" else {"backend": backend}
    assert calls == [{**mode, "fullgraph": True, **set_}]
    with pytest.raises(InvalidArgument, match="expected one of off, eager"):
        check([Change("compile.backend", "onnx")])
