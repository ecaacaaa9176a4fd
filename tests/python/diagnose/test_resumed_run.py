# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A run that was resumed is compared with the one that went straight on, from the step at which it began."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msprobe
import pytest
from msprobe.compare.command import main as compare
from msprobe.diagnose.command import main as diagnose
from msprobe.files.run_folder import offset_of

SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
data = torch.randn(6, 4, 8)
first = 0
if "--resume" in sys.argv:
    saved = torch.load("saved.pt")
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    first = 3
if "--fault" in sys.argv:
    net[1].eps = 0.1
for step in range(first, 6):
    if step == 3 and first == 0:
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, "saved.pt")
    loss = net(data[step]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def record(folder, script, name, steps, *words):
    (folder / "train.py").write_text(script)
    options = ["--quiet", "-o", name, "--steps", steps]
    command = [sys.executable, "-m", "msprobe", "run", *options, "train.py", *words]
    subprocess.run(command, cwd=folder, check=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resumed")
    record(folder, SCRIPT, "straight", "0-5")
    record(folder, SCRIPT, "resumed", "0-2", "--resume")
    record(folder, SCRIPT, "faulty", "0-2", "--resume", "--fault")
    return folder


def first_step(run: Path) -> int:
    return json.loads((run / "run.rank0.json").read_text())["first_step"]


def test_the_count_of_the_optimizer_says_where_a_run_began(runs):
    assert [first_step(runs / name) for name in ("straight", "resumed", "faulty")] == [0, 3, 3]


def test_a_resumed_run_follows(runs, tmp_path, capsys):
    assert diagnose([str(runs / "straight"), str(runs / "resumed"), "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "the target begins at step 3 of the reference" in said
    parts = {one["part"]: one for one in json.loads((tmp_path / "out/diagnose.json").read_text())["parts"]}
    assert parts["dump"]["steps"] == parts["losses"]["steps"] == parts["gradients"]["steps"] == [3, 4, 5]


def test_a_step_of_two_optimizers_is_one_step(tmp_path):
    """A gradient record counts the calls of optimizers."""
    two = (
        SCRIPT.replace(
            "optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)",
            "optimizer = torch.optim.AdamW(net[0].parameters(), lr=1e-2)\n"
            "other = torch.optim.SGD(net[1:].parameters(), lr=1e-2)",
        )
        .replace("    optimizer.step()\n", "    optimizer.step()\n    other.step()\n")
        .replace("optimizer.zero_grad", "net.zero_grad")
    )
    record(tmp_path, two, "straight", "0-11")
    record(tmp_path, two, "resumed", "0-5", "--resume")
    assert (
        diagnose([str(tmp_path / name) for name in ("straight", "resumed")] + ["-o", str(tmp_path / "out")])
        == 0
    )
    parts = {one["part"]: one for one in json.loads((tmp_path / "out/diagnose.json").read_text())["parts"]}
    assert parts["dump"]["steps"] == parts["losses"]["steps"] == parts["gradients"]["steps"] == [3, 4, 5]


def losses(folder: Path, *values: str) -> Path:
    folder.mkdir()
    (folder / "run.rank0.json").write_text("{}")
    rows = "".join(f"{step},{value},1\n" for step, value in enumerate(values))
    (folder / "losses.rank0.csv").write_text(f"step,loss,backward_calls\n{rows}")
    return folder


def test_where_no_optimizer_counts_losses_say_where_a_run_began(tmp_path):
    straight = losses(tmp_path / "straight", "2.5", "2.25", "2.125", "2.0625")
    for name, expected, values in (
        ("resumed", 2, ("2.125", "2.0625")),
        ("one", 0, ("2.0625", "2.0")),  # a single loss may be equal by chance
        ("other", 0, ("2.125", "2.0")),
        ("again", 0, ("2.5", "2.25", "2.125", "2.0625")),
    ):
        target = losses(tmp_path / name, *values)
        assert offset_of(target, straight, None) == expected
        assert offset_of(target, straight, 1) == 1


def test_a_fault_is_named_with_the_step_of_the_reference(runs, tmp_path):
    answer = msprobe.diagnose(runs / "straight", runs / "faulty", tmp_path / "out")
    assert answer.sentence.startswith("First difference: step 3, 1.eps = 0.1 (reference: 1e-05)")


def test_what_is_asked_for_stands_before_what_the_runs_say(runs, tmp_path, capsys):
    """The wrong step: other data, other weights."""
    words = [str(runs / "straight"), str(runs / "resumed"), "-o", str(tmp_path / "out"), "--offset", "2"]
    assert diagnose(words) == 1
    assert "begins at step 2" in capsys.readouterr().out


def test_no_step_in_common_is_no_fault_of_the_dump(runs, tmp_path):
    """As where both recorded their first three steps: losses and gradients are compared."""
    short = tmp_path / "short"
    shutil.copytree(runs / "straight", short)
    for step in (3, 4, 5):
        shutil.rmtree(short / "dump" / f"step{step}")
    answer = msprobe.diagnose(short, runs / "resumed", tmp_path / "out")
    assert answer.status == "equal"
    assert {part.part: part.status for part in answer.parts}["dump"] == "absent"
    other = msprobe.diagnose(short, runs / "faulty", tmp_path / "other")
    assert "--steps 3 " in other.missing[0].commands[0]
    assert "--steps 0 " in other.missing[0].commands[1]


def test_compare_has_it_too(runs, tmp_path, capsys):
    words = [str(runs / "straight"), str(runs / "resumed"), "-o", str(tmp_path / "out")]
    assert compare(words) == 0
    assert "the target begins at step 3 of the reference" in capsys.readouterr().out
    content = json.loads((tmp_path / "out/verdict.json").read_text())
    assert content["inputs"]["offset"] == 3
    assert [pair["step"] for pair in content["pairs"]] == [3, 4, 5]


def test_an_offset_of_a_single_step_is_refused(runs, tmp_path):
    step = runs / "straight/dump/step0"
    with pytest.raises(msprobe.InvalidArgument, match="an offset is one of the steps in a dump_path"):
        msprobe.compare(step, step, tmp_path / "out", offset=3)
