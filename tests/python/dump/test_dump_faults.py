# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cases in which the data dump once was wrong, broke a training, or left something behind."""

from __future__ import annotations

import collections
import inspect
from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, captured, debugger, log_of, run, run_ranks
from test_dump_autograd import partial
from test_dump_distributed import data_parallel
from test_dump_torch_features import compiled, compiled_while_captured

# ---- trainings that broke


def exchange(directory: Path) -> list[float]:
    """Each rank sends before it receives: its send ends when the other rank has come to its receive."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    probe = debugger(directory, level="L1")
    probe.start()
    sent, received = torch.full((2,), float(rank)), torch.zeros(2)
    for handle in [dist.isend(sent, 1 - rank), dist.irecv(received, 1 - rank)]:
        handle.wait()
    probe.stop()
    probe.step()
    dist.destroy_process_group()
    return received.tolist()


def test_ranks_that_send_to_each_other_do_not_wait_for_ever(tmp_path):
    assert run_ranks(exchange, tmp_path, timeout=20) == [[1.0, 1.0], [0.0, 0.0]]
    for rank in range(2):
        data = Dump(tmp_path, 0, rank).check().data
        assert data["Distributed.irecv.0.forward"]["output"][0]["Max"] == 1 - rank


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_the_parameters_of_fully_sharded_models_are_no_memory(tmp_path, level):
    for without, within in run_ranks(data_parallel, tmp_path, "fsdp2", level, timeout=150):
        assert within == without
    for rank in range(2):
        data = Dump(tmp_path, 0, rank).check().data
        assert data["Functional.linear.1.backward"]["output"][0]["shape"] == [2, 4]
        # FSDP cuts up buffers before anything is in them: two runs would seem to differ there.
        assert not [name for name in data if name.startswith("Torch.split")]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_a_function_is_compiled_while_captured(tmp_path, level):
    found = run(compiled_while_captured, tmp_path, level, timeout=120)
    assert found == {"frames": 1, "equal": True, "right": True}
    assert "Torch.exp.0.forward" in Dump(tmp_path).check().names


# ---- records that were wrong


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_compiled_module_has_its_record(tmp_path, level):
    found = run(compiled, tmp_path, "eager", level, timeout=120)
    assert found["frames"] == [1] * 9
    data = Dump(tmp_path, 1).check().data
    assert data["Module.inner.Inner.forward.0"]["output"][0]["shape"] == [2, 4]
    assert data["Module.inner.Inner.backward.0"]["output"][0]["shape"] == [2, 4]


def test_nothing_is_claimed_inside_of_a_compiled_region(tmp_path):
    run(compiled, tmp_path, "eager", "L1", timeout=120)
    assert "Functional.gelu.0.forward" not in Dump(tmp_path, 1).check().names


def test_a_backward_with_an_unused_output_outlives_its_graph(tmp_path):
    run(partial, tmp_path, False)
    record = Dump(tmp_path).check().data["Module.0.Two.backward.0"]
    assert [value and value["shape"] for value in record["input"]] == [[3], None]


def same_line(directory: Path) -> None:
    import torch

    with captured(directory, level="L1"):
        torch.sin(torch.cos(torch.ones(2)) + 1)


def test_calls_of_one_line_share_a_call_stack(tmp_path):
    run(same_line, tmp_path)
    stacks = Dump(tmp_path).json("stack.json")
    assert [names for names, _ in stacks.values()] == [
        ["Torch.cos.0.forward", "Tensor.__add__.0.forward", "Torch.sin.0.forward"]
    ]


def test_call_stacks_show_no_frames_of_our_mode(tmp_path):
    run(same_backward, tmp_path)
    for _, frames in Dump(tmp_path).json("stack.json").values():
        assert not [frame for frame in frames if "torch/overrides.py" in frame]


def same_backward(directory: Path) -> None:
    import torch

    with captured(directory, level="L1"):
        torch.sin(torch.ones(2, requires_grad=True)).sum().backward()


# ---- traces in torch


def leftover(directory: Path) -> tuple[int, int]:
    import torch
    from torch.nn.modules import module

    model = torch.nn.Sequential(torch.nn.Tanh())
    probe = debugger(directory, level="L0")
    before = len(module._global_forward_hooks_with_kwargs)
    for _ in range(10):
        probe.start(model)
        probe.stop()
    return before, len(module._global_forward_hooks_with_kwargs)


def test_global_hooks_leave_nothing_in_the_table_of_hooks_with_keywords(tmp_path):
    assert run(leftover, tmp_path) == (0, 0)


def questions(directory: Path) -> list[Any]:
    import torch

    def answers() -> Any:
        return (
            str(inspect.signature(torch.nn.functional.softmax)),
            torch.overrides.is_tensor_method_or_property(torch.Tensor.__add__),
        )

    found = [answers()]
    with captured(directory, level="L1"):
        found.append(answers())
    return found


def test_signatures_and_tables_of_overridable_functions_stay(tmp_path):
    without, within = run(questions, tmp_path)
    assert within == without


def dispatched(directory: Path, kind: str, level: str) -> tuple[list[str], list[str]]:
    """The operators that a mode of the dispatcher sees, without and with the tool."""
    from dump_models import build, loss_of
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(str(function))
            return function(*args, **(kwargs or {}))

    model = build(kind)
    with Watching() as without:
        loss_of(model, kind, 0).backward()
    model = build(kind)
    with captured(directory, model, level=level), Watching() as within:
        loss_of(model, kind, 0).backward()
    return without.seen, within.seen


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("kind", ["transformer", "cnn", "lstm"])
def test_gradients_are_neither_copied_nor_summed_in_sight(tmp_path, kind, level):
    """A gradient that someone else holds is copied into `.grad`, instead of taken."""
    without, within = (collections.Counter(seen) for seen in run(dispatched, tmp_path, kind, level))
    assert dict(within - without) == {}
    assert dict(without - within) == {}


# ---- what is said


def steps_with_infinities(directory: Path) -> list[str]:
    import torch

    def steps() -> None:
        probe = debugger(directory, level="L1")
        for function in (torch.exp, torch.log, torch.log, torch.sqrt, torch.exp, torch.sqrt):
            probe.start()
            function(torch.zeros(2) if function is torch.log else -torch.ones(2))
            probe.stop()
            probe.step()

    return log_of(steps)


def test_the_first_infinity_is_told_once_for_steps_in_a_row(tmp_path):
    assert run(steps_with_infinities, tmp_path) == [
        f"step {step}: the first output with {what} is that of Torch.{name}.0.forward"
        for step, what, name in ((1, "an infinity", "log"), (3, "a NaN", "sqrt"), (5, "a NaN", "sqrt"))
    ]


def steps_with_nan(directory: Path, way: str) -> list[str]:
    import torch
    from msprobe.native import torch_adapter

    torch_adapter().set_device_way(way)

    def steps() -> None:
        probe = debugger(directory, level="L1")
        for begin in (0.0, -1.0):
            x = torch.full((2,), begin, requires_grad=True)
            probe.start()
            mask = torch.zeros(2).masked_fill(torch.tensor([True, False]), float("-inf"))
            ((x + mask.exp() * 0.0).sqrt() * 0.0).sum().backward()  # the gradient is 0 / 0 at 0
            probe.stop()
            probe.step()

    return log_of(steps)


@pytest.mark.parametrize("way", ["none", "kernel", "operators"])
def test_the_first_nan_is_told_and_not_the_infinities_of_masks(tmp_path, way):
    assert run(steps_with_nan, tmp_path, way) == [
        "step 0: the first output with a NaN is that of Tensor.sqrt.0.backward",
        "step 1: the first output with a NaN is that of Tensor.sqrt.0.forward",
    ]


def backward_after_step(directory: Path) -> list[str]:
    import torch

    def steps() -> None:
        probe = debugger(directory, level="L0")
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        for step in range(3):
            probe.start(model)
            loss = model(torch.ones(2)).sum()
            if step != 1:
                loss.backward()
            probe.stop()
            probe.step()
            if step == 1:
                loss.backward()

    return log_of(steps)


def test_a_backward_that_comes_after_step_is_told(tmp_path):
    said = run(backward_after_step, tmp_path)
    assert len(said) == 1
    assert "after the step() of its forward" in said[0]
