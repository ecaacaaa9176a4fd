# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of trainings by the real MindSpore, on the CPU: names, statistics, files, and that they change
nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from msprobe.mindspore import MsprobeStep, PrecisionDebugger, seed_all
from msprobe.native import InvalidArgument, UnsupportedError
from small_cells import Net

FORWARD = [
    "Primitive.shape_op.Shape.0.forward",
    "Primitive.matmul.MatMul.0.forward",
    "Primitive.bias_add.BiasAdd.0.forward",
    "Functional.relu.0.forward",
    "Primitive.shape_op.Shape.1.forward",
    "Primitive.matmul.MatMul.1.forward",
    "Primitive.bias_add.BiasAdd.1.forward",
    "Tensor.sum.0.forward",
]
BACKWARD = [
    "Tensor.sum.0.backward",
    "Primitive.bias_add.BiasAdd.1.backward",
    "Primitive.matmul.MatMul.1.backward",
    "Functional.relu.0.backward",
    "Primitive.bias_add.BiasAdd.0.backward",
    "Primitive.matmul.MatMul.0.backward",
]
OF_CELLS = [
    "Cell.fc1.Dense.forward.0",
    "Cell.fc1.Dense.parameters_grad",
    "Cell.fc2.Dense.forward.0",
    "Cell.fc2.Dense.parameters_grad",
    "Cell.fc2.Dense.backward.0",
    "Cell.fc1.Dense.backward.0",
]


def data_of(folder: Path) -> dict[str, Any]:
    text = (folder / "step0" / "rank" / "dump.json").read_text()
    data: dict[str, Any] = json.loads(text)["data"]
    return data


X = np.random.RandomState(0).randn(3, 4).astype(np.float32)


def record(
    folder: Path, level: str, net: Any, loss: Callable[[Tensor], Tensor], **keys: Any
) -> dict[str, Any]:
    debugger = PrecisionDebugger(dump_path=str(folder), level=level, **{"task": "statistics", **keys})
    debugger.start(net)
    ms.value_and_grad(loss, None, net.trainable_params())(Tensor(X))
    debugger.stop()
    debugger.step()
    return data_of(folder)


def agrees(item: dict[str, Any], array: Any) -> bool:
    found = [item[key] for key in ("Max", "Min", "Mean", "Norm")]
    return np.allclose(found, [array.max(), array.min(), array.mean(), np.linalg.norm(array)], rtol=1e-5)


def test_torch_is_not_imported(tmp_path: Path) -> None:
    """In a process of its own: other tests import it."""
    program = f"""
import sys
import mindspore as ms
from msprobe.mindspore import PrecisionDebugger
ms.set_device("CPU")
debugger = PrecisionDebugger(dump_path={str(tmp_path)!r}, task="statistics", level="L1")
debugger.start()
ms.ops.relu(ms.Tensor([1.0]))
debugger.stop()
debugger.step()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(data_of(tmp_path)) == ["Functional.relu.0.forward"]


def test_the_three_levels_have_the_names_of_the_existing_tool(tmp_path: Path) -> None:
    net = Net()
    for level, names in (("L1", [*FORWARD, *BACKWARD]), ("L0", OF_CELLS)):
        assert list(record(tmp_path / level, level, net, lambda x: net(x).sum())) == names
        PrecisionDebugger._reset()
    both = record(tmp_path / "mix", "mix", net, lambda x: net(x).sum())
    assert sorted(both) == sorted([*FORWARD, *BACKWARD, *OF_CELLS])


def test_statistics_are_those_of_numpy(tmp_path: Path) -> None:
    net = Net()
    data = record(tmp_path, "mix", net, lambda x: net(x).sum())
    assert agrees(data["Primitive.matmul.MatMul.0.forward"]["input_args"][0], X)
    assert agrees(data["Cell.fc1.Dense.forward.0"]["parameters"]["weight"], net.fc1.weight.asnumpy())
    gradients = ms.grad(lambda x: net(x).sum(), None, net.trainable_params())(Tensor(X))
    weight = data["Cell.fc1.Dense.parameters_grad"]["weight"][0]
    assert agrees(weight, gradients[0].asnumpy())
    assert agrees(data["Primitive.matmul.MatMul.0.backward"]["output"][0], gradients[0].asnumpy())
    assert data["Cell.fc1.Dense.backward.0"]["output"] == [None]


def test_gradients_are_the_part_of_each_call(tmp_path: Path) -> None:
    """The argument is used by two calls, and by one of them twice."""

    class Two(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(Tensor([3.0], ms.float32), name="w")

        def construct(self, x: Tensor) -> Tensor:
            return ops.mul(self.w, self.w) + ops.relu(self.w)

    net = Two()
    data = record(tmp_path, "L1", net, lambda x: net(x).sum())
    assert [g["Max"] for g in data["Functional.mul.0.backward"]["output"]] == [6.0, 6.0]
    assert data["Functional.relu.0.backward"]["output"][0]["Max"] == 1.0


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_training_is_equal_to_the_bit(tmp_path: Path, level: str) -> None:
    def train(records: bool) -> list[Any]:
        seed_all(5, rm_dropout=False)
        net = Net()
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        step = ms.value_and_grad(lambda x: (ops.tanh(net(x)) ** 2).mean(), None, optimizer.parameters)
        if records:
            debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level=level)
        for _ in range(4):
            if records:
                debugger.start(net)
            _, gradients = step(Tensor(X))
            optimizer(gradients)
            if records:
                debugger.stop()
                debugger.step()
        return [parameter.asnumpy().copy() for parameter in optimizer.parameters]

    plain = train(False)
    call, relu, matmul = nn.Cell.__call__, ops.relu, ops.MatMul
    recorded = train(True)
    assert all(np.array_equal(a, b) for a, b in zip(plain, recorded))
    assert (nn.Cell.__call__, ops.relu) == (call, relu)
    assert "sum" not in vars(Tensor)
    assert type(nn.Dense(2, 2).matmul) is matmul


def test_tensors_become_npy_files_also_of_bfloat16(tmp_path: Path) -> None:
    net = Net()
    data = record(
        tmp_path,
        "L1",
        net,
        lambda x: ops.cast(ops.cast(net(x), ms.bfloat16), ms.float32).sum(),
        task="tensor",
    )
    folder = tmp_path / "step0" / "rank" / "dump_tensor_data"
    assert (folder / "Functional.relu.0.backward.output.0.npy").is_file()
    item = data["Functional.cast.0.forward"]["output"][0]
    assert item["dtype"] == "BFloat16"
    stored = np.load(folder / item["data_name"])
    assert [item["Max"], item["Min"]] == [stored.max(), stored.min()]


def test_cells_of_several_inputs_and_outputs(tmp_path: Path) -> None:
    class Pair(nn.Cell):
        def construct(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            return a * b, a + b

    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.pair = nn.Dense(4, 4), Pair()

        def construct(self, x: Tensor) -> Tensor:
            product, total = self.pair(self.fc(x), x)
            return product + total

    net = Outer()
    backward = record(tmp_path, "L0", net, lambda x: net(x).sum())["Cell.pair.Pair.backward.0"]
    assert len(backward["input"]) == 2
    assert backward["output"][0]["shape"] == [3, 4]
    assert backward["output"][1] is None


def test_mint_is_recorded_under_its_own_name(tmp_path: Path) -> None:
    net = Net()
    names = list(record(tmp_path, "L1", net, lambda x: mint.nn.functional.relu(mint.abs(net(x))).sum()))
    assert "Mint.abs.0.forward" in names
    assert "MintFunctional.relu.0.backward" in names


def test_compiled_functions_still_compile(tmp_path: Path) -> None:
    net = Net()

    @ms.jit
    def scaled(x: Tensor) -> Tensor:
        return ops.relu(x) * 2

    names = list(record(tmp_path, "L1", net, lambda x: scaled(net(x)).sum()))
    assert "Jit.scaled.0.forward" in names
    assert "Tensor.sum.0.forward" in names


def test_the_gradient_probe_records_what_the_optimizer_is_given(tmp_path: Path) -> None:
    net = nn.SequentialCell(nn.Dense(4, 6), nn.ReLU(), nn.Dense(6, 2))
    optimizer = nn.Adam(net.trainable_params())
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="grad_probe")
    debugger.monitor(optimizer)
    step = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
    for _ in range(2):
        _, gradients = step(Tensor(X))
        optimizer(gradients)
    debugger.stop()
    lines = (tmp_path / "rank0" / "grad_summary_1.csv").read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "param_name,max,min,norm,shape"
    assert [line.split(",")[0] for line in lines[1:]] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert float(lines[4].split(",")[1]) == 3.0
    direction = np.load(tmp_path / "rank0" / "step1" / "0.weight.npy")
    assert np.array_equal(direction, gradients[0].asnumpy() > 0)


def test_saved_values_and_their_gradients(tmp_path: Path) -> None:
    net = Net()
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="debug")

    def loss(x: Tensor) -> Tensor:
        out = net(x)
        debugger.save({"out": out}, "seen")
        return out.sum()

    ms.value_and_grad(loss, None, net.trainable_params())(Tensor(X))
    debugger.step()
    data = json.loads((tmp_path / "step0" / "rank" / "debug.json").read_text())["data"]
    assert data["seen.0.debug"]["out"]["shape"] == [3, 2]
    assert data["seen_grad.0.debug"]["out"]["Max"] == 1.0


def test_a_model_trained_by_the_library_is_recorded_by_a_callback(tmp_path: Path) -> None:
    net = nn.WithLossCell(Net(), nn.MSELoss())
    data = ms.dataset.NumpySlicesDataset((X, np.zeros((3, 2), np.float32)), shuffle=False).batch(3)
    model = ms.Model(nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1)))
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="L0")
    model.train(1, data, callbacks=[MsprobeStep(debugger)], dataset_sink_mode=False)
    names = list(data_of(tmp_path))
    assert any(name.endswith("fc1.Dense.forward.0") for name in names)


def test_dropout_is_taken_away(tmp_path: Path) -> None:
    seed_all(3)
    drop = nn.Dropout(p=0.5)
    drop.set_train()
    assert np.array_equal(drop(Tensor(X)).asnumpy(), X)
    assert np.array_equal(ops.dropout(Tensor(X), 0.5).asnumpy(), X)


def test_static_graphs_are_refused_with_what_to_do(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="L1")
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UnsupportedError, match="PYNATIVE_MODE"):
        debugger.start(Net())
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(InvalidArgument, match="expected a mindspore"):
        debugger.start(3)
