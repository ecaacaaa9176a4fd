# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The monitor as a job: msprobe run --with monitor, MSPROBE_CONFIG, PrecisionDebugger."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from monitor_record import Record
from msprobe import InvalidArgument, PrecisionDebugger
from training_sample import make_training, train

REPOSITORY = Path(__file__).resolve().parents[3]

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
first = 0
if RESUMES:
    state = torch.load("state.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first, first + 6):
    torch.manual_seed(step)
    loss = nn.functional.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 4, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
    if step == 3:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 4}
        torch.save(state, "state.pt")
print(sum(p.double().abs().sum() for p in model.parameters()).item().hex())
"""


def python(*words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("RESUMES = False" + SCRIPT)
    (tmp_path / "resume.py").write_text("RESUMES = True" + SCRIPT)
    return tmp_path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script prints without a monitor, run in this process: a start with torch takes seconds."""
    printed = io.StringIO()
    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("plain"))
    try:
        with contextlib.redirect_stdout(printed):
            exec("RESUMES = False" + SCRIPT, {"__name__": "__main__"})
    finally:
        os.chdir(here)
    return printed.getvalue()


def losses(printed: str) -> dict[int, float]:
    lines = (line.split() for line in printed.splitlines()[:-1])
    return {int(step): float.fromhex(value) for step, value in lines}


def test_msprobe_run(script: Path, plain: str) -> None:
    """All of a run beside it, its own steps, and the results of the script untouched."""
    run = python("-m", "msprobe", "run", "--monitor", "-o", "out", "train.py", cwd=script)
    assert (run.returncode, run.stdout) == (0, plain), run.stderr
    assert "monitor" in run.stderr.splitlines()[-1]
    about = json.loads((script / "out/run.rank0.json").read_text())
    assert about["recorded"]["monitor"] == "monitor"
    assert about["notes"] == []
    record = Record(script / "out/monitor")
    assert record["loss"] == losses(plain)
    assert record["learning_rate"] == dict.fromkeys(range(6), 1e-2)
    assert len(record["gradient.norm/0.weight"]) == 6
    assert sorted(path.name for path in (script / "out/dump").iterdir()) == ["step0", "step1", "step2"]
    (script / "nothing.py").write_text("")
    again = python("-m", "msprobe", "run", "--monitor", "--force", "-o", "out", "nothing.py", cwd=script)
    assert again.returncode == 0
    assert list(script.rglob("monitor.db*")) == []  # the earlier record is gone, not put aside


def test_a_variable_of_the_environment_and_a_resumed_training(script: Path, plain: str) -> None:
    (script / "msprobe.pth").write_text((REPOSITORY / "python/msprobe.pth").read_text())
    site = f"import site; site.addsitedir({str(script)!r})\n"
    for name in ("train.py", "resume.py"):
        (script / name).write_text(site + (script / name).read_text())
    section = "{quantities: [training, weight]}"
    (script / "c.yaml").write_text(f"task: monitor\ndump_path: out\nmonitor: {section}\n")
    run = python("train.py", cwd=script, MSPROBE_CONFIG="c.yaml")
    assert (run.returncode, run.stdout) == (0, plain), run.stderr
    assert Record(script / "out/monitor")["loss"] == losses(plain)
    resumed = python("resume.py", cwd=script, MSPROBE_CONFIG="c.yaml")
    assert resumed.returncode == 0, resumed.stderr
    record = Record(script / "out/monitor")
    assert record["loss"] == {**losses(plain), **losses(resumed.stdout)}
    assert sorted(record["loss"]) == list(range(10))
    run = python("-m", "msprobe", "run", "-c", "c.yaml", "train.py", cwd=script)
    assert (run.returncode, run.stdout) == (0, plain), run.stderr
    assert "is kept as monitor.db.1" in run.stderr
    run = python("-m", "msprobe", "run", "-o", "out", "train.py", cwd=script)
    assert (run.returncode, "there is a run already" in run.stderr) == (2, True)


@pytest.fixture
def debugger(tmp_path: Path) -> Iterator[Any]:
    """debugger(**section): a PrecisionDebugger of task monitor."""

    def make(**section: Any) -> type[PrecisionDebugger]:
        path = tmp_path / "config.json"
        content = {"task": "monitor", "dump_path": str(tmp_path / "run"), "monitor": section}
        path.write_text(json.dumps({**content, "step": section.pop("step", [])}))
        PrecisionDebugger(path)
        return PrecisionDebugger

    yield make
    PrecisionDebugger._reset()


def test_precision_debugger(debugger: Any, tmp_path: Path) -> None:
    """A script that is written for a dump: start, stop and step around each step."""
    net, optimizer = make_training()
    of_class = debugger(quantities=["gradient", "activation"])
    for _ in range(3):
        of_class.start(net)
        train(net, optimizer, steps=1)
        of_class.stop()
        of_class.step()
    PrecisionDebugger._reset()
    record = Record(tmp_path / "run")
    assert record.steps == [0, 1, 2]
    assert len(record["activation.rms/fc1"]) == 3


def test_monitor_of_precision_debugger_and_chosen_steps(debugger: Any, tmp_path: Path) -> None:
    net, optimizer = make_training()
    of_class = debugger(quantities=["gradient"], step=[1, "3-4"])
    of_class.monitor(net)
    of_class.monitor(net)
    train(net, optimizer, steps=6)
    PrecisionDebugger._reset()
    assert Record(tmp_path / "run").steps == [1, 3, 4]


def test_precision_debugger_wants_a_model(debugger: Any) -> None:
    of_class = debugger()
    with pytest.raises(InvalidArgument, match=r"expected a model in start\(model\)"):
        of_class.start()
    with pytest.raises(InvalidArgument, match="found int"):
        of_class.monitor(3)
