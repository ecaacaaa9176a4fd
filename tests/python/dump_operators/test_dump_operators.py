# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Level L2: the operators below one call, and nothing else, without any effect on the training."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh_debugger")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.act = nn.ReLU(inplace=True)
        self.second = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.softmax(self.second(self.act(self.first(x))), dim=-1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return functional.dropout(x, 0.5)


Result = tuple[list[float], list[torch.Tensor]]


def train(debugger: Any = None, steps: int = 1, model: nn.Module | None = None) -> Result:
    torch.manual_seed(11)
    model = Model() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        x = torch.randn(2, 3, 6)
        if debugger is not None:
            debugger.start(model)
        loss = model(x).pow(2).sum()
        loss.backward()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses, [p.detach().clone() for p in model.parameters()]


Start = Callable[..., Any]


@pytest.fixture
def start_debugger(tmp_path: Path) -> Start:
    def make(name: str, **section: Any) -> Any:
        from msprobe.pytorch import PrecisionDebugger

        config = {
            "task": "tensor",
            "level": "L2",
            "dump_path": str(tmp_path / "dump"),
            "tensor": {"list": [name], **section},
        }
        (tmp_path / "config.json").write_text(json.dumps(config))
        return PrecisionDebugger(str(tmp_path / "config.json"))

    return make


def dump_of(tmp_path: Path, step: int = 0, file: str = "dump.json") -> Any:
    return json.loads((tmp_path / f"dump/step{step}/rank/{file}").read_text())


def operators_of(records: dict[str, Any]) -> Counter[str]:
    """How often each operator is there; all names are of the prefix, and counted from 0."""
    counts: Counter[str] = Counter()
    for name in records:
        prefix, operator, number, _ = name.split(".")
        assert prefix == "Aten"
        assert int(number) == counts[operator], name
        counts[operator] += 1
    return counts


def stored(tmp_path: Path, element: dict[str, Any]) -> torch.Tensor:
    path = tmp_path / "dump/step0/rank/dump_tensor_data" / element["data_name"]
    return torch.load(path, weights_only=True)


NAMES = (
    "Functional.linear.2.forward",
    "Functional.linear.2.backward",
    "Functional.relu.0.forward",
    "Tensor.pow.0.backward",
    "Module.layers.0.act.ReLU.forward.0",
    "Module.layers.1.Block.forward.0",
    "Module.layers.1.Block.backward.0",
)


@pytest.mark.parametrize("name", NAMES)
def test_l2_results_are_bit_identical_and_nothing_stays(
    name: str, tmp_path: Path, start_debugger: Start
) -> None:
    losses, parameters = train(steps=3)
    recorded_losses, recorded_parameters = train(start_debugger(name), steps=3)
    assert recorded_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(recorded_parameters, parameters))
    direction = name.rsplit(".", 2)[1 if name.startswith("Module.") else 2]
    for step in range(3):
        records = dump_of(tmp_path, step)["data"]
        assert records
        assert all(record.endswith("." + direction) for record in records)
        operators_of(records)
    assert not torch.autograd._profiler_enabled()
    assert torch._C._len_torch_function_stack() == 0
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_l2_forward_of_an_api_holds_only_its_operators(tmp_path: Path, start_debugger: Start) -> None:
    train(start_debugger("Functional.linear.2.forward"))
    dump = dump_of(tmp_path)
    assert (dump["task"], dump["level"]) == ("tensor", "L2")
    counts = operators_of(dump["data"])
    assert counts["linear"] == counts["addmm"] == 1
    assert not {"relu_", "softmax", "_softmax", "add", "dropout"} & set(counts)
    construct = dump_of(tmp_path, file="construct.json")
    assert construct["Aten.linear.0.forward"] == "Functional.linear.2.forward"
    assert construct["Functional.linear.2.forward"] is None
    assert set(construct) == {*dump["data"], "Functional.linear.2.forward"}


def test_l2_records_compute_what_they_say(tmp_path: Path, start_debugger: Start) -> None:
    train(start_debugger("Functional.linear.2.forward"))
    record = dump_of(tmp_path)["data"]["Aten.addmm.0.forward"]
    bias, left, right = (stored(tmp_path, element) for element in record["input_args"])
    output = stored(tmp_path, record["output"][0])
    torch.testing.assert_close(torch.addmm(bias, left, right), output)
    assert record["input_kwargs"] == {
        "beta": {"type": "int", "value": 1},
        "alpha": {"type": "int", "value": 1},
    }


def test_l2_backward_of_an_api_holds_only_its_operators(tmp_path: Path, start_debugger: Start) -> None:
    model = Model()
    train(start_debugger("Functional.linear.2.backward"), model=model)
    records = dump_of(tmp_path)["data"]
    counts = operators_of(records)
    assert counts["mm"] == 2  # gradients of input and weight
    assert not {"threshold_backward", "_softmax_backward_data", "add"} & set(counts)
    products = [stored(tmp_path, records[f"Aten.mm.{n}.backward"]["output"][0]) for n in range(2)]
    shapes = {tuple(product.shape) for product in products}
    assert shapes in ({(6, 6), (6, 8)}, {(6, 6), (8, 6)})


def test_l2_in_place_inputs_hold_the_old_values(tmp_path: Path, start_debugger: Start) -> None:
    train(start_debugger("Module.layers.0.act.ReLU.forward.0"))
    record = dump_of(tmp_path)["data"]["Aten.relu_.0.forward"]
    before = stored(tmp_path, record["input_args"][0])
    after = stored(tmp_path, record["output"][0])
    assert before.min() < 0
    assert torch.equal(after, before.relu())


def test_l2_module_backward_ends_at_its_inputs(tmp_path: Path, start_debugger: Start) -> None:
    train(start_debugger("Module.layers.1.Block.backward.0"))
    counts = operators_of(dump_of(tmp_path)["data"])
    assert counts["_softmax_backward_data"] == counts["threshold_backward"] == 1
    assert counts["mm"] == 4


def test_l2_a_call_that_never_comes_is_told(start_debugger: Start, caplog: pytest.LogCaptureFixture) -> None:
    debugger = start_debugger("Functional.linear.99.forward")
    with caplog.at_level("WARNING", logger="msprobe"):
        train(debugger)
    assert "no operator of Functional.linear.99.forward" in caplog.text


def test_l2_npy_files(tmp_path: Path, start_debugger: Start) -> None:
    numpy = pytest.importorskip("numpy")
    train(start_debugger("Functional.linear.0.forward", tensor_format="npy"))
    element = dump_of(tmp_path)["data"]["Aten.addmm.0.forward"]["output"][0]
    array = numpy.load(tmp_path / "dump/step0/rank/dump_tensor_data" / element["data_name"])
    assert list(array.shape) == element["shape"]


def test_l2_an_exception_in_the_call_closes_it(tmp_path: Path, start_debugger: Start) -> None:
    debugger = start_debugger("Functional.linear.0.forward")
    debugger.start(Model())
    with pytest.raises(RuntimeError):
        functional.linear(torch.ones(2, 3), torch.ones(4, 5))
    torch.ones(3).neg()
    debugger.stop()
    debugger.step()
    names = set(dump_of(tmp_path)["data"])
    assert "Aten.linear.0.forward" in names
    assert "Aten.neg.0.forward" not in names


def test_l2_dispatch_modes_of_the_user_see_no_operator_of_ours(start_debugger: Start) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Listening(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Listening() as plain:
        train()
    with Listening() as recorded:
        train(start_debugger("Module.layers.0.Block.forward.0"))
    assert recorded.seen == plain.seen


def test_l2_custom_operators_have_their_namespace(tmp_path: Path, start_debugger: Start) -> None:
    library = torch.library.Library("msprobe_test", "FRAGMENT")
    library.define("twice(Tensor x, str how) -> Tensor")
    library.impl("twice", lambda x, how: x * 2, "CPU")
    debugger = start_debugger("Module.only.Twice.forward.0")

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.msprobe_test.twice(x, "plainly")

    model = nn.Module()
    model.only = Twice()
    debugger.start(model)
    model.only(torch.ones(2))
    debugger.stop()
    debugger.step()
    record = dump_of(tmp_path)["data"]["Aten.msprobe_test::twice.0.forward"]
    assert record["input_args"][1] == {"type": "str", "value": "plainly"}


class Scaled(nn.Module):
    """torch leaves modules of its own uncompiled, with some versions."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x * self.scale, x)


def test_l2_compiled_regions_are_not_traced_into_the_record(tmp_path: Path, start_debugger: Start) -> None:
    from torch._dynamo.utils import counters

    debugger = start_debugger("Module.only.Scaled.forward.0")
    model = nn.Module()
    model.only = Scaled()
    model.only.compile(backend="eager")
    counters.clear()
    debugger.start(model)
    model.only(torch.ones(2, 3))
    debugger.stop()
    debugger.step()
    assert counters["frames"]["ok"] == 1
    records = dump_of(tmp_path)["data"]
    assert operators_of(records)["linear"] == 1
    for name, record in records.items():
        for element in (*record["input_args"], *record["output"]):
            if isinstance(element, dict) and element.get("type") == "torch.Tensor":
                assert element["Max"] is not None, name


def test_l2_operators_of_a_fake_mode_are_not_in_the_record(tmp_path: Path, start_debugger: Start) -> None:
    from torch._subclasses import FakeTensorMode

    class Estimating(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with FakeTensorMode() as fake:
                like = fake.from_tensor(x)
                torch.mm(like, like.t()).exp()
            return x.sin()

    debugger = start_debugger("Module.only.Estimating.forward.0")
    model = nn.Module()
    model.only = Estimating()
    debugger.start(model)
    model.only(torch.ones(2, 3))
    debugger.stop()
    debugger.step()
    assert list(dump_of(tmp_path)["data"]) == ["Aten.sin.0.forward"]


def test_l2_checkpointed_forward_in_the_backward(tmp_path: Path, start_debugger: Start) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = x + checkpoint(layer, x, use_reentrant=False)
            return x

    plain = train(model=_seeded(Checkpointed))
    recorded = train(start_debugger("Module.layers.1.Block.backward.0"), model=_seeded(Checkpointed))
    assert plain[0] == recorded[0]
    assert all(torch.equal(a, b) for a, b in zip(plain[1], recorded[1]))
    counts = operators_of(dump_of(tmp_path)["data"])
    assert counts["mm"] == 4
    assert counts["addmm"] == 2  # what is computed again, the backward computes


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(5)
    return make()
