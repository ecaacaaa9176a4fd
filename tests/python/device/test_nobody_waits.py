# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training never waits for numbers of a device: they are read at the end of the next step. The processor
stands in for a device, whose marks pass late, so that whoever waits is counted.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msprobe
import numpy as np
import pytest
import torch
from msprobe import _torch
from msprobe.native import core
from processor_as_device import Way, as_device

STEPS = 4
PARAMETERS = ["0.weight", "0.bias", "2.weight", "2.bias"]


def train(begin: Callable[[Any, Any], Any], after_step: Callable[[int], None] = lambda step: None) -> Any:
    """A training that begin(model, optimizer) is told of, to its end."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    begun = begin(model, optimizer)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 6)).square().mean()
        if step == 2:
            loss = loss * float("nan")
        loss.backward()
        optimizer.step()
        after_step(step)
    return begun


def numbers_of(folder: Path) -> dict[str, list[float]]:
    """By series; what a step does not have is -1e30."""
    reader = core.MonitorStoreReader(folder / "monitor.db")
    series = reader.series()
    steps, columns = reader.values(list(range(len(series))), 0, 100)
    assert steps == list(range(STEPS))
    return {
        one.key: [-1e30 if number is None else number for number in column]
        for one, column in zip(series, columns)
        if one.quantity != "step_seconds"
    }


def native_and_device(
    folder: Path, way: Way, made: Callable[[], torch.nn.Module], shape: tuple[int, ...], **settings: Any
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The numbers of a training that is monitored, natively and as those of a device, which no step waits
    for. made: a new model. shape: of a batch.
    """
    waits: list[int] = []

    def run(name: str) -> dict[str, list[float]]:
        torch.manual_seed(3)
        model = made()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        monitor = msprobe.monitor(model, optimizer, folder / name, **settings)
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(shape)).square().mean().backward()
            optimizer.step()
            waits.append(_torch.kernel_work("cpu")[2])
        monitor.close()
        return numbers_of(folder / name)

    native = run("native")
    waits.clear()
    with as_device(way):
        device = run("device")
    assert len(set(waits)) == 1, "a step waited for the device"
    return native, device


def alarms_of(folder: Path) -> list[tuple[int, str]]:
    lines = (folder / "alarms.jsonl").read_text(encoding="utf-8").splitlines()
    return [(alarm["step"], alarm["series"]) for alarm in map(json.loads, lines)]


@pytest.mark.parametrize("way", ["kernel", "operators"])
def test_the_monitor_records_the_same_of_a_device(tmp_path: Path, way: Way) -> None:
    settings: dict[str, Any] = {
        "quantities": ["all"],
        "metrics": [],
        "alarm": {"cooldown": 0},
    }
    waits: list[int] = []

    def watch(folder: Path, name: str) -> Callable[[Any, Any], Any]:
        return lambda model, optimizer: msprobe.monitor(model, optimizer, folder / name, **settings)

    train(watch(tmp_path, "native")).close()
    with as_device(way):
        monitor = train(watch(tmp_path, "device"), lambda step: waits.append(_torch.kernel_work("cpu")[2]))
        monitor.close()
    assert len(set(waits)) == 1, "a step waited for the device"
    native, device = numbers_of(tmp_path / "native"), numbers_of(tmp_path / "device")
    assert list(device) == list(native)
    for key, column in native.items():
        assert device[key] == pytest.approx(column, rel=2e-5, abs=1e-7, nan_ok=True), key
    alarms = [alarms_of(tmp_path / name) for name in ("native", "device")]
    assert alarms[0] == alarms[1]
    assert alarms[1][0][0] == 2


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_the_gradient_probe_records_the_same_of_a_device(tmp_path: Path, level: Literal["L1", "L2"]) -> None:
    waits: list[int] = []

    def probe(name: str) -> Callable[[Any, Any], Any]:
        def begin(model: Any, optimizer: Any) -> Any:
            made = _torch.GradProbe(
                list(model.named_parameters()),
                tmp_path / name,
                level=level,
                bounds=[(-0.1, "-0.1"), (0.0, "0")] if level == "L2" else [],
            )
            optimizer.register_step_pre_hook(made.on_optimizer_step)
            return made

        return begin

    train(probe("native")).flush()
    with as_device("kernel"):
        made = train(probe("device"), lambda step: waits.append(_torch.kernel_work("cpu")[2]))
        made.flush()
    assert len(set(waits)) == 1, "a step waited for the device"
    for step in range(STEPS):
        rows = []
        for name in ("native", "device"):
            folder = tmp_path / name / "rank0"
            with (folder / f"grad_summary_{step}.csv").open(encoding="utf-8-sig", newline="") as file:
                rows.append(list(csv.DictReader(file)))
        assert [row["param_name"] for row in rows[1]] == PARAMETERS
        for native, device in zip(*rows):
            assert float(device["norm"]) == pytest.approx(float(native["norm"]), rel=1e-5, nan_ok=True)
            assert {**device, "norm": ""} == {**native, "norm": ""}
        for parameter in PARAMETERS:
            native_signs, signs = (
                np.load(tmp_path / name / "rank0" / f"step{step}" / f"{parameter}.npy")
                for name in ("native", "device")
            )
            assert np.array_equal(signs, native_signs)


@pytest.mark.parametrize("way", ["kernel", "operators"])
def test_what_is_kept_from_step_to_step_comes_back_in_pieces(tmp_path: Path, way: Way) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = torch.nn.Parameter(torch.randn(700, 1100))  # 3 MB
            self.with_gaps = torch.nn.Parameter(torch.randn(1100, 600).t())
            self.small = torch.nn.Parameter(torch.randn(()))

        def forward(self, x: Any) -> Any:
            return (x / 1000 @ self.large) @ self.with_gaps.t() * self.small

    native, device = native_and_device(tmp_path, way, Model, (3, 700), quantities=["update", "direction"])
    for quantity in ("update.distance", "update.ratio", "gradient_change.cosine"):
        for parameter in ("large", "with_gaps", "small"):
            key = f"{quantity}/{parameter}"
            assert device[key] == pytest.approx(native[key], rel=1e-4), key


def test_experts_of_a_device_are_counted_without_waiting(tmp_path: Path) -> None:
    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = torch.nn.Linear(4, 3)
            self.experts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Any) -> Any:
            weights = self.router(x).softmax(-1)
            return sum(weights[..., i : i + 1] * one(x) for i, one in enumerate(self.experts))

    def made() -> torch.nn.Module:
        return torch.nn.Sequential(Experts())

    native, device = native_and_device(tmp_path, "kernel", made, (8, 4), quantities=["experts"])
    assert any(key.startswith("expert_load") for key in native)
    for key, column in native.items():
        assert device[key] == pytest.approx(column, rel=1e-5), key
