# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Next to modes and tensor subclasses of the user, on tensors of unusual kinds, and under autocast."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, captured, debugger, run


def modes(directory: Path, order: str) -> dict[str, list[str]]:
    """A mode of the user sees what it sees without the tool, whether it came first or last."""
    import torch
    from torch.overrides import TorchFunctionMode, resolve_name

    class Watching(TorchFunctionMode):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(resolve_name(function) or str(function))
            return function(*args, **(kwargs or {}))

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
    x = torch.ones(2, 3)

    def work() -> None:
        y = torch.nn.functional.softmax(model(x), dim=-1)
        y.sin_()
        torch.exp(y + 1)
        torch.split(y, 1)

    with Watching() as alone:
        work()
    probe = debugger(directory)
    within = Watching()
    if order == "before":
        with within:
            probe.start(model)
            work()
            probe.stop()
    elif order == "after":
        probe.start(model)
        with within:
            work()
        probe.stop()
    else:  # overlapping: pushed before, popped while the tool's is on top
        probe.start(model)
        within.__enter__()
        work()
        probe.stop()
        within.__exit__(None, None, None)
    probe.step()
    assert torch._C._len_torch_function_stack() == 0
    return {"alone": alone.seen, "within": within.seen}


@pytest.mark.parametrize("order", ["before", "after", "across"])
def test_modes_of_the_user(tmp_path, order):
    found = run(modes, tmp_path, order)
    assert {"torch.nn.functional.softmax", "torch.exp", "torch.functional.split"} <= set(found["alone"])
    assert set(found["within"]) == set(found["alone"])
    names = Dump(tmp_path).check().names
    for name in ("Functional.softmax", "Torch.exp", "Functional.linear", "Functional.gelu", "Torch.split"):
        assert f"{name}.0.forward" in names, name
        assert f"{name}.1.forward" not in names, name


def devices(directory: Path, order: str) -> list[str]:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    x = torch.ones(1, 2)
    probe = debugger(directory)
    if order == "before":
        torch.set_default_device("meta")
    probe.start(model)
    model(x.cpu())
    if order == "within":
        torch.set_default_device("meta")
    found = [torch.zeros(2).device.type]
    with torch.device("cpu"):
        found.append(torch.zeros(2).device.type)
        torch.sin(x)
    found.append(torch.empty(1).device.type)
    if order == "within":
        torch.set_default_device(None)
        found.append(torch.zeros(2).device.type)
    probe.stop()
    probe.step()
    torch.set_default_device(None)
    found.append(torch.zeros(2).device.type)
    assert torch._C._len_torch_function_stack() == 0
    return found


@pytest.mark.parametrize("order", ["before", "within"])
def test_default_devices(tmp_path, order):
    found = run(devices, tmp_path, order)
    assert found == ["meta", "cpu", "meta"] + (["cpu"] if order == "within" else []) + ["cpu"]
    assert "Torch.sin.0.forward" in Dump(tmp_path).check().names


def subclasses(directory: Path) -> dict[str, Any]:
    import torch

    class Named(torch.Tensor):
        calls: list[str] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.calls.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, types, args, kwargs or {})

    class Duck:
        """Not a tensor at all."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
            return f"duck of {function.__name__}"

    x = torch.ones(2, 3).as_subclass(Named)

    def work() -> dict[str, Any]:
        Named.calls.clear()
        y = torch.sin(x) + 1
        z = torch.nn.functional.softmax(y, dim=0)
        z.mul_(2)
        kinds = [type(value).__name__ for value in (y, z, z[0])]
        calls = [
            name
            for name in Named.calls
            if name in ("sin", "add", "__add__", "softmax", "mul_", "__getitem__")
        ]
        return {
            "kinds": kinds,
            "calls": calls,
            "duck": [torch.sin(Duck()), torch.nn.functional.softmax(Duck()), torch.add(Duck(), 1)],
        }

    without = work()
    with captured(directory, torch.nn.Linear(1, 1)):
        within = work()
    return {"without": without, "within": within}


def test_tensor_subclasses_of_the_user(tmp_path):
    found = run(subclasses, tmp_path)
    assert found["within"]["kinds"] == found["without"]["kinds"] == ["Named"] * 3
    assert found["within"]["duck"] == found["without"]["duck"]
    assert sorted(set(found["within"]["calls"])) == sorted(set(found["without"]["calls"]))
    names = Dump(tmp_path).check().names
    assert "Torch.sin.0.forward" in names
    assert "Functional.softmax.0.forward" in names


def autocast(directory: Path) -> tuple[list[bytes], list[bytes]]:
    import torch
    from dump_models import bits, build, loss_of

    def work() -> list[bytes]:
        model = build("transformer")
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, "transformer", 0)
        loss.backward()
        return [bits(loss.float()), *(bits(parameter.grad) for parameter in model.parameters())]

    without = work()
    model = build("transformer")
    torch.manual_seed(0)
    with captured(directory, model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, "transformer", 0)
        loss.backward()
    return without, [bits(loss.float()), *(bits(parameter.grad) for parameter in model.parameters())]


def test_autocast(tmp_path):
    without, within = run(autocast, tmp_path)
    assert within == without
    data = Dump(tmp_path).check().data
    heads = [record for name, record in data.items() if name.startswith("Module.head.Linear.forward")]
    assert heads[0]["output"][0]["dtype"] == "torch.bfloat16"
    assert heads[0]["parameters"]["weight"]["dtype"] == "torch.float32"


def unusual(directory: Path, task: str) -> None:
    import torch

    level = "mix" if task == "structure" else "L1"
    summary = {"summary_mode": "md5"} if task == "statistics" else None
    with captured(directory, torch.nn.ModuleList([torch.nn.Tanh()]), level=level, task=task, section=summary):
        torch.sin(torch.empty(2, 3, device="meta"))
        sparse = torch.eye(3).to_sparse()
        torch.add(sparse, sparse)
        torch.add(torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse_csr())
        torch.mul(torch.tensor([1 + 2j]), 2 - 1j)
        torch.mul(torch.tensor([1j]).conj(), 2)
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        torch.relu(nested)
        torch.dequantize(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
        torch.sin(torch.ones(0, 3))
        torch.sin(torch.ones(2, 2).expand(3, 2, 2))
        torch.flip(torch.arange(6.0)[::2], [0])
        torch.add(torch.ones(2, dtype=torch.float16), torch.tensor(float("nan")))
        torch.bitwise_not(torch.tensor([1, 2], dtype=torch.uint8))
        torch.stack([torch.ones(1), torch.zeros(1)])
        torch.exp(torch.ones(2, dtype=torch.float64).neg())


@pytest.mark.parametrize("task", ["statistics", "tensor", "structure"])
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_unusual_kinds(tmp_path, task):
    run(unusual, tmp_path, task)
    dump = Dump(tmp_path)
    assert not dump.faults
    data = dump.data
    if task != "structure":
        meta = data["Torch.sin.0.forward"]["input_args"][0]
        assert meta["shape"] == [2, 3]
        assert meta["Max"] is None
        assert data["Torch.mul.0.forward"]["input_args"][1]["type"] == "complex"
        sparse = data["Torch.add.0.forward"]["input_args"][0]
        assert (sparse["shape"], sparse["Max"]) == ([3, 3], None)
        last = data["Torch.exp.0.forward"]["input_args"][0]
        assert (last["dtype"], last["Max"]) == ("torch.float64", -1.0)
    if task == "tensor":
        import torch

        for path in (dump.folder / "dump_tensor_data").iterdir():
            torch.load(path, weights_only=True)


def entry_of_the_mode() -> list[int]:
    import torch
    from msprobe import _torch

    session = _torch.DumpSession(_torch.DumpOptions())
    mode = session.function_mode()
    references = [sys.getrefcount(mode)]
    for _ in range(2):
        session.push_mode(mode)
        torch.ones(2).abs()
        assert torch._C._pop_torch_function_stack() is mode
    session.end()
    references.append(sys.getrefcount(mode))
    torch._C._push_on_torch_function_stack(mode)  # retired
    assert torch.ones(2).abs().tolist() == [1, 1]
    torch._C._pop_torch_function_stack()
    return references


def test_what_stood_on_the_stack_of_modes_is_never_freed():
    """Work of a process group lets go of it on a thread of its own, for which it must not need the GIL
    (docs/adr/0007): one reference stays, that of the one entry.
    """
    before, after = run(entry_of_the_mode)
    assert after == before + 1
