# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training under the free benchmark in check mode is the same training, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_support import MODES, debugger, observe, rows_of, summary_of
from children import run


def differing_results(directory: Path, kind: str) -> dict[str, Any]:
    """For each mode and stage: what differs from the training without, and what was looked at."""
    from msprobe import PrecisionDebugger
    from small_models import train

    without = train(kind)
    found = {}
    for stage in ("forward", "backward"):
        for mode in MODES:
            folder = directory / f"{mode}_{stage}"
            preheat = mode == "add_noise" and stage == "forward"
            keys = {"if_preheat": preheat, "preheat_step": 1}
            within = train(kind, debugger=debugger(folder, mode, fuzz_stage=stage, **keys))
            PrecisionDebugger._reset()
            assert within.keys() == without.keys()
            found[f"{mode} {stage}"] = (
                [key for key in without if within[key] != without[key]],
                [summary_of(folder, step) for step in range(3)],
                [rows_of(folder, step) for step in range(3)],
            )
    assert train(kind) == without
    return found


@pytest.mark.parametrize("kind", ["transformer", "cnn", "lstm"])
def test_every_mode_and_stage_leaves_a_training_as_it_is(tmp_path, kind):
    found = run(differing_results, tmp_path, kind, timeout=120)
    assert {name: differing for name, (differing, _, _) in found.items() if differing} == {}
    for name, (_, summaries, rows) in found.items():
        assert [summary["faults"] for summary in summaries] == [{}, {}, {}], name
        if "improve" not in name:  # there is no 16-bit tensor in these models
            assert summaries[2]["checked"] > 5, name
        if "no_change" in name:
            # Dropout draws the same numbers again, and what works in place begins from the same.
            assert rows == [[], [], []], name
        if name == "change_value forward":
            assert len(rows[0]) > 3


def test_what_cannot_be_made_again_is_left_out_with_its_reason(tmp_path):
    left_out = run(awkward_calls, tmp_path)
    assert {
        "it changes an argument in place": {"Tensor.add_": 1},
        "it rescales its weight": {"Functional.embedding": 1},
    }.items() <= left_out.items()
    assert any("Shard" in reason for reason in left_out), left_out


def awkward_calls(directory: Path) -> dict[str, dict[str, int]]:
    import torch
    import torch.nn.functional as F  # noqa: N812

    class Shard(torch.Tensor):
        pass

    base = torch.ones(4)
    weight = torch.ones(3, 2)
    before = weight.clone()

    def work() -> None:
        base[:2].add_(base[2:])  # what it reads and what it writes are views of one tensor
        F.embedding(torch.tensor([0, 2]), weight, max_norm=0.5)
        torch.exp(torch.ones(2).as_subclass(Shard))
        base[0] = 3.0

    observe(directory, "bit_noise", work)
    assert base.tolist() == [3.0, 2.0, 1.0, 1.0]
    assert not torch.equal(weight, before)  # by the call of the training, once
    once = before.clone()
    F.embedding(torch.tensor([0, 2]), once, max_norm=0.5)
    assert torch.equal(weight, once)
    return summary_of(directory)["left_out"]


def in_place_calls(directory: Path, mode: str) -> tuple[Any, Any]:
    import torch
    import torch.nn.functional as F  # noqa: N812

    def work() -> list[Any]:
        torch.manual_seed(1)
        x = torch.randn(6)
        x.add_(1.0)
        x *= 2
        F.relu(x, inplace=True)
        F.dropout(x, 0.5, True, True)
        out = torch.empty(6)
        torch.mul(x, 3.0, out=out)
        mean, variance = torch.zeros(2), torch.ones(2)
        y = F.batch_norm(torch.randn(3, 2), mean, variance, training=True)
        parameter = torch.nn.Parameter(torch.ones(3))
        with torch.no_grad():
            parameter.sub_(0.1)
        z = torch.bernoulli(torch.full((4,), 0.5), generator=torch.Generator().manual_seed(3))
        return [item.tolist() for item in (x, out, mean, variance, y, parameter, z, torch.rand(2))]

    plain = work()
    return plain, observe(directory, mode, work)


@pytest.mark.parametrize("mode", ["no_change", "add_noise"])
def test_calls_in_place_are_made_again_on_copies(tmp_path, mode):
    plain, within = run(in_place_calls, tmp_path, mode)
    assert within == plain
    assert rows_of(tmp_path) == []
    summary = summary_of(tmp_path)
    assert summary["left_out"] == {}
    assert summary["checked"] >= 8


# ---- what surrounds a training


def surrounded(directory: Path, modes: tuple[str, ...], stage: str) -> list[Any]:
    """Autocast, activation checkpointing of both kinds, hooks, a profiler and a mode of the user's."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch.overrides import TorchFunctionMode
    from torch.utils.checkpoint import checkpoint

    class Counting(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return func(*args, **(kwargs or {}))

    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Dropout(0.3))
    head = torch.nn.Linear(8, 3)

    def work() -> list[Any]:
        torch.manual_seed(4)
        for one in (model, head):
            one.zero_grad()
        x = torch.randn(5, 8, requires_grad=True)
        with Counting() as counting, torch.profiler.profile() as profile:
            with torch.autocast("cpu", torch.bfloat16):
                y = checkpoint(model, x, use_reentrant=False)
                y = checkpoint(model, y, use_reentrant=True)
                loss = F.cross_entropy(head(y).float(), torch.tensor([0, 1, 2, 0, 1]))
            loss.backward()
        products = [event.count for event in profile.key_averages() if event.key == "aten::addmm"]
        gradients = [parameter.grad.tolist() for parameter in [*model.parameters(), *head.parameters(), x]]
        return [loss.item(), gradients, torch.rand(3).tolist(), products, counting.calls]

    return [work(), *(observe(directory / mode, mode, work, fuzz_stage=stage) for mode in modes)]


@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_autocast_checkpointing_profilers_and_modes_see_nothing(tmp_path, stage):
    modes = ("no_change", "improve_precision", "add_noise")
    without, *results = run(surrounded, tmp_path, modes, stage)
    for mode, within in zip(modes, results):
        assert within[:4] == without[:4], mode
        if mode == "no_change":
            assert rows_of(tmp_path / mode) == []
        assert summary_of(tmp_path / mode)["checked"] > 2, mode


def kept_graph(directory: Path | None) -> Any:
    import torch

    x = torch.ones(3, requires_grad=True)

    def work() -> Any:
        y = (x * 3).exp()
        part, _ = torch.split(y, [1, 2])
        part.sum().backward(retain_graph=True)  # the other part is never used
        y.sum().backward()
        return x.grad.tolist()

    return work() if directory is None else observe(directory, "add_noise", work, fuzz_stage="backward")


def test_a_graph_that_runs_twice_and_results_that_nobody_uses(tmp_path):
    assert run(kept_graph, tmp_path) == run(kept_graph, None)


# ---- what it finds


def fragile_calls(directory: Path, stage: str) -> None:
    import torch

    def work() -> None:
        x = torch.tensor([1.0, 1.0003, 3.0], requires_grad=True)
        difference = torch.sub(x, 1.0)  # cancels
        steep = torch.tan(torch.tensor([1.5707], requires_grad=True))
        (difference.sum() + steep.sum()).backward()

    observe(directory, "bit_noise", work, fuzz_stage=stage)


def test_a_fragile_call_is_found_forward_and_backward(tmp_path):
    run(fragile_calls, tmp_path / "f", "forward")
    assert [row["api_name"] for row in rows_of(tmp_path / "f")] == [
        "Torch.sub.0.forward",
        "Torch.tan.0.forward",
    ]
    run(fragile_calls, tmp_path / "b", "backward")
    assert [row["api_name"] for row in rows_of(tmp_path / "b")] == ["Torch.tan.0.backward"]
    assert summary_of(tmp_path / "b")["checked"] == 5


def two_ways(directory: Path, mode: str, on_device: bool) -> None:
    import torch
    from msprobe.native import torch_adapter

    torch_adapter().set_device_way("kernel" if on_device else "none")
    torch.manual_seed(0)
    x = torch.randn(300, 7)
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), 1e-20

    def work() -> None:
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            y = x.to(dtype)
            for z in (y, y.t(), y[::2], y[:, :1].expand(300, 3)):
                torch.exp(z)
                torch.sub(z, 1.0)
                torch.tan(z)
                torch.max(z, 1)

    observe(directory, mode, work)


@pytest.mark.parametrize("mode", ["add_noise", "bit_noise", "change_value"])
def test_tensors_of_a_device_are_judged_as_those_of_the_cpu(tmp_path, mode):
    run(two_ways, tmp_path / "host", mode, False)
    run(two_ways, tmp_path / "device", mode, True)
    host, device = rows_of(tmp_path / "host"), rows_of(tmp_path / "device")
    assert len(host) > 5
    assert host == device
