# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of a device are measured there, and fetched once. Here the same code runs on tensors of the CPU."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, debugger, run, tensors_of


def one_step(directory: Path, level: str, way: str, infinite: bool, task: str) -> None:
    import torch
    from msprobe.native import torch_adapter
    from torch import nn

    torch_adapter().set_device_way(way)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    probe = debugger(directory, level=level, task=task)
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
    for way in ("none", "kernel", "operators"):
        folder = tmp_path / way
        folder.mkdir()
        run(one_step, folder, level, way, False, task, timeout=200)
        found[way] = Dump(folder).check().data
    for way in ("kernel", "operators"):
        assert list(found[way]) == list(found["none"])
        compared = same(found[way], found["none"], sketches=way == "kernel")
        assert compared > 200


def same(left: Any, right: Any, sketches: bool) -> int:
    """How many numbers were compared."""
    if isinstance(right, dict):
        if "sketch" in right:
            assert ("sketch" in left) == sketches
            if sketches:
                assert digest(left) == digest(right)
        left, right = ({key: v for key, v in one.items() if key != "sketch"} for one in (left, right))
        assert list(left) == list(right)
        numbers = set(right)
        if is_half(right):  # on devices the norm is not rounded to the dtype
            assert math.isclose(left["Norm"], right["Norm"], rel_tol=1e-2)
            numbers.remove("Norm")
        return sum(same(left[key], right[key], sketches) for key in numbers)
    if isinstance(right, list):
        assert len(left) == len(right)
        return sum(same(a, b, sketches) for a, b in zip(left, right))
    if isinstance(right, float):
        assert isinstance(left, float)
        assert math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-7) or (left != left and right != right)
        return 1
    assert left == right
    assert type(left) is type(right)
    return 1


def is_half(tensor: dict[str, Any]) -> bool:
    return tensor.get("dtype") in ("torch.float16", "torch.bfloat16") and tensor["Norm"] is not None


def digest(tensor: dict[str, Any]) -> bytes:
    return base64.b64decode(tensor["sketch"])[1:9]


def test_the_first_infinity_is_named(tmp_path):
    for way in ("kernel", "operators"):
        (tmp_path / way).mkdir()
        run(one_step, tmp_path / way, "L0", way, True, "statistics", timeout=200)
        summary = Dump(tmp_path / way).json("summary.json")
        assert summary["first_non_finite"] == "Module.3.Linear.forward.0"


def test_saved_gradients_and_overflows(tmp_path):
    run(saved, tmp_path, timeout=200)
    data = Dump(tmp_path).json("debug.json")["data"]
    assert data["x.0.debug"]["Max"] == 2.0
    assert data["x_grad.0.debug"]["Max"] == 4.0


def saved(directory: Path) -> None:
    import torch
    from msprobe.native import torch_adapter

    torch_adapter().set_device_way("kernel")
    probe = debugger(directory, level="debug")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    probe.save(x, "x")
    x.pow(2).sum().backward()
    probe.step()


def counted(directory: Path, level: str) -> dict[str, list[int]]:
    """Launches of the kernel, and tensors that it reads, in one step of several small programs."""
    import torch
    from msprobe.native import torch_adapter

    torch_adapter().set_device_way("kernel")
    probe = debugger(directory, level=level)
    found: dict[str, list[int]] = {}

    def step(name: str, work: Any) -> None:
        probe.start()
        before = torch_adapter().kernel_work("cpu")
        work()
        after = torch_adapter().kernel_work("cpu")
        probe.stop()
        probe.step()
        found[name] = [after[0] - before[0], after[1] - before[1]]

    x, y = torch.randn(8), torch.randn(8)
    step("one call", lambda: torch.add(x, y))
    step("a chain", lambda: torch.exp(torch.relu(torch.add(x, y))))
    step("in place", lambda: torch.exp(torch.add(x, y).mul_(2)))

    def behind_our_back() -> None:
        z = torch.add(x, y)
        z.data.numpy()[:] = 5  # what changes memory without telling torch comes out of a call, or goes unseen
        torch.relu_(z.data)
        torch.exp(z)

    step("behind", behind_our_back)
    return found


def test_all_tensors_of_a_call_are_read_by_one_launch_and_what_is_known_not_again(tmp_path):
    found = run(counted, tmp_path, "L1", timeout=200)
    assert found["one call"] == [2, 3]  # two arguments, and the result
    assert found["a chain"] == [4, 5]  # each result goes into the next call
    assert found["in place"] == [4, 5]  # of mul_ its result, although its argument was known


def counted_of_two(directory: Path) -> dict[str, list[int]]:
    from msprobe.dump import data_dump

    data_dump._processes = lambda: 2  # type: ignore[assignment]
    return counted(directory, "L1")


def test_where_processes_train_together_every_tensor_is_read(tmp_path):
    """An all_reduce changes memory without telling torch."""
    assert run(counted_of_two, tmp_path, timeout=200)["a chain"] == [6, 7]


def known(directory: Path) -> None:
    import torch

    probe = debugger(directory, level="L1")
    x = torch.randn(64, 100)  # large enough to be looked up
    probe.start()
    y = torch.add(x, 1)
    torch.relu(y)
    y.mul_(2)
    torch.exp(y)
    torch.relu(y.t())
    z = torch.add(x, 1)
    z.data.add_(1)
    torch.relu(z)
    del z
    torch.relu(torch.add(x, 5))
    probe.stop()
    probe.step()


def test_what_is_known_is_what_would_be_read(tmp_path):
    """Each record holds the numbers of its own tensor, whatever was read once."""
    import torch

    torch.manual_seed(0)
    run(known, tmp_path, timeout=200)
    data = Dump(tmp_path).check().data
    norm = {name: [tensor["Norm"] for tensor in tensors_of(record)] for name, record in data.items()}
    y, doubled = norm["Torch.add.0.forward"][-1], norm["Tensor.mul_.0.forward"][-1]
    assert norm["Torch.relu.0.forward"][0] == y
    assert norm["Tensor.mul_.0.forward"][0] == y
    assert doubled == pytest.approx(2 * y, rel=1e-6)
    assert norm["Torch.exp.0.forward"][0] == doubled
    assert norm["Torch.relu.1.forward"][0] == pytest.approx(doubled, rel=1e-6)
    later = norm["Tensor.add_.0.forward"][-1]
    assert norm["Torch.relu.2.forward"][0] == later != norm["Torch.add.1.forward"][-1]
    assert norm["Torch.relu.3.forward"][0] == norm["Torch.add.2.forward"][-1] != later
