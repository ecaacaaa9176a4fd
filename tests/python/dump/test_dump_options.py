# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What single options of the configuration and methods of the debugger change in the record."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, captured, debugger, run, tensors_of


def three_calls() -> None:
    """A listed function that was imported by name, one that is not listed, and an operator of the program."""
    import torch
    from torch import relu

    @torch.library.custom_op("mine::twice", mutates_args=(), schema="(Tensor x) -> Tensor")
    def twice(x: Any) -> Any:
        return x * 2

    twice(relu(torch.full((3,), 2.0)).view(3, 1))


def functions_recorded(directory: Path, section: dict[str, Any]) -> None:
    with captured(directory, level="L1", section=section):
        three_calls()


def test_every_function_is_recorded_on_request(tmp_path):
    run(functions_recorded, tmp_path, {})
    assert Dump(tmp_path).check().names == [
        "Torch.full.0.forward",
        "Torch.relu.0.forward",
        "Tensor.__mul__.0.forward",
    ]
    run(functions_recorded, tmp_path, {"api_set": "all"})
    record = Dump(tmp_path).check()
    assert record.names == [
        "Torch.full.0.forward",
        "Torch.relu.0.forward",
        "Tensor.view.0.forward",
        "mine.twice.0.forward",
    ]
    (result,) = tensors_of(record.data["mine.twice.0.forward"]["output"])
    assert (result["shape"], result["Max"]) == ([3, 1], 4.0)


OPERATORS = (
    "and",
    "eq",
    "or",
    "xor",
    "lshift",
    "rshift",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
    "add",
    "rsub",
)


def operators_of_the_class(directory: Path) -> None:
    import torch

    a = torch.tensor([3])
    with captured(directory, level="L1"):
        for name in OPERATORS:
            getattr(torch.Tensor, f"__{name}__")(a, a)


def test_operators_that_are_called_through_their_class_are_recorded(tmp_path):
    run(operators_of_the_class, tmp_path)
    assert Dump(tmp_path).check().names == [f"Tensor.__{name}__.0.forward" for name in OPERATORS]


def small_training(directory: Path, keys: dict[str, Any], steps: int = 2) -> list[float]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    probe = debugger(directory, **keys)
    losses = []
    for _ in range(steps):
        probe.start(model)
        loss = model(torch.randn(5, 4)).sum()
        loss.backward()
        probe.stop()
        probe.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("task", "section"), [("statistics", {}), ("tensor", {"list": ["Linear"]})])
def test_asynchronous_dumps_have_the_same_records(tmp_path, task, section):
    found = {}
    for name, keys in {"plain": {}, "asynchronous": {"async_dump": True}}.items():
        folder = tmp_path / name
        folder.mkdir()
        losses = run(small_training, folder, {"task": task, "section": section, **keys})
        files = {
            path.relative_to(folder / "dump"): path.read_bytes()
            for path in sorted((folder / "dump").rglob("*"))
            if path.name in ("stack.json", "construct.json") or path.suffix == ".pt"
        }
        found[name] = losses, files, [Dump(folder, step).check().data for step in (0, 1)]
    assert found["asynchronous"] == found["plain"]
    assert len(found["plain"][2][0]) >= 4


def without_stacks(directory: Path) -> None:
    small_training(directory, {"section": {"stacks": False}})


def test_call_stacks_can_be_left_out(tmp_path):
    run(without_stacks, tmp_path)
    record = Dump(tmp_path).check()
    assert "Functional.relu.0.forward" in record.names
    assert not any(frames for _, frames in record.json("stack.json").values())


def test_the_files_may_be_made_later(tmp_path):
    run(small_training, tmp_path, {})
    at_once = [Dump(tmp_path, step).data for step in (0, 1)]
    later = tmp_path / "later"
    later.mkdir()
    run(small_training, later, {"section": {"json": "deferred"}})
    for step in (0, 1):
        folder = Dump(later, step).folder
        assert sorted(path.name for path in folder.iterdir()) == ["summary.json", "trace.msprobe"]
    subprocess.run([sys.executable, "-m", "msprobe", "export", later / "dump"], check=True)
    assert [Dump(later, step).check().data for step in (0, 1)] == at_once


def batches(directory: Path) -> list[float]:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    debugger(directory, level="L1", enable_dataloader=True)
    loader = DataLoader(TensorDataset(torch.arange(6.0)), batch_size=2)
    return [torch.relu(batch).sum().item() for (batch,) in loader]


def test_a_data_loader_begins_and_ends_steps(tmp_path):
    assert run(batches, tmp_path) == [1.0, 5.0, 9.0]
    for step, largest in enumerate((1.0, 3.0, 5.0)):
        data = Dump(tmp_path, step).check().data
        (given,) = tensors_of(data["Torch.relu.0.forward"]["input_args"])
        assert given["Max"] == largest
    assert not Dump(tmp_path, 3).folder.exists()


def tokens(directory: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    probe = debugger(directory, level="L0")
    probe.start(model, token_range=[1, 2])
    for number in range(5):
        model(torch.full((1, 2), float(number)))
    probe.stop()
    probe.step()


def test_a_range_of_calls_of_the_model(tmp_path):
    run(tokens, tmp_path)
    data = Dump(tmp_path).check().data
    calls = [record for name, record in data.items() if ".Linear.forward" in name]
    largest = [tensors_of(record["input_args"])[0]["Max"] for record in calls]
    assert largest == [1.0, 2.0]


def tokens_of_functions(directory: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with contextlib.ExitStack() as ends:
        probe = debugger(directory)
        probe.start(model, token_range=[1, 2])
        ends.callback(probe.step)
        ends.callback(probe.stop)
        for number in range(5):
            torch.neg(model(torch.full((1, 2), float(number))))


def test_modules_have_the_numbers_of_their_calls_and_functions_those_of_the_range(tmp_path):
    run(tokens_of_functions, tmp_path)
    dump = Dump(tmp_path).check()
    modules = [f"Module.{part}.forward.{number}" for number in (1, 2) for part in ("0.Linear", "1.ReLU")]
    assert [name for name in dump.names if name.startswith("Module.") and ".forward." in name] == modules
    assert [name for name in dump.names if "linear" in name] == [
        "Functional.linear.0.forward", "Functional.linear.1.forward"
    ]  # fmt: skip
    assert "Torch.neg.1.forward" in dump.names
    assert "Torch.neg.2.forward" not in dump.names
    assert dump.parents["Functional.linear.0.forward"] == "Module.0.Linear.forward.1"


def functions_of_the_program(directory: Path) -> None:
    import types

    import torch

    mine = types.SimpleNamespace(__name__="mine", double=lambda x: x + x)
    original = mine.double
    probe = debugger(directory, level="L1")
    probe.register_custom_api(mine, "double")
    for _ in range(2):
        probe.start()
        mine.double(torch.ones(2))
        probe.restore_api_dump()  # as stop()
        torch.relu(torch.ones(2))
        probe.step()
        assert mine.double is original
        probe.restore_custom_api(mine, "double")


def test_functions_of_the_program(tmp_path):
    run(functions_of_the_program, tmp_path)
    first, second = (Dump(tmp_path, step).check().names for step in (0, 1))
    assert second == ["Tensor.__add__.0.forward"]
    assert first == ["mine.double.0.forward"]  # what it calls is part of it


def parameters_recorded(directory: Path) -> None:
    small_training(directory, {"section": {"parameters": True}}, steps=1)


def test_parameters_are_recorded_on_request(tmp_path):
    run(parameters_recorded, tmp_path)
    found = json.loads((Dump(tmp_path).folder / "diagnosis.json").read_text())
    assert found["kinds"] == ["parameters"]
    assert list(found["parameters"]) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def switched(directory: Path) -> None:
    """The file says false, true, something half written, and false again."""
    import torch

    probe = debugger(directory, level="L1", dump_enable=False)
    path = directory / "config.json"
    content = json.loads(path.read_text())
    wanted = [json.dumps(content), json.dumps({**content, "dump_enable": True}), "{", json.dumps(content)]
    for text in wanted:
        path.write_text(text)
        probe.start()
        torch.relu(torch.ones(3))
        probe.stop()
        probe.step()


def test_a_file_switches_the_dump_on_and_off_while_the_training_runs(tmp_path):
    run(switched, tmp_path)
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step1", "step2"]


def save_of_one_process(directory: Path) -> None:
    import torch

    probe = debugger(directory, level="debug", rank=[0])
    probe.save(torch.ones(2), "x")
    probe.step()


def test_values_are_saved_whatever_ranks_are_asked_for(tmp_path):
    run(save_of_one_process, tmp_path)
    assert (tmp_path / "dump/step0/rank/debug.json").is_file()


def training_by(directory: Path, way: str, sketch: bool) -> None:
    from msprobe.native import torch_adapter

    torch_adapter().set_device_way(way)
    small_training(directory, {"section": {"sketch": sketch}}, steps=1)


def without_sketches(value: Any) -> Any:
    if isinstance(value, list):
        return [without_sketches(item) for item in value]
    if isinstance(value, dict):
        return {key: without_sketches(item) for key, item in value.items() if key != "sketch"}
    return value


@pytest.mark.parametrize("way", ["none", "kernel"])
def test_sketches_may_be_left_out(tmp_path, way):
    found = {}
    for sketch in (True, False):
        folder = tmp_path / str(sketch)
        folder.mkdir()
        run(training_by, folder, way, sketch)
        found[sketch] = Dump(folder).check().data
    assert "sketch" in json.dumps(found[True])
    assert "sketch" not in json.dumps(found[False])
    assert without_sketches(found[True]) == found[False]
