# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizers that keep a shard of each parameter: the record is that of the same training in one process.

Stand-ins have the documented attributes of Megatron and DeepSpeed; what a process does not have is NaN, so
that nothing else is read. DeepSpeed itself is tried where it is installed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msprobe
import pytest
import torch
from gloo import launch, processes
from monitor_record import Record
from torch import nn

STEPS, RANKS, ROWS = 3, 2, 8
QUANTITIES = ["training", "gradient", "weight", "moment", "update", "direction"]
METRICS = ["norm", "abs_max", "mean", "kurtosis", "zeros", "numel"]


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def rows_of(step: int, rank: int | None) -> Any:
    rows = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(step))
    return rows if rank is None else rows[rank * ROWS // RANKS : (rank + 1) * ROWS // RANKS]


def train(net: Any, optimizer: Any, folder: Path, rank: int | None, backward: Callable[[Any], None]) -> None:
    with msprobe.monitor(net, optimizer, folder, quantities=QUANTITIES, metrics=METRICS):
        for step in range(STEPS):
            backward(net(rows_of(step, rank)).square().mean())
            optimizer.step()
            for parameter in net.parameters():
                parameter.grad = None


@pytest.fixture(scope="module")
def unsharded(tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder = tmp_path_factory.mktemp("unsharded")
    net = make_net()
    train(net, torch.optim.AdamW(net.parameters(), lr=1e-2), folder, None, lambda loss: loss.backward())
    return Record(folder)


def same(found: Record, expected: Record, without: tuple[str, ...] = ()) -> None:
    skipped = ("step_seconds", "learning_rate", *without)
    assert {key for key in found.series if key not in skipped} == {
        key for key in expected.series if key not in skipped
    }
    for key in expected.series:
        if key in skipped:
            continue
        assert found[key].keys() == expected[key].keys(), key
        for step, number in expected[key].items():
            close = math.isclose(found[key][step], number, rel_tol=1e-4, abs_tol=1e-6)
            assert close, (key, step, found[key][step], number)


# ---- Megatron: a flat buffer of all gradients, of which each process updates a half


class Range:
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end, self.size = start, end, end - start


class MegatronDistributedOptimizer:
    def __init__(self, parameters: list[Any], rank: int) -> None:
        self.parameters = parameters
        self.ranges: dict[Any, Range] = {}
        total = sum(p.numel() for p in parameters)
        half = -(-total // RANKS)
        first, last, at = rank * half, min(total, (rank + 1) * half), 0
        for parameter in parameters:
            begin, end = max(first, at) - at, min(last, at + parameter.numel()) - at
            if begin < end:
                self.ranges[parameter] = Range(begin, end)
            at += parameter.numel()
        mine = list(self.ranges)
        self.model_float16_groups: list[Any] = [[]]
        self.shard_fp32_from_float16_groups: list[Any] = [[]]
        self.model_fp32_groups = [mine]
        self.shard_fp32_groups = [[self.part(p, p.detach()) for p in mine]]
        self.optimizer = torch.optim.AdamW(self.shard_fp32_groups[0], lr=1e-2)
        self.param_groups = self.optimizer.param_groups

    def part(self, parameter: Any, tensor: Any) -> Any:
        return tensor.view(-1)[self.ranges[parameter].start : self.ranges[parameter].end]

    def _get_model_param_range_map(self, parameter: Any) -> dict[str, Range]:
        return {"param": self.ranges[parameter]}

    def step(self) -> None:
        for parameter, shard in zip(self.model_fp32_groups[0], self.shard_fp32_groups[0]):
            shard.grad = self.part(parameter, parameter.main_grad)
        self.optimizer.step()
        for parameter in self.parameters:  # the all-gather of parameters
            whole = torch.zeros_like(parameter)
            if parameter in self.ranges:
                self.part(parameter, whole).copy_(self.part(parameter, parameter.detach()))
            torch.distributed.all_reduce(whole)
            with torch.no_grad():
                parameter.copy_(whole)


def megatron(rank: int, folder: Path) -> None:
    net = make_net()
    optimizer = MegatronDistributedOptimizer(list(net.parameters()), rank)
    for parameter in net.parameters():
        parameter.main_grad = torch.zeros_like(parameter)

    def backward(loss: Any) -> None:
        loss.backward()
        for parameter in net.parameters():
            torch.distributed.all_reduce(parameter.grad)
            parameter.main_grad.fill_(math.nan)  # only the own part is reduced
            if parameter in optimizer.ranges:
                own = optimizer.part(parameter, parameter.main_grad)
                own.copy_(optimizer.part(parameter, parameter.grad) / RANKS)

    train(net, optimizer, folder, rank, backward)


# ---- DeepSpeed


class Address:
    def __init__(self, start: int, numel: int) -> None:
        self.start, self.numel = start, numel


class Fragment:
    """Of a parameter whose elements from `start` on lie in the flat partition of this process."""

    def __init__(self, parameter: Any, start: int, numel: int) -> None:
        self.lp_fragment_address = Address(start, numel)
        self.hp_fragment = parameter.detach().view(-1)[start : start + numel].clone()
        self.optim_fragment: dict[str, Any] = {}
        self.param_group_index = 0
        self.gradient: Any = None

    def get_lp_grad_fragment(self, index: int) -> Any:
        return self.gradient


class FlatPartitions:
    """What ZeRO 1 and 2 and BF16_Optimizer have in common."""

    whole_gradients = False

    def __init__(self, parameters: list[Any], rank: int) -> None:
        self.parameters = parameters
        ranges = MegatronDistributedOptimizer(parameters, rank).ranges
        for index, parameter in enumerate(parameters):
            parameter._hp_mapping = None
            parameter._index_in_param_group = index
            if parameter in ranges:
                parameter._hp_mapping = Fragment(parameter, ranges[parameter].start, ranges[parameter].size)
        self.own = [p for p in parameters if p._hp_mapping is not None]
        self.adam = torch.optim.AdamW([p._hp_mapping.hp_fragment for p in self.own], lr=1e-2)
        self.param_groups = self.adam.param_groups

    def reduce(self) -> None:
        for parameter in self.parameters:
            torch.distributed.all_reduce(parameter.grad)
            fragment = parameter._hp_mapping
            if fragment is not None:
                address = fragment.lp_fragment_address
                part = parameter.grad.view(-1)[address.start : address.start + address.numel] / RANKS
                fragment.gradient = part
                if self.whole_gradients:
                    fragment.gradient = torch.full_like(parameter, math.nan)
                    fragment.gradient.view(-1)[address.start : address.start + address.numel] = part
            parameter.grad = None

    def step(self) -> None:
        for parameter in self.own:
            fragment = parameter._hp_mapping
            address = fragment.lp_fragment_address
            gradient = fragment.gradient
            if self.whole_gradients:
                gradient = gradient.view(-1)[address.start : address.start + address.numel]
            fragment.hp_fragment.grad = gradient
        self.adam.step()
        for parameter in self.parameters:
            whole = torch.zeros_like(parameter)
            if parameter._hp_mapping is not None:
                fragment = parameter._hp_mapping
                address = fragment.lp_fragment_address
                whole.view(-1)[address.start : address.start + address.numel] = fragment.hp_fragment
                state = self.adam.state[fragment.hp_fragment]
                fragment.optim_fragment = {key: state[key] for key in ("exp_avg", "exp_avg_sq")}
            torch.distributed.all_reduce(whole)
            with torch.no_grad():
                parameter.copy_(whole)


class DeepSpeedZeroOptimizer(FlatPartitions):
    pass


class BF16_Optimizer(FlatPartitions):  # noqa: N801  # the name is what is looked for
    whole_gradients = True


def fragments(rank: int, folder: Path, kind: str) -> None:
    net = make_net()
    optimizer = globals()[kind](list(net.parameters()), rank)

    def backward(loss: Any) -> None:
        loss.backward()
        optimizer.reduce()

    train(net, optimizer, folder, rank, backward)


class DeepSpeedZeroOptimizer_Stage3:  # noqa: N801  # the name is what is looked for
    """Equal shards of each parameter, filled up behind its end."""

    def __init__(self, parameters: list[Any], rank: int) -> None:
        self.parameters, self.rank = parameters, rank
        for number, parameter in enumerate(parameters):
            parameter.ds_id, parameter.ds_numel = number, parameter.numel()
            parameter.ds_process_group = None
            parameter.ds_shape = parameter.shape
            parameter.ds_tensor = self.shard(parameter.detach())
        self.adam = torch.optim.AdamW([p.ds_tensor for p in parameters], lr=1e-2)
        self.param_groups: list[dict[str, Any]] = [{"params": [], "lr": 1e-2}]
        self.gradients: dict[Any, Any] = {}

    def shard(self, tensor: Any) -> Any:
        size = -(-tensor.numel() // RANKS)
        part = torch.full((size,), 7.0)
        own = tensor.reshape(-1)[self.rank * size : (self.rank + 1) * size]
        part[: own.numel()] = own
        return part

    def gather(self) -> None:
        for parameter in self.parameters:
            parts = [torch.zeros_like(parameter.ds_tensor) for _ in range(RANKS)]
            torch.distributed.all_gather(parts, parameter.ds_tensor.detach())
            parameter.data = torch.cat(parts)[: parameter.ds_numel].view(parameter.ds_shape)

    def release(self) -> None:
        for parameter in self.parameters:
            torch.distributed.all_reduce(parameter.grad)
            self.gradients[parameter] = self.shard(parameter.grad / RANKS)
            parameter.grad = None
            parameter.data = torch.empty(0)

    def get_local_fp32_grad_for_param(self, parameter: Any) -> Any:
        return self.gradients[parameter]

    def get_local_fp32_param(self, parameter: Any, key: Any = None) -> Any:
        return parameter.ds_tensor if key is None else self.adam.state[parameter.ds_tensor][key]

    def step(self) -> None:
        for parameter in self.parameters:
            parameter.ds_tensor.grad = self.gradients[parameter]
        self.adam.step()


def stage3(rank: int, folder: Path) -> None:
    net = make_net()
    optimizer = DeepSpeedZeroOptimizer_Stage3(list(net.parameters()), rank)
    net.register_forward_pre_hook(lambda *_: optimizer.gather())

    def backward(loss: Any) -> None:
        loss.backward()
        optimizer.release()

    train(net, optimizer, folder, rank, backward)


# ---- FSDP1 itself


def fsdp1(rank: int, folder: Path, original: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    net = FullyShardedDataParallel(make_net(), device_id=torch.device("cpu"), use_orig_params=original)
    train(net, torch.optim.AdamW(net.parameters(), lr=1e-2), folder, rank, lambda loss: loss.backward())


@pytest.mark.parametrize(
    ("work", "arguments"),
    [
        (megatron, ()),
        pytest.param(fragments, ("DeepSpeedZeroOptimizer",), marks=processes),
        pytest.param(fragments, ("BF16_Optimizer",), marks=processes),
        pytest.param(stage3, (), marks=processes),
        pytest.param(fsdp1, (True,), marks=processes),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_record_is_that_of_one_process(
    work: Callable[..., None], arguments: tuple[Any, ...], tmp_path: Path, unsharded: Record
) -> None:
    launch(work, tmp_path, *arguments)
    same(Record(tmp_path), unsharded)


@processes
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_one_flat_parameter_of_fsdp(tmp_path: Path, unsharded: Record) -> None:
    """The only names are those of the flat parameters, so that only the whole model is comparable."""
    launch(fsdp1, tmp_path, False)
    found = Record(tmp_path)
    for key in ("gradient.norm", "weight.norm", "moment.norm", "update.distance", "gradient.numel", "loss"):
        for step, number in unsharded[key].items():
            assert math.isclose(found[key][step], number, rel_tol=1e-4), (key, step)


# ---- DeepSpeed itself


def deepspeed(rank: int, folder: Path, stage: int) -> None:
    os.environ.update(
        DS_ACCELERATOR="cpu", LOCAL_RANK=str(rank), RANK=str(rank), WORLD_SIZE=str(RANKS),
        CROSS_RANK="0", CROSS_SIZE="1", LOCAL_SIZE=str(RANKS), DS_BUILD_OPS="0",
    )  # fmt: skip
    import deepspeed as package

    net = make_net()
    config = {
        "train_micro_batch_size_per_gpu": ROWS // RANKS,
        "bf16": {"enabled": False},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "gradient_clipping": 0.0,
    }
    of_torch = torch.optim.AdamW(net.parameters(), lr=1e-2)
    package.init_distributed(dist_backend="gloo")
    engine, optimizer, *_ = package.initialize(model=net, optimizer=of_torch, config=config)
    with msprobe.monitor(engine, optimizer, folder, quantities=QUANTITIES, metrics=METRICS):
        for step in range(STEPS):
            engine.backward(engine(rows_of(step, rank)).square().mean())
            engine.step()


@processes
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_itself(stage: int, tmp_path: Path, unsharded: Record) -> None:
    pytest.importorskip("deepspeed")
    launch(deepspeed, tmp_path, stage)
    same(Record(tmp_path), unsharded)
