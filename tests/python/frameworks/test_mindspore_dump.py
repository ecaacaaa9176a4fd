# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps of MindSpore trainings, of a stand-in: names, numbers, files, gradients. `./dev test-mindspore` asks
the real one for the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stand_in
from msprobe.native import InvalidArgument, UnsupportedError
from stand_in import Cell, Dense, Tensor, gradients_of


class Net(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = Dense(4, 6), Dense(6, 2)

    def construct(self, x: Tensor) -> Tensor:
        ops = sys.modules["mindspore.ops"]
        return self.fc2(ops.relu(self.fc1(x)))


@pytest.fixture
def ms(monkeypatch: pytest.MonkeyPatch, fresh_debugger: None) -> Any:
    return stand_in.install(monkeypatch)


Train = Callable[..., Path]


@pytest.fixture
def train(ms: Any, tmp_path: Path) -> Train:
    def run(level: str, steps: int = 1, model: Any = "net", **keys: Any) -> Path:
        from msprobe.mindspore import PrecisionDebugger

        section = keys.pop("section", {})
        config = {"task": "statistics", "dump_path": str(tmp_path / "dump"), "level": level, **keys}
        config[config["task"]] = {"data_mode": ["all"], **section}
        (tmp_path / "config.json").write_text(json.dumps(config))
        debugger = PrecisionDebugger(str(tmp_path / "config.json"))
        net, x = Net(), Tensor(np.linspace(-1, 2, 12).reshape(3, 4))
        for _ in range(steps):
            debugger.start(net if model == "net" else model)
            gradients_of(net(x).sum(), net.trainable_params())
            debugger.stop()
            debugger.step()
        return tmp_path / "dump" / "step0" / "rank"

    return run


def read(folder: Path, name: str = "dump.json") -> Any:
    return json.loads((folder / name).read_text())


def test_functions_primitives_and_tensor_methods_have_the_names_of_mindspore(train: Train) -> None:
    dump = read(train("L1"))
    assert (dump["framework"], dump["level"]) == ("mindspore", "L1")
    assert list(dump["data"]) == [
        "Primitive.shape_op.Shape.0.forward",
        "Primitive.matmul.MatMul.0.forward",
        "Functional.relu.0.forward",
        "Primitive.shape_op.Shape.1.forward",
        "Primitive.matmul.MatMul.1.forward",
        "Tensor.sum.0.forward",
        "Tensor.sum.0.backward",
        "Primitive.matmul.MatMul.1.backward",
        "Functional.relu.0.backward",
        "Primitive.matmul.MatMul.0.backward",
    ]
    data = dump["data"]
    x = data["Primitive.matmul.MatMul.0.forward"]["input_args"][0]
    assert (x["type"], x["dtype"], x["shape"], x["Max"]) == ("mindspore.Tensor", "Float32", [3, 4], 2.0)
    assert "requires_grad" not in x
    assert data["Primitive.shape_op.Shape.0.forward"]["output"] == [
        {"type": "int", "value": 3},
        {"type": "int", "value": 4},
    ]
    # The last argument first; one that needs no gradient has none.
    shapes = [g["shape"] for g in data["Primitive.matmul.MatMul.1.backward"]["output"]]
    assert shapes == [[2, 6], [3, 6]]
    assert len(data["Primitive.matmul.MatMul.0.backward"]["output"]) == 1


def test_cells_are_recorded_with_parameters_and_their_gradients(train: Train) -> None:
    folder = train("L0")
    data = read(folder)["data"]
    assert list(data) == [
        "Cell.fc1.Dense.forward.0",
        "Cell.fc1.Dense.parameters_grad",
        "Cell.fc2.Dense.forward.0",
        "Cell.fc2.Dense.parameters_grad",
        "Cell.fc2.Dense.backward.0",
        "Cell.fc1.Dense.backward.0",
    ]
    assert data["Cell.fc1.Dense.forward.0"]["parameters"]["weight"]["shape"] == [6, 4]
    assert data["Cell.fc2.Dense.parameters_grad"]["weight"][0]["shape"] == [2, 6]
    assert data["Cell.fc1.Dense.backward.0"]["output"] == [None]
    assert read(folder, "construct.json") == dict.fromkeys(
        (
            "Cell.fc1.Dense.forward.0",
            "Cell.fc2.Dense.forward.0",
            "Cell.fc2.Dense.backward.0",
            "Cell.fc1.Dense.backward.0",
        )
    )


def test_mix_places_calls_below_cells(train: Train) -> None:
    construct = read(train("mix"), "construct.json")
    assert construct["Primitive.matmul.MatMul.0.forward"] == "Cell.fc1.Dense.forward.0"
    assert construct["Primitive.matmul.MatMul.1.backward"] == "Cell.fc2.Dense.backward.0"
    assert construct["Functional.relu.0.forward"] is None


def test_tensors_become_npy_files(train: Train) -> None:
    folder = train("L1", task="tensor")
    stored = folder / "dump_tensor_data" / "Functional.relu.0.forward.output.0.npy"
    assert np.load(stored).shape == (3, 6)
    assert np.load(folder / "dump_tensor_data" / "Functional.relu.0.backward.output.0.npy").shape == (3, 6)


def test_the_gradient_of_an_argument_is_what_this_call_gives_it(
    ms: Any, tmp_path: Path, fresh_debugger: None
) -> None:
    """It is used by another call, too, and two times by this one."""
    from msprobe.mindspore import PrecisionDebugger

    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="L1")
    parameter = ms.Parameter([3.0])
    debugger.start()
    loss = ms.ops.add(ms.ops.square(parameter), ms.ops.relu(parameter)).sum()
    (whole,) = gradients_of(loss, [parameter])
    debugger.stop()
    debugger.step()
    data = read(tmp_path / "step0" / "rank")["data"]
    assert whole.values.item() == 8.0  # 2 * 3 + 1, and 1
    assert data["Functional.square.0.backward"]["output"][0]["Max"] == 7.0
    assert data["Functional.relu.0.backward"]["output"][0]["Max"] == 1.0


def test_training_is_equal_to_the_bit_and_nothing_is_left_hooked(train: Train, ms: Any) -> None:
    before = (Cell.__call__, vars(ms.ops).copy(), Tensor.sum)
    train("mix", steps=2)
    assert (Cell.__call__, vars(ms.ops), Tensor.sum) == before
    net = Net()
    assert type(net.fc1.matmul) is stand_in.MatMul


def test_a_model_may_be_left_out_and_primitives_with_it(train: Train) -> None:
    names = list(read(train("L1", model=None))["data"])
    assert names[:2] == ["Functional.relu.0.forward", "Tensor.sum.0.forward"]


def test_compiled_functions_run_without_hooks(train: Train, ms: Any, tmp_path: Path) -> None:
    from msprobe.mindspore import PrecisionDebugger

    seen = []

    def scaled(x: Tensor) -> Tensor:
        seen.append(ms.ops.relu is stand_in.relu)
        return ms.ops.relu(x)

    executor = sys.modules["mindspore.common.api"]._JitExecutor(scaled)
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="L1")
    debugger.start()
    executor(Tensor([1.0]))
    hooked = ms.ops.relu is not stand_in.relu
    debugger.stop()
    debugger.step()
    assert (seen, hooked) == ([True], True)
    assert list(read(tmp_path / "step0" / "rank")["data"]) == ["Jit.scaled.0.forward"]


def test_a_list_of_cells_has_its_index_in_names(train: Train, ms: Any) -> None:
    from msprobe.frameworks.mindspore.mindspore_port import MindSporePort

    names = [name for name, _ in MindSporePort().modules([Net(), Net()])]
    assert names == ["Cell.0.fc1.Dense", "Cell.0.fc2.Dense", "Cell.1.fc1.Dense", "Cell.1.fc2.Dense"]


def test_what_does_not_work_is_said(train: Train, ms: Any, tmp_path: Path) -> None:
    from msprobe.mindspore import PrecisionDebugger

    with pytest.raises(InvalidArgument, match="expected a mindspore"):
        train("L0", model=3)
    PrecisionDebugger._reset()
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UnsupportedError, match="set_context"):
        train("L0")
    PrecisionDebugger._reset()
    with pytest.raises(UnsupportedError, match="L2 records kernels of Ascend"):
        train("L2", task="tensor", section={"list": ["Functional.relu.0.forward"]})
    with pytest.raises(UnsupportedError, match=r'"task": expected grad_probe, statistics.* found monitor'):
        PrecisionDebugger(dump_path=str(tmp_path), task="monitor")


def test_without_mindspore_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_debugger: None
) -> None:
    monkeypatch.setitem(sys.modules, "mindspore", None)
    from msprobe.mindspore import PrecisionDebugger

    with pytest.raises(UnsupportedError, match="needs MindSpore, which"):
        PrecisionDebugger(dump_path=str(tmp_path))


def test_the_gradient_probe_records_what_the_optimizer_is_given(ms: Any, tmp_path: Path) -> None:
    from msprobe.mindspore import PrecisionDebugger

    class Sgd(Cell):
        def __init__(self, parameters: list[Any]) -> None:
            super().__init__()
            object.__setattr__(self, "parameters", parameters)

        def construct(self, gradients: list[Tensor]) -> bool:
            return True

    net = Net()
    optimizer = Sgd(net.trainable_params())
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="grad_probe")
    debugger.monitor(optimizer)
    for _ in range(2):
        loss = net(Tensor(np.ones((3, 4)))).sum()
        assert optimizer(gradients_of(loss, optimizer.parameters)) is True
    debugger.stop()
    rows = (tmp_path / "rank0" / "grad_summary_1.csv").read_text(encoding="utf-8-sig").splitlines()
    assert rows[0] == "param_name,max,min,norm,shape"
    assert [row.split(",")[0] for row in rows[1:]] == ["fc1.weight", "fc2.weight"]
    assert np.load(tmp_path / "rank0" / "step0" / "fc1.weight.npy").shape == (6, 4)
    PrecisionDebugger._reset()
    assert vars(optimizer)["before"] == []


def test_a_range_of_tokens_is_one_of_the_calls_of_the_model(ms: Any, tmp_path: Path) -> None:
    from msprobe.mindspore import PrecisionDebugger

    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="statistics", level="L1")
    net = Net()
    debugger.start(net, token_range=[1, 2])
    for _ in range(4):
        net(Tensor(np.ones((3, 4))))
    debugger.stop()
    debugger.step()
    names = [name for name in read(tmp_path / "step0" / "rank")["data"] if "relu" in name]
    assert names == ["Functional.relu.0.forward", "Functional.relu.1.forward"]
