# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training of MindSpore that is recorded unchanged, against the stand-in."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stand_in
from exported_gradients import exported_gradients
from msprobe.files.regular_file import read_text
from msprobe.port_recording import PortRecording, mindspore_recording
from msprobe.recording.settings import run_settings


class Net(stand_in.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = stand_in.Dense(3, 4), stand_in.Dense(4, 2)
        self.eps = 1e-5

    def construct(self, x: Any) -> Any:
        return self.fc2(stand_in.relu(self.fc1(x)))


class Loss(stand_in.Cell):
    def construct(self, x: Any) -> Any:
        return x.sum()


def train(steps: int) -> list[float]:
    """As a script does that knows nothing of us: what it differentiates, and its optimizer."""
    net, loss = Net(), Loss()
    optimizer = stand_in.Optimizer(net.trainable_params())
    losses = []
    for step in range(steps):
        net(stand_in.Tensor(np.zeros((1, 3))))  # an evaluation is no step
        base = sys.modules["mindspore.ops.composite.base"]
        x = stand_in.Tensor(np.full((2, 3), 1.0 + step))
        value = base._pynative_func_grad_forward(lambda given: loss(net(given)), x)
        optimizer(stand_in.gradients_of(value, net.trainable_params()))
        losses.append(float(value.values))
    return losses


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[float], PortRecording]:
    stand_in.install(monkeypatch)
    recording = mindspore_recording(run_settings(output=tmp_path / "run", steps="0,2"), ["train.py"])
    losses = train(4)
    recording.end("ended")
    return tmp_path / "run", losses, recording


def test_the_steps_of_the_training_are_found(recorded: tuple[Path, list[float], PortRecording]) -> None:
    run, losses, recording = recorded
    assert recording.summary.startswith("4 steps of Net seen; recorded: losses, gradients, dump")
    content = json.loads((run / "run.rank0.json").read_text())
    assert content["models"] == [{"class": "Net", "parameters": 20}]
    assert (content["optimizers"], content["steps"]) == (["Optimizer"], 4)
    with (run / "losses.rank0.csv").open() as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == losses
    assert sorted(path.name for path in (run / "dump").iterdir()) == ["step0", "step2"]
    assert [path.name for path in (run / "dump/step2/rank").iterdir()] == ["step.zip"]
    data = json.loads(read_text(run / "dump/step2/rank/dump.json"))["data"]
    assert {"Cell.fc1.Dense.forward.0", "Cell.fc2.Dense.backward.0"} <= set(data)
    assert "Cell.fc1.Dense.forward.1" not in data
    tables = sorted(path.name for path in (exported_gradients(run) / "rank0").glob("*.csv"))
    assert tables == ["grad_summary_0.csv", "grad_summary_2.csv"]


def test_settings_of_cells_and_of_the_optimizer_are_recorded(
    recorded: tuple[Path, list[float], PortRecording],
) -> None:
    state = json.loads(read_text(recorded[0] / "dump/step0/rank/diagnosis.json"))
    assert state["modules"][""]["settings"] == {"eps": 1e-5}
    assert state["modules"]["fc1"]["parameters"] == {"weight": True}
    (step,) = state["optimizer"]
    assert step["groups"][0]["hyper"]["lr"] == {"value": 0.1}


def test_the_losses_are_those_of_a_run_that_is_not_recorded(
    recorded: tuple[Path, list[float], PortRecording],
) -> None:
    assert train(4) == recorded[1]


def test_a_graph_that_is_static_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mindspore = stand_in.install(monkeypatch)
    recording = mindspore_recording(run_settings(output=tmp_path / "run"), ["train.py"])
    mindspore.set_context(mode=0)
    recording.end("ended")
    assert "set mindspore.set_context(mode=mindspore.PYNATIVE_MODE)" in recording.summary
    assert not (tmp_path / "run").exists()
