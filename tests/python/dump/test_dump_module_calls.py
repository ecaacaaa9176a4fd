# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Modules are called natively while they have no hooks, and by torch when someone has put hooks on them: the
records are the same, and hooks run in torch's order.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, captured, debugger, run


def chain(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(4, 2)), torch.nn.ReLU()
    )


def nothing(*_: object) -> None:
    """A hook that changes nothing."""


def put_hooks(torch: Any, model: Any, where: str) -> list[Any]:
    modules = torch.nn.modules.module
    if where == "root":
        return [model.register_forward_hook(nothing)]
    if where == "inside":
        return [model[1].register_forward_pre_hook(nothing)]
    if where == "process":
        return [modules.register_module_forward_hook(nothing)]
    if where == "during":  # a hook that comes while the root is called
        added: list[Any] = []
        added.append(
            model[0].register_forward_pre_hook(
                lambda *_: added.append(model[2].register_forward_hook(nothing))
            )
        )
        return added
    return []


def record(directory: Path, where: str) -> None:
    import torch

    model = chain(torch)
    hooks = put_hooks(torch, model, where)
    with captured(directory, model, level="L0"):
        model(torch.ones(2, 3)).sum().backward()
    assert hooks or where == "nowhere"


@pytest.mark.parametrize("where", ["root", "inside", "process", "during"])
def test_records_are_the_same_wherever_hooks_are(tmp_path, where):
    folders = {name: tmp_path / name for name in ("nowhere", where)}
    for name, folder in folders.items():
        folder.mkdir()
        run(record, folder, name)
    plain, hooked = (Dump(folder).check() for folder in folders.values())
    assert len(plain.names) == 12
    assert hooked.data == plain.data
    assert hooked.parents == plain.parents


def hook_order(directory: Path) -> list[str]:
    """Hooks of the user that change what a module gets and what comes of it."""
    import torch

    seen: list[str] = []

    def before(module: Any, args: Any) -> Any:
        seen.append("before")
        return (args[0] + 1,)

    def after(module: Any, args: Any, result: Any) -> Any:
        seen.append("after")
        return result * 2

    model = torch.nn.Sequential(torch.nn.Identity())
    model[0].register_forward_pre_hook(before)
    model[0].register_forward_hook(after)
    with captured(directory, model, level="L0"):
        result = model(torch.ones(1))
    assert result.item() == 4
    return seen


def test_the_record_shows_what_forward_got_and_gave(tmp_path):
    assert run(hook_order, tmp_path) == ["before", "after"]
    data = Dump(tmp_path).check().data
    assert data["Module.0.Identity.forward.0"]["input_args"][0]["Max"] == 2
    assert data["Module.0.Identity.forward.0"]["output"][0]["Max"] == 2


def failing_model() -> Any:
    """A model whose inner module fails at the first call."""
    import torch

    class Inner(torch.nn.Module):
        calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                raise KeyError("the first call")
            return x

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            with contextlib.suppress(KeyError):
                self.inner(x)
            return self.inner(x)

    return Outer()


def fail_once(directory: Path) -> None:
    import torch

    model = torch.nn.Sequential(failing_model())
    with captured(directory, model, level="L0"):
        model(torch.ones(1))


def test_a_call_that_fails_is_not_recorded_and_the_next_one_stands_in_its_module(tmp_path):
    run(fail_once, tmp_path)
    dump = Dump(tmp_path).check()
    assert dump.names == ["Module.0.inner.Inner.forward.1", "Module.0.Outer.forward.0"]
    assert dump.parents["Module.0.inner.Inner.forward.1"] == "Module.0.Outer.forward.0"


def two_threads(directory: Path) -> int:
    """One thread is inside of a module with hooks while the other calls modules without."""
    import torch

    slow, fast = chain(torch), chain(torch)
    model = torch.nn.ModuleList([slow, fast])
    entered, leave = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        entered.set()
        assert leave.wait(20)

    slow[1].register_forward_pre_hook(wait)
    with captured(directory, model, level="L0"):
        other = threading.Thread(target=slow, args=(torch.ones(2, 3),))
        other.start()
        assert entered.wait(20)
        fast(torch.ones(2, 3))
        leave.set()
        other.join()
        fast(torch.ones(2, 3))
    return len(torch.nn.modules.module._global_forward_hooks)


def test_each_thread_records_each_of_its_modules_once(tmp_path):
    assert run(two_threads, tmp_path) == 0
    names = Dump(tmp_path).check().names
    calls = [name for name in names if ".forward." in name]
    assert len([name for name in calls if name.startswith("Module.0.")]) == 6
    assert len([name for name in calls if name.startswith("Module.1.")]) == 12


def stop_inside(directory: Path) -> tuple[bool, int]:
    """stop() in the middle of a call that torch's hooks tell of."""
    import torch

    call = torch.nn.Module._call_impl.__code__
    model = chain(torch)
    probe = debugger(directory, level="L0")
    model.register_forward_hook(nothing)
    model[1].register_forward_pre_hook(lambda *_: probe.stop())
    probe.start(model)
    model(torch.ones(2, 3))
    left = len(torch.nn.modules.module._global_forward_hooks)
    probe.step()
    return torch.nn.Module._call_impl.__code__ is call, left


def test_stop_inside_of_a_call_leaves_nothing(tmp_path):
    assert run(stop_inside, tmp_path) == (True, 0)
    assert Dump(tmp_path).names[0] == "Module.0.Linear.forward.0"


def uses_an_output_further(directory: Path, outside: bool) -> None:
    import torch

    class Uses(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            middle = x * 2
            return (middle * 3).sum(), middle

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.uses = Uses()

        def forward(self, x: Any) -> Any:
            total, middle = self.uses(x)
            return total + 4 * middle.sum() if outside else total

    model = Both()
    with captured(directory, model, level="L0"):
        model(torch.ones(4, requires_grad=True)).backward()


@pytest.mark.parametrize(("outside", "gradient"), [(False, 3.0), (True, 7.0)])
def test_the_gradient_of_an_output_that_its_module_uses_further_is_the_whole_one(outside, gradient, tmp_path):
    run(uses_an_output_further, tmp_path, outside)
    record = Dump(tmp_path).data["Module.uses.Uses.backward.0"]
    assert [record["input"][1][key] for key in ("Max", "Min")] == [gradient, gradient]
