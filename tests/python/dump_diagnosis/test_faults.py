# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the diagnosis or around it, and the training that goes on."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import msprobe
import pytest
import torch
from diagnosis_training import KINDS, Net, Read, same
from msprobe.dump.training_state import TrainingState
from torch import nn


class Unreadable:
    """An attribute that raises whatever is asked of it, with a message that cannot be read either."""

    class Error(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no message")

    @property
    def __class__(self) -> Any:
        raise Unreadable.Error


class Hostile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.eps = 0.5
        self.__dict__["strange"] = Unreadable()  # past nn.Module, which asks for the class

    @property
    def slow(self) -> int:
        raise AssertionError("a property was asked")

    def named_buffers(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no\x1b[31m buffers")

    def forward(self, x: Any) -> Any:
        return self.inner(x)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "msprobe" and r.levelno >= logging.WARNING]


def test_faults_are_lines_of_the_file_and_one_warning(
    tmp_path: Path, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    model = Hostile()
    diagnosis = TrainingState(KINDS)
    for step in range(2):
        diagnosis.begin_step(model, tmp_path / f"step{step}")
        model(torch.ones(1, 2)).sum().backward()
        diagnosis.end_step()
    record = read("step1")
    # named_buffers() of the model is not asked: what torch itself keeps of it is read.
    assert record["faults"] == ["module '', attribute 'strange': Error: without a readable message"]
    assert record["modules"][""]["settings"] == {"eps": 0.5}
    assert set(record["parameters"]) == {"inner.weight", "inner.bias"}
    assert same(record["backward"][0]["after_reduction"]["inner.bias"], model.inner.bias.grad)
    (warning,) = warnings_of(caplog)
    assert "strange" in warning
    assert str(tmp_path / "step0" / "diagnosis.json") in warning


@pytest.mark.parametrize("model", [None, 3, [nn.Linear(1, 1), "text"], []])
def test_without_a_model_the_other_kinds_are_recorded(tmp_path: Path, read: Read, model: Any) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.5)
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(model, tmp_path / "step0")
    weight.sum().backward()
    optimizer.step()
    diagnosis.end_step()
    record = read()
    (fault,) = record["faults"]
    assert "inputs, parameters, gradients, modules" in fault
    assert "expected a torch.nn.Module" in fault
    assert record["optimizer"][0]["state_after"]["groups.0.0"]["momentum_buffer"]["max"] == 1
    assert set(record["rng"]) == {"start", "step"}


def test_exceptions_of_the_training_pass_unchanged(tmp_path: Path, read: Read) -> None:
    class Failing(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            raise KeyError("from the optimizer")

    model = nn.Linear(2, 2)
    optimizer = Failing(model.parameters(), lr=0.1)
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(model, tmp_path / "step0")
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(1, 3))
    with pytest.raises(RuntimeError, match="scalar"):
        model(torch.ones(1, 2)).backward()
    with pytest.raises(KeyError, match="from the optimizer"):
        optimizer.step()

    def broken() -> Any:
        yield model.weight
        raise LookupError("from the script")

    with pytest.raises(LookupError, match="from the script"):
        nn.utils.clip_grad_norm_(broken(), 1.0)
    model(torch.ones(1, 2)).sum().backward()
    diagnosis.end_step()
    record = read()
    assert record["faults"] == []
    assert len(record["inputs"]) == 3
    assert len(record["backward"]) == 1
    assert len(record["optimizer"]) == 1
    assert "state_after" not in record["optimizer"][0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o500)
    try:
        check_unwritable(tmp_path / "step0", caplog)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_in_place_of_the_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "step0").write_text("")
    check_unwritable(tmp_path / "step0", caplog)


def check_unwritable(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    diagnosis = TrainingState(("rng",))
    for _ in range(2):
        diagnosis.begin_step(None, folder)
        diagnosis.end_step()
    (warning,) = warnings_of(caplog)
    assert "diagnosis.json" in warning or str(folder) in warning


def test_the_folder_may_vanish(tmp_path: Path, read: Read) -> None:
    diagnosis = TrainingState(("rng",))
    (tmp_path / "step0").mkdir()
    diagnosis.begin_step(None, tmp_path / "step0")
    (tmp_path / "step0").rmdir()
    diagnosis.end_step()
    assert read()["faults"] == []


def test_calls_out_of_order(tmp_path: Path, read: Read) -> None:
    model = nn.Linear(2, 2)
    diagnosis = TrainingState(("inputs", "rng"))
    diagnosis.end_step()
    diagnosis.forget()
    with diagnosis.aside():
        pass
    diagnosis.begin_step(model, tmp_path / "step0")
    model(torch.ones(1, 2))
    diagnosis.begin_step(model, tmp_path / "step0")  # start() again in the same step
    model(torch.ones(1, 2))
    with diagnosis.aside():
        model(torch.ones(1, 2))
    model(torch.ones(1, 2))
    diagnosis.begin_step(model, tmp_path / "step1")
    diagnosis.end_step()
    diagnosis.end_step()
    assert len(read()["inputs"]) == 3
    assert read("step1")["inputs"] == []


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    call = nn.Module.__call__
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(Net(), tmp_path / "step0")
    diagnosis.forget()
    diagnosis.end_step()
    assert not list(tmp_path.iterdir())
    assert nn.Module.__call__ is call


def test_hooks_stand_on_those_of_others(tmp_path: Path, read: Read) -> None:
    from msprobe.hooks.functions import CodeExchange, Hooks

    seen: list[str] = []
    original_code = nn.utils.clip_grad_norm_.__code__

    def other(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen.append("other")
            return original(*args, **kwargs)

        return call

    others = Hooks([CodeExchange(nn.utils.clip_grad_norm_, other)])
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    diagnosis = TrainingState(("gradients",))
    others.install()
    diagnosis.begin_step(model, tmp_path / "step0")
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # both
    with diagnosis.aside():
        others.remove()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # the diagnosis alone
    diagnosis.end_step()
    assert len(read()["clipping"]) == 2
    assert seen == ["other"]
    assert nn.utils.clip_grad_norm_.__code__ is original_code


def test_modes_of_the_program_see_nothing_of_it(tmp_path: Path) -> None:
    from torch.overrides import TorchFunctionMode

    calls: list[str] = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    def run(diagnosis: TrainingState | None) -> list[str]:
        calls.clear()
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(4, 6)
        with Mode():
            if diagnosis is not None:
                diagnosis.begin_step(model, tmp_path / "step0")
            model(x).sum().backward()
            optimizer.step()
            if diagnosis is not None:
                diagnosis.end_step()
        return list(calls)

    assert run(TrainingState(KINDS)) == run(None)


@pytest.mark.parametrize("compiled_before", [False, True])
def test_a_compiled_model_is_not_compiled_for_a_step(
    tmp_path: Path, read: Read, compiled_before: bool
) -> None:
    torch._dynamo.reset()
    graphs: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph.code)
        return graph

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Net()
            self.fast = [torch.compile(self.call, backend=backend)]

        def call(self, x: Any) -> Any:
            return self.model(x)

        def forward(self, x: Any) -> Any:
            return self.fast[0](x)

    def run() -> None:
        outer(torch.ones(4, 6)).sum().backward()

    outer = Outer()
    if compiled_before:
        run()
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step([outer, outer.model], tmp_path / "step0")
    run()
    diagnosis.end_step()
    run()
    assert len(graphs) == 1
    record = read()
    assert record["faults"] == []
    # The compiled part is not looked into.
    assert [item["model"] for item in record["inputs"]] == ["0"]
    assert len(record["backward"]) == 1


def test_the_file_is_json_whatever_names_and_values_there_are(tmp_path: Path, read: Read) -> None:
    model = nn.Module()
    model.register_parameter('we"ird\n', nn.Parameter(torch.tensor([float("inf")])))
    model.add_module("näme", nn.Linear(1, 1))
    model.big = 10**5000  # json refuses the conversion
    model.text = "x" * 5000 + "\ud800"
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(model, tmp_path / "step0")
    diagnosis.end_step()
    record = read()
    assert record["parameters"]['we"ird\n']["max"] == float("inf")
    assert "näme" in record["modules"]
    json.dumps(record)


def test_call_stacks_show_no_frame_of_it(tmp_path: Path) -> None:
    import traceback

    ours = str(Path(msprobe.__file__).parent)
    stacks: list[list[str]] = []

    def keep(gradient: Any) -> None:
        # As stack.json has it: without frames of the package and without those that have no source.
        frames = (frame for frame in traceback.extract_stack() if frame.line)
        stacks.append([frame.name for frame in frames if not frame.filename.startswith(ours)])

    weight = torch.ones(2, requires_grad=True)
    weight.register_hook(keep)
    diagnosis = TrainingState(KINDS)
    for observed in (False, True):
        if observed:
            diagnosis.begin_step(nn.Linear(1, 1), tmp_path / "step0")
        weight.sum().backward()
    diagnosis.end_step()
    assert "backward" in stacks[0]
    assert stacks[0] == stacks[1]
