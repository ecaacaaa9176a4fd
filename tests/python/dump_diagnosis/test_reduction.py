# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients before and after the reduction, in two processes with torch.distributed (gloo on CPU)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
from diagnosis_training import KINDS, same
from gloo import launch
from msprobe.dump.training_state import TrainingState
from torch import nn

RANKS = 2


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def batch(rank: int, number: int) -> Any:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(10 * number + rank))


def gradients_of_a_rank(rank: int, number: int) -> dict[str, Any]:
    """Without any reduction."""
    model = network()
    model(batch(rank, number)).square().sum().backward()
    return {f"module.{name}": parameter.grad for name, parameter in model.named_parameters()}


def train(rank: int, options: dict[str, Any], diagnosis: TrainingState | None, folder: Path) -> list[Any]:
    model = nn.parallel.DistributedDataParallel(network(), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    left = []
    for step in range(3):
        if diagnosis is not None:
            diagnosis.begin_step(model, folder / f"step{step}" / f"rank{rank}")
        optimizer.zero_grad(set_to_none=False)
        if not options.get("static_graph"):
            with model.no_sync():
                model(batch(rank, 1)).square().sum().backward()
        model(batch(rank, 2)).square().sum().backward()
        left += [parameter.grad.clone() for parameter in model.parameters()]
        optimizer.step()
        if diagnosis is not None:
            diagnosis.end_step()
    return [*left, *(parameter.detach().clone() for parameter in model.parameters())]


def ddp(rank: int, options: dict[str, Any], folder: Path) -> None:
    plain = train(rank, options, None, folder)
    observed = train(rank, options, TrainingState(KINDS), folder)
    assert all(torch.equal(a, b) for a, b in zip(plain, observed))

    record = json.loads((folder / "step0" / f"rank{rank}" / "diagnosis.json").read_text())
    assert record["faults"] == []
    second = gradients_of_a_rank(rank, 2)
    other = gradients_of_a_rank(1 - rank, 2)
    if options.get("static_graph"):
        (last,) = record["backward"]
        mine, others = second, other
    else:
        accumulated, last = record["backward"]
        first = gradients_of_a_rank(rank, 1)
        before = gradients_of_a_rank(1 - rank, 1)
        assert all(same(accumulated["before_reduction"][name], value) for name, value in first.items())
        assert accumulated["before_reduction"] == accumulated["after_reduction"]
        mine = {name: first[name] + second[name] for name in first}
        others = {name: before[name] + other[name] for name in first}
    for name, value in mine.items():
        assert same(last["before_reduction"][name], value), name
        assert same(last["after_reduction"][name], value / 2 + others[name] / 2), name
        assert last["before_reduction"][name]["crc32"] != last["after_reduction"][name]["crc32"]
    at_optimizer = record["gradients_at_optimizer"][0]["gradients"]
    assert at_optimizer == last["after_reduction"]


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"bucket_cap_mb": 1e-5},
)


def ddp_with_all_options(rank: int, folder: Path) -> None:
    for number, options in enumerate(OPTIONS):
        ddp(rank, options, folder / str(number))


def test_distributed_data_parallel(tmp_path: Path) -> None:
    launch(ddp_with_all_options, tmp_path)


def failed_backward(rank: int, folder: Path) -> None:
    model = network()

    def fails(_: Any) -> None:
        raise RuntimeError("connection closed by peer")

    model[0].weight.register_hook(fails)
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(model, folder / f"rank{rank}")
    with pytest.raises(RuntimeError, match="closed by peer"):
        model(batch(rank, 1)).square().sum().backward()
    assert model[2].weight.grad is not None  # some arrived
    diagnosis.end_step()
    assert json.loads((folder / f"rank{rank}" / "diagnosis.json").read_text())["backward"] == []


def test_a_backward_that_failed_reduced_nothing(tmp_path: Path) -> None:
    launch(failed_backward, tmp_path)


def fsdp(rank: int, folder: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    diagnosis = TrainingState(KINDS)
    diagnosis.begin_step(model, folder / f"rank{rank}")
    model(batch(rank, 1)).square().sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    optimizer.step()
    diagnosis.end_step()
    record = json.loads((folder / f"rank{rank}" / "diagnosis.json").read_text())
    assert len(record["faults"]) == 4, record["faults"]
    assert all("DTensor" in fault for fault in record["faults"])
    (backward,) = record["backward"]
    assert "before_reduction" not in backward
    mean = (gradients_of_a_rank(0, 1)["module.0.weight"] + gradients_of_a_rank(1, 1)["module.0.weight"]) / 2
    entry = backward["after_reduction"]["0.weight"]
    assert entry["part"].startswith("local shard")
    assert entry["shape"] == [8, 4]
    assert entry["max"] == pytest.approx(float(mean.chunk(RANKS)[rank].max()), rel=1e-6)
    assert "momentum_buffer" in record["optimizer"][0]["state_after"]["0.weight"]


def test_fully_sharded_parameters(tmp_path: Path) -> None:
    launch(fsdp, tmp_path)
