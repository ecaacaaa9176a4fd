# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A torch over the real MindSpore, with modules that are Cells, as MSAdapter has them. MSAdapter itself asks
for a MindSpore that cannot be installed any more (docs/mindspore.md).
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn
from msprobe.mindspore import PrecisionDebugger

functional = types.ModuleType("torch.nn.functional")


class Module(nn.Cell):
    def construct(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any) -> Any:
        raise NotImplementedError

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        yield from self.cells_and_names()


def relu(x: Tensor) -> Tensor:
    return mint.nn.functional.relu(x)


def linear(x: Tensor, weight: Any, bias: Any) -> Tensor:
    return mint.nn.functional.linear(x, weight, bias)


class Linear(Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        values = np.linspace(-1, 1, inputs * outputs, dtype=np.float32).reshape(outputs, inputs)
        self.weight = ms.Parameter(Tensor(values), name="weight")
        self.bias = ms.Parameter(Tensor(np.zeros(outputs, np.float32)), name="bias")

    def forward(self, x: Tensor) -> Any:
        return functional.linear(x, self.weight, self.bias)


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = Linear(4, 6), Linear(6, 2)

    def forward(self, x: Tensor) -> Any:
        return self.fc2(functional.relu(self.fc1(x)))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = types.ModuleType("torch")
    made.nn: Any = types.ModuleType("torch.nn")
    made.Tensor, made.nn.Module, made.nn.functional = Tensor, Module, functional
    functional.__dict__.update(relu=relu, linear=linear)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in {"torch": made, "torch.nn": made.nn, "torch.nn.functional": functional}.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_modules_and_functions_have_the_names_of_pytorch(torch: None, tmp_path: Path, level: str) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"task": "statistics", "dump_path": "dump", "level": level, "statistics": {}})
    )
    net, x = Net(), Tensor(np.random.RandomState(0).randn(3, 4).astype(np.float32))
    step = ms.value_and_grad(lambda value: net(value).sum(), None, net.trainable_params())
    plain = step(x)
    debugger = PrecisionDebugger("config.json")
    debugger.start(net)
    recorded = step(x)
    debugger.stop()
    debugger.step()
    assert plain[0].asnumpy() == recorded[0].asnumpy()
    for a, b in zip(plain[1], recorded[1]):
        assert (a.asnumpy() == b.asnumpy()).all()
    found = json.loads((tmp_path / "dump/step0/rank/dump.json").read_text())
    assert found["framework"] == "mindtorch"
    calls = ["Functional.linear.0", "Functional.relu.0", "Functional.linear.1", "Tensor.sum.0"]
    modules = ["Module.fc1.Linear", "Module.fc2.Linear"]
    names = {name for name in found["data"]}
    expected = set()
    if level != "L0":
        expected |= {f"{call}.{way}" for call in calls for way in ("forward", "backward")}
    if level != "L1":
        expected |= {f"{module}.{way}.0" for module in modules for way in ("forward", "backward")}
        expected |= {f"{module}.parameters_grad" for module in modules}
    assert names == expected
