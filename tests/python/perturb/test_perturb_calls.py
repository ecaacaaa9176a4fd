# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which calls are found fragile, and that a training under a perturbation is the same training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from children import run
from perturb_support import PerturbingDebugger, perturbed, verdict_of


def trained(directory: Path, kind: str, mode: str) -> Any:
    """What differs from the training without, and the verdict."""
    from small_models import train

    without = train(kind)
    debugger = PerturbingDebugger(directory, mode)
    within = train(kind, debugger=debugger)
    debugger.recorder.close()
    assert within.keys() == without.keys()
    assert train(kind) == without
    return [key for key in without if within[key] != without[key]], verdict_of(directory)


@pytest.mark.parametrize("kind", ["transformer", "cnn", "lstm"])
def test_a_healthy_training_has_no_fragile_call_and_stays_as_it_is(tmp_path, kind):
    differing, verdict = run(trained, tmp_path, kind, "calls", timeout=120)
    assert differing == []
    assert verdict["faults"] == {}
    assert [(call["name"], call["reason"]) for call in verdict["fragile"]] == []
    assert verdict["status"] == "healthy"
    assert verdict["counts"]["measured"] > 20
    assert verdict["inputs"]["steps"] == [0, 1, 2]
    assert all(not faults for faults in verdict["left_out"].values()) or verdict["left_out"]


def planted(directory: Path, name: str) -> Any:
    import torch
    import torch.nn.functional as F  # noqa: N812

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            if name == "log":
                return torch.log(torch.sigmoid(y) * 1e-20)
            if name == "softmax":
                logits = (y / y.detach().abs().max() * 1e4).half()
                return torch.softmax(logits, -1).float()
            if name == "variance":
                z = y + 1000.0
                return (z * z).mean(-1) - z.mean(-1) ** 2
            if name == "denominator":
                return y / ((y * 0).sum(-1, keepdim=True) + 1e-9)
            if name == "overflow":
                return (y.half() * 1000 * 1000).float()
            if name == "root":
                return torch.sqrt((y * 0).abs())
            if name == "exp":
                return torch.exp(y * 0 + 88.0) * 1e-30
            return F.gelu(y)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), Head())

    def work(step: int) -> None:
        x = torch.randn(16, 8)
        model(x).sum().backward()

    result, _ = perturbed(directory, work, models=[model])
    return [
        (call.operator.rpartition(".")[2], call.module, call.kind, call.stage, call.stack[0])
        for call in result.fragile
    ]


@pytest.mark.parametrize(
    ("name", "operator", "kind", "line"),
    [
        ("log", "log", "near_zero", "torch.log("),
        ("softmax", "softmax", "saturated_softmax", "torch.softmax("),
        ("variance", "__sub__", "cancellation", ".mean(-1) - "),
        ("denominator", "__truediv__", "near_zero", "return y / "),
        ("overflow", "__mul__", "overflow", "* 1000"),
        ("root", "sqrt", "overflow", "torch.sqrt("),
        ("exp", "exp", "near_overflow", "torch.exp("),
    ],
)
def test_what_is_planted_stands_at_the_top(tmp_path, name, operator, kind, line):
    found = run(planted, tmp_path, name)
    assert found, name
    assert found[0][:3] == (operator, "2", kind), found
    assert line in found[0][4]
    assert "test_perturb_calls.py" in found[0][4]


def test_the_same_model_without_a_plant_is_healthy(tmp_path):
    assert run(planted, tmp_path, "nothing") == []
    assert verdict_of(tmp_path)["status"] == "healthy"


def masked_attention(directory: Path, dtype: str) -> Any:
    """Masks of minus infinity, of the smallest number and of -1e4; a row with a single place."""
    import torch

    kind = getattr(torch, dtype)

    def work(step: int) -> None:
        torch.manual_seed(1)
        scores = torch.randn(2, 6, 6, dtype=kind, requires_grad=True)
        causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
        fills = (float("-inf"), torch.finfo(kind).min, -1e4)
        total = 0
        for fill in fills:
            total = total + torch.softmax(scores.masked_fill(causal, fill), -1).float().square().sum()
        added = scores + torch.zeros(6, 6, dtype=kind).masked_fill(causal, -1e4)
        (total + torch.softmax(added, -1).float().square().sum()).backward()

    result, _ = perturbed(directory, work)
    return [(call.name, call.reason) for call in result.fragile]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_masks_are_not_fragile(tmp_path, dtype):
    assert run(masked_attention, tmp_path, dtype) == []


def mixed_precision(directory: Path) -> Any:
    import torch
    import torch.nn.functional as F  # noqa: N812

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 5)
    )

    def work(step: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(12, 16)), torch.randint(0, 5, (12,)))
        loss.backward()

    result, _ = perturbed(directory, work, models=[model], steps=2)
    return [(call.name, call.reason) for call in result.fragile], {
        call.operator: call.dtype for call in result.calls.values()
    }


def test_autocast_is_measured_by_the_digits_that_it_computes_with(tmp_path):
    fragile, dtypes = run(mixed_precision, tmp_path)
    assert fragile == []
    assert dtypes["Functional.linear"] == "bfloat16"


def measures(directory: Path) -> Any:
    import torch

    def work(step: int) -> None:
        x = torch.tensor([1000.0, 1001.0, 1002.5], requires_grad=True)
        y = x - 1000.5  # amplifies by about 1000
        z = torch.matmul(y, torch.tensor([1.0, 1.0, -1.0]))
        torch.exp(torch.tensor([10.0, 20.0]))
        torch.tan(torch.tensor([1.5707], requires_grad=True)).sum().backward()
        z.backward()
        same = x.detach() - x  # two tensors of one memory: nothing is lost
        assert same.abs().sum().item() == 0

    result, _ = perturbed(directory, work)
    return {name: (call.forward, call.condition, call.backward) for name, call in result.calls.items()}


def test_amplification_and_what_the_condition_number_allows(tmp_path):
    found = run(measures, tmp_path)
    forward, condition, _ = found["Tensor.__sub__.0.forward"]
    assert 300 < forward < 3000
    assert forward < 2 * condition
    forward, condition, _ = found["Torch.exp.0.forward"]
    assert 5 < forward < 25
    assert condition == pytest.approx(20, rel=0.01)
    forward, _, backward = found["Torch.tan.0.forward"]
    assert forward > 4096
    assert backward > forward


def left_out(directory: Path) -> Any:
    import torch

    class Shard(torch.Tensor):
        pass

    base = torch.ones(4)

    def work(step: int) -> list[float]:
        base[:2].add_(base[2:])
        torch.exp(torch.ones(2).as_subclass(Shard))
        x = torch.full((3,), 2.0)
        x.add_(1.0)
        x *= 2
        return [*base.tolist(), *x.tolist(), *torch.rand(2).tolist()]

    torch.manual_seed(3)
    result, returned = perturbed(directory, work)
    torch.manual_seed(3)
    expected = [2.0, 2.0, 1.0, 1.0, 6.0, 6.0, 6.0, *torch.rand(2).tolist()]
    return result.left_out, returned[0] == expected


def test_what_cannot_be_made_again_is_left_out_with_its_reason(tmp_path):
    reasons, unchanged = run(left_out, tmp_path)
    assert unchanged
    assert "it changes an argument in place" in reasons
    assert any("Shard" in reason for reason in reasons), reasons


def scaled(directory: Path, with_scaler: bool) -> Any:
    """Gradients of a scaled loss overflow now and then: the scaler sees to it."""
    import torch

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(x.half(), self.weight.half()).float()

    model = Half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, enabled=with_scaler)

    def work(step: int) -> None:
        loss = model(torch.full((2, 4), 8.0)).sum() * (1.0 if with_scaler else 2.0**14)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    result, _ = perturbed(directory, work, models=[model])
    return [(call.operator, call.kind, call.stage) for call in result.fragile]


def test_overflow_under_a_gradient_scaler_is_no_finding(tmp_path):
    assert run(scaled, tmp_path / "with", True) == []
    assert run(scaled, tmp_path / "without", False) == [("Torch.matmul", "overflow", "backward")]
