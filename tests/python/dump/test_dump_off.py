# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""While nothing is captured, nothing of ours is there: no hook, no mode, no patch. So it costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dump_support import LEVELS, Dump, captured, debugger, run

# What hooks could hang on, or patches could change. Each is compared by identity or by value.


def traces(model: Any) -> dict[str, Any]:
    """Everything that a tool could have left on torch or the model."""
    import sys

    import torch
    from torch.nn.modules import module as modules
    from torch.optim import optimizer as optimizers

    found: dict[str, Any] = {"function modes": torch._C._len_torch_function_stack()}
    found["dispatch modes"] = torch._C._len_torch_dispatch_stack()
    for holder in (modules, optimizers):
        for name, value in vars(holder).items():
            if (
                name.startswith("_global") and name != "_global_forward_hooks_with_kwargs"
            ):  # see test_dump_faults
                found[f"{holder.__name__}.{name}"] = list(value) if isinstance(value, dict) else value
    for path, part in [("", model), *model.named_modules()]:
        for name in vars(part):
            if name.endswith("_hooks") or name.endswith("with_kwargs") or name.endswith("always_called"):
                found[f"{path}.{name}"] = list(vars(part)[name])
        found[f"{path} forward"] = "forward" in vars(part)
    for path, parameter in model.named_parameters():
        found[f"{path} hooks"] = list(parameter._backward_hooks or ())
        found[f"{path} after"] = list(getattr(parameter, "_post_accumulate_grad_hooks", None) or ())
    namespaces = {
        "torch": torch,
        "torch.nn.functional": torch.nn.functional,
        "torch._VF": torch._VF,
        "torch._C._VariableFunctions": torch._C._VariableFunctionsClass,
        "torch.Tensor": torch.Tensor,
        "torch._C.TensorBase": torch._C.TensorBase,
        "torch.overrides": torch.overrides,
        "torch.autograd": torch.autograd,
        "torch.utils.checkpoint": torch.utils.checkpoint,
        "torch.nn.utils": torch.nn.utils,
        "torch.nn.Module": torch.nn.Module,
        "torch.optim.Optimizer": torch.optim.Optimizer,
        "torch.distributed": torch.distributed,
        "torch.utils.hooks.BackwardHook": torch.utils.hooks.BackwardHook,
        "torch.utils.data": torch.utils.data.dataloader._BaseDataLoaderIter,
        "torch._dynamo.eval_frame": sys.modules.get("torch._dynamo.eval_frame", torch),
    }
    for path, namespace in namespaces.items():
        for name, value in list(vars(namespace).items()):
            found[f"{path}.{name}"] = id(value)
            code = getattr(value, "__code__", None)
            if code is not None:
                found[f"{path}.{name} code"] = id(code)
                # The bytes that run: an exchanged code object that went back is the same one.
    # What loading or first use of torch itself adds is not ours.
    return {
        key: value
        for key, value in found.items()
        if not key.endswith(("__warningregistry__", "__annotations__"))
    }


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    keys = {*before, *after}
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def leftovers(directory: Path, level: str) -> dict[str, Any]:
    import torch
    from dump_models import build, loss_of

    model = build("transformer")
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model, "transformer", 0).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()  # torch fills its caches
    found = {}
    before = traces(model)
    probe = debugger(directory, level=level, step=[1])
    found["constructed"] = difference(before, traces(model))
    probe.start(model)
    found["started in a step that is not wanted"] = difference(before, traces(model))
    step()
    probe.stop()
    probe.step()
    found["step 0"] = difference(before, traces(model))
    probe.start(model)
    within = difference(before, traces(model))
    step()
    probe.stop()
    found["stopped"] = difference(before, traces(model))
    probe.start(model)
    step()
    probe.stop()
    found["stopped again"] = difference(before, traces(model))
    probe.step()
    found["step 1"] = difference(before, traces(model))
    probe.start(model)
    found["after the last step"] = difference(before, traces(model))
    step()
    probe.stop()
    assert within, "while it captures, it is there"
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_left(tmp_path, level):
    found = run(leftovers, tmp_path, level)
    assert not any(found.values()), found
    assert len(Dump(tmp_path, 1).check().names) > 10
    assert not Dump(tmp_path, 0).folder.exists()
    assert not Dump(tmp_path, 2).folder.exists()


def questions(directory: Path) -> list[tuple[bool, bool, bool]]:
    import torch

    def answers() -> tuple[bool, bool, bool]:
        x = (torch.ones(1),)
        return (
            torch.overrides.has_torch_function(x),
            torch.overrides.has_torch_function_unary(x[0]),
            torch._C._is_torch_function_mode_enabled(),
        )

    found = [answers()]
    with captured(directory, torch.nn.Linear(1, 1), level="L1"):
        pass
    found.append(answers())
    return found


def test_torch_asks_no_one_after_stop(tmp_path):
    assert run(questions, tmp_path) == [(False, False, False)] * 2


def exceptions(directory: Path) -> dict[str, Any]:
    """stop() in a `finally` after a failed step."""
    import torch
    from dump_models import build

    model = build("cnn")
    before = traces(model)
    probe = debugger(directory)
    probe.start(model)
    try:
        model(torch.ones(3))
    except (RuntimeError, ValueError):
        pass
    finally:
        probe.stop()
    return difference(before, traces(model))


def test_nothing_is_left_after_an_exception(tmp_path):
    assert run(exceptions, tmp_path) == {}


def calls_of_ours(directory: Path, level: str) -> list[int]:
    """Python calls that reach code of ours in a step that is not wanted, and in one that is."""
    import sys

    import msprobe
    from dump_models import build, loss_of

    home = str(Path(msprobe.__file__).parent)
    model = build("cnn")
    probe = debugger(directory, level=level, step=[1])
    counts = []
    for step in range(2):
        count = 0

        def observe(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            ours = event == "call" and frame.f_code.co_filename.startswith(home)
            if ours or (event == "c_call" and "msprobe" in str(getattr(argument, "__module__", ""))):
                count += 1

        probe.start(model)
        sys.setprofile(observe)
        try:
            loss_of(model, "cnn", step).backward()
        finally:
            sys.setprofile(None)
        probe.stop()
        probe.step()
        counts.append(count)
    return counts


@pytest.mark.parametrize("level", LEVELS)
def test_no_call_reaches_us_in_an_unwanted_step(tmp_path, level):
    assert run(calls_of_ours, tmp_path, level)[0] == 0


def another_rank(directory: Path) -> dict[str, Any]:
    from dump_models import build, loss_of

    model = build("cnn")
    before = traces(model)
    probe = debugger(directory, rank=[0])
    probe.start(model)
    found = difference(before, traces(model))
    loss_of(model, "cnn", 0).backward()
    probe.stop()
    probe.step()
    return found


def test_nothing_is_there_in_a_process_without_a_rank_when_ranks_are_named(tmp_path):
    assert run(another_rank, tmp_path) == {}
    assert not (tmp_path / "dump").exists()


def spans(directory: Path) -> None:
    """Two spans of one step, with work of nobody's business between them."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    x = torch.ones(1, 2)
    probe = debugger(directory)
    probe.start(model)
    model(x)
    probe.stop()
    torch.relu(model(x))
    probe.start(model)
    model(x)
    torch.relu(x)
    probe.stop()
    probe.step()


def test_what_happens_between_two_spans_is_not_recorded(tmp_path):
    run(spans, tmp_path)
    names = [name for name in Dump(tmp_path).check().names if ".forward" in name]
    assert names.count("Functional.linear.0.forward") == 1
    assert "Functional.linear.1.forward" in names
    assert "Functional.linear.2.forward" not in names
    assert "Torch.relu.0.forward" in names
    assert "Torch.relu.1.forward" not in names
    assert json.loads((Dump(tmp_path).folder / "stack.json").read_text())


def exchanged_operators() -> list[list[str]]:
    import torch
    from msprobe.hooks.functions import OperatorExchange
    from msprobe.native import torch_adapter

    class Early(torch.Tensor):
        pass

    def kinds() -> list[str]:
        tensor = torch.ones(1)
        values = [tensor, torch.nn.Parameter(tensor), tensor.as_subclass(Early), tensor.as_subclass(late)]
        return [type(value + 1).__name__ for value in values] + [type(tensor < 1).__name__]

    def ours(self: Any, other: Any) -> int:
        return 0

    late: Any = Early
    before = kinds()
    exchange = OperatorExchange(
        torch.Tensor, {"__add__": ours, "__lt__": ours}, torch_adapter().set_class_attributes
    )
    exchange.install()
    late = type("Late", (torch.Tensor,), {})
    within = kinds()
    exchange.remove()
    return [before[:3] + before[4:], within, kinds()]


def test_operators_are_exchanged_with_those_of_subclasses():
    before, within, after = run(exchanged_operators)
    assert before == ["Tensor", "Tensor", "Early", "Tensor"]
    assert within == ["int"] * 5
    assert after == ["Tensor", "Tensor", "Early", "Late", "Tensor"]


def test_operators_made_in_c_are_no_case_for_that():
    from msprobe.hooks.functions import OperatorExchange

    assert not OperatorExchange.can_exchange(int, "__add__")
