# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of a device are measured there, and fetched once. Here the same code runs on tensors of the CPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, debugger, run


def one_step(directory: Path, level: str, on_device: bool, infinite: bool, task: str) -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    probe = debugger(directory, level=level, task=task)
    if on_device:
        probe._task._session.treat_all_as_on_device()
    probe.start(model)
    x = torch.randn(6, 4)
    if infinite:
        with torch.no_grad():
            model[3].bias[0] = math.inf
    loss = model(x).pow(2).mean()
    loss.backward()
    kinds = [
        torch.arange(6).reshape(2, 3),
        torch.tensor([True, False]),
        torch.randn(3, dtype=torch.complex64),
        torch.tensor(3, dtype=torch.int16),
        torch.tensor(2.5, dtype=torch.float64),
        torch.tensor(1 + 2j),
        torch.randn(4, 4, dtype=torch.bfloat16),
        torch.randn(2, 3).half(),
        torch.zeros(0, 3),
        torch.tensor([1.0, math.nan]),
    ]
    for tensor in kinds:
        torch.relu(torch.ones(1))
        torch.unsqueeze(tensor, 0)
        torch.add(tensor, tensor)
    probe.stop()
    probe.step()


@pytest.mark.parametrize("level", ["L1", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_records_are_those_of_tensors_in_memory(tmp_path, level, task):
    found = {}
    for on_device in (False, True):
        folder = tmp_path / str(on_device)
        folder.mkdir()
        run(one_step, folder, level, on_device, False, task, timeout=200)
        found[on_device] = Dump(folder).check().data
    assert list(found[True]) == list(found[False])
    compared = same(found[True], found[False])
    assert compared > 200


def same(left: Any, right: Any) -> int:
    """How many numbers were compared."""
    if isinstance(right, dict):
        right = {key: value for key, value in right.items() if key != "sketch"}  # not taken on devices
        assert list(left) == list(right)
        return sum(same(left[key], right[key]) for key in right)
    if isinstance(right, list):
        assert len(left) == len(right)
        return sum(same(a, b) for a, b in zip(left, right))
    if isinstance(right, float):
        assert isinstance(left, float)
        assert math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-7) or (left != left and right != right)
        return 1
    assert left == right
    assert type(left) is type(right)
    return 1


def test_the_first_infinity_is_named(tmp_path):
    run(one_step, tmp_path, "L0", True, True, "statistics", timeout=200)
    summary = Dump(tmp_path).json("summary.json")
    assert summary["first_non_finite"] == "Module.3.Linear.forward.0"


def test_saved_gradients_and_overflows(tmp_path):
    run(saved, tmp_path, timeout=200)
    data = Dump(tmp_path).json("debug.json")["data"]
    assert data["x.0.debug"]["Max"] == 2.0
    assert data["x_grad.0.debug"]["Max"] == 4.0


def saved(directory: Path) -> None:
    import torch

    probe = debugger(directory, level="debug")
    probe._task._session.treat_all_as_on_device()
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    probe.save(x, "x")
    x.pow(2).sum().backward()
    probe.step()
