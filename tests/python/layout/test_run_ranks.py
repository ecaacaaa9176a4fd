# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run --ranks: with scripts that train nothing, but for one training that is a slow test."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from gloo import processes
from msprobe.diagnose.run_folder import RunFolder

SAYS = """
import os, pathlib, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS", "MSPROBE_PART_OF_RUN")
place = {name: os.environ[name] for name in names}
pathlib.Path(sys.argv[1], place["RANK"]).write_text(repr(place))
"""
FAILS = """
import os, sys, time
if os.environ["RANK"] == "1":
    sys.exit(3)
time.sleep(60)
"""
TRAINS = """
import os, torch
from torch import nn, distributed
world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
plain = model
if world > 1:
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(3):
    generator = torch.Generator().manual_seed(step)
    x, y = torch.randn(8, 16, generator=generator), torch.randint(0, 4, (8,), generator=generator)
    size = 8 // world
    x, y = x[rank * size : (rank + 1) * size], y[rank * size : (rank + 1) * size]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    FAULT
    optimizer.step()
if world > 1:
    distributed.destroy_process_group()
"""


def run(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "msprobe", "run", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


def test_each_rank_gets_the_variables_of_a_launcher(tmp_path: Path) -> None:
    words = ("--ranks", "2", "-o", "out", "--level", "L0", "--quiet", "train.py", str(tmp_path))
    done = run(tmp_path, SAYS, *words)
    assert done.returncode == 0, done.stderr
    places = [eval((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert [place["LOCAL_RANK"] for place in places] == ["0", "1"]
    assert {place["WORLD_SIZE"] for place in places} == {"2"}
    assert all(int(place["OMP_NUM_THREADS"]) >= 1 for place in places)
    # What to try next is what was typed, and no launcher that nobody started.
    typed = places[0]["MSPROBE_PART_OF_RUN"]
    assert typed.endswith("-m msprobe run --ranks 2 --level L0 --quiet")
    again = RunFolder(tmp_path, program=["train.py"], started_as=shlex.split(typed), processes=2)
    assert again.command("b") == f"{typed} -o b train.py"
    assert again.training == ["torchrun", "--nproc-per-node", "2", "train.py"]


def test_a_rank_that_fails_ends_the_others(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS, "--ranks=2", "-o", "out", "--quiet", "train.py")
    assert done.returncode == 3


@pytest.mark.parametrize("words", [("--ranks", "0"), ("--ranks", "x"), ("--against-one",)])
def test_wrong_options_are_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, SAYS, *words, "train.py")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--ranks" in done.stderr


@processes
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("pass", ""),
        ("rank == 1 and step == 1 and plain[1].weight.grad.mul_(1.01)", "step 1: the gradient of 1.weight"),
    ],
)
def test_replicas_are_checked_live(tmp_path: Path, fault: str, said: str) -> None:
    words = ("--ranks", "2", "--replicas", "--without", "dump", "--without", "config", "-o", "out", "--quiet")
    done = run(tmp_path, TRAINS.replace("FAULT", fault), *words, "train.py")
    assert done.returncode == 0, done.stderr
    notes = [json.loads((tmp_path / f"out/run.rank{rank}.json").read_text())["notes"] for rank in range(2)]
    if said:
        assert all(said in note for (note,) in notes)
    else:
        assert notes == [[], []]


@processes
@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("pass", 0, "by no more than rounding"),
        ("[p.grad.div_(world) for p in model.parameters()]", 1, "gradient"),
        ("rank == 1 and plain[1].weight.grad.mul_(1.01)", 1, "replicas: gradient of 1.weight"),
    ],
)
def test_against_one_process(tmp_path: Path, fault: str, code: int, said: str) -> None:
    words = ("--ranks", "2", "--against-one", "-o", "out", "--quiet", "train.py")
    done = run(tmp_path, TRAINS.replace("FAULT", fault), *words)
    assert done.returncode == code, done.stderr
    content = json.loads((tmp_path / "out_diagnosis/diagnose.json").read_text())
    cause = content["cause"] or {"name": ""}
    assert said in content["sentence"] or said in cause["name"]
    (gradients,) = (part for part in content["parts"] if part["part"] == "gradients")
    assert gradients["status"] == "equal" or fault != "pass", gradients
