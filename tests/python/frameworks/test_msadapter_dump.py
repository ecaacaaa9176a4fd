# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps of a torch whose tensors are MindSpore's, as those of MSAdapter are, of stand-ins for both. MSAdapter
itself runs with no MindSpore that can be installed on a CPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# A process of its own: torch is another module there.
_PROGRAM = """
import sys, types
sys.path.insert(0, {here!r})
import numpy as np
import stand_in
sys.modules.update(stand_in.modules())

torch = types.ModuleType("torch")
torch.nn = types.ModuleType("torch.nn")
functional = torch.nn.functional = types.ModuleType("torch.nn.functional")
torch.Tensor = stand_in.Tensor


class Module:
    def __init__(self):
        self.__dict__.update(_parameters={{}}, _modules={{}}, training=True)

    def __setattr__(self, name, value):
        is_parameter = isinstance(value, stand_in.Parameter)
        (self._parameters if is_parameter else self._modules)[name] = value

    def __getattr__(self, name):
        for held in (self.__dict__["_parameters"], self.__dict__["_modules"]):
            if name in held:
                return held[name]
        raise AttributeError(name)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, inner in self._modules.items():
            yield from inner.named_modules(prefix + "." + name if prefix else name)


def linear(x, weight):
    return stand_in.MatMul()(x, weight)


class Linear(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = stand_in.Parameter(np.linspace(-1, 1, inputs * outputs).reshape(outputs, inputs))

    def forward(self, x):
        return functional.linear(x, self.weight)


class Net(Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = Linear(4, 6), Linear(6, 2)

    def forward(self, x):
        return self.fc2(functional.relu(self.fc1(x)))


functional.linear, functional.relu = linear, stand_in.relu
torch.add = stand_in.add
torch.nn.Module, torch.nn.Linear = Module, Linear
sys.modules.update({{"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": functional}})

from msprobe.mindspore import PrecisionDebugger

debugger = PrecisionDebugger("config.json")
net, x = Net(), stand_in.Tensor(np.linspace(-1, {last}, 12).reshape(3, 4))
parameters = [one for _, module in net.named_modules() for one in module._parameters.values()]
losses = []
for recorded in (False, True):
    if recorded:
        debugger.start({model})
    loss = torch.add(net(x), net(x)).sum()
    gradients = stand_in.gradients_of(loss, parameters)
    losses.append([float(loss.values), *(float(one.values.sum()) for one in gradients)])
    if recorded:
        debugger.stop()
        debugger.step()
assert repr(losses[0]) == repr(losses[1]), losses
assert functional.linear is linear and torch.add is stand_in.add
"""


def record(tmp_path: Path, level: str, task: str = "statistics", model: str = "net", last: float = 2) -> Any:
    config = {"task": task, "dump_path": str(tmp_path / "dump"), "level": level, task: {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    program = _PROGRAM.format(here=str(Path(__file__).parent), model=model, last=last)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def dump(tmp_path: Path, name: str = "dump.json") -> Any:
    return json.loads((tmp_path / "dump" / "step0" / "rank" / name).read_text())


def test_modules_and_functions_have_the_names_of_pytorch(tmp_path: Path) -> None:
    result = record(tmp_path, "mix")
    assert result.returncode == 0, result.stderr
    found = dump(tmp_path)
    assert found["framework"] == "mindtorch"
    assert [name for name in found["data"] if "forward" in name][:6] == [
        "Functional.linear.0.forward",
        "Module.fc1.Linear.forward.0",
        "Functional.relu.0.forward",
        "Functional.linear.1.forward",
        "Module.fc2.Linear.forward.0",
        "Functional.linear.2.forward",
    ]
    assert {"Torch.add.0.forward", "Tensor.sum.0.forward", "Tensor.sum.0.backward"} <= set(found["data"])
    assert {"Module.fc1.Linear.backward.0", "Module.fc1.Linear.parameters_grad"} <= set(found["data"])
    relu = found["data"]["Functional.relu.0.forward"]["input_args"][0]
    assert (relu["type"], relu["dtype"], relu["shape"]) == ("mindspore.Tensor", "Float32", [3, 6])
    assert dump(tmp_path, "construct.json")["Functional.linear.0.forward"] == "Module.fc1.Linear.forward.0"


def test_tensors_are_npy_files(tmp_path: Path) -> None:
    result = record(tmp_path, "L0", "tensor", "[net]")
    assert result.returncode == 0, result.stderr
    files = {path.name for path in (tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data").iterdir()}
    assert "Module.0.fc1.Linear.forward.0.parameters.weight.npy" in files
    assert {path.rpartition(".")[2] for path in files} == {"npy"}


def test_only_calls_with_an_overflow_are_kept_where_that_is_asked(tmp_path: Path) -> None:
    result = record(tmp_path, "L1", "overflow_check", last=3e38)
    assert result.returncode == 0, result.stderr
    assert next(iter(dump(tmp_path)["data"])) == "Functional.linear.0.forward"


@pytest.mark.parametrize("model", ["3", "[net, 3]"])
def test_what_is_no_module_is_said(tmp_path: Path, model: str) -> None:
    result = record(tmp_path, "mix", model=model)
    assert result.returncode == 1
    assert "expected a torch.nn.Module, or a list or tuple of Modules, found" in result.stderr
