# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run --fold: n ranks add up as one process that accumulates n micro-batches."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import torch
from gloo import launch, processes

RANKS, STEPS = 4, 2


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.GELU(), torch.nn.Linear(65, 7))


def loss(module: torch.nn.Module, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(number)
    return module(torch.randn(16, 33, generator=generator)).square().mean()


def trained(layout: str, rank: int, group: Any = None) -> torch.Tensor:
    plain = model()
    module: torch.nn.Module = plain
    if layout.startswith("ddp"):
        module = torch.nn.parallel.DistributedDataParallel(plain, process_group=group)
    if layout == "ddp, its hook":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        module.register_comm_hook(group, allreduce_hook)
    if layout.startswith("fsdp"):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(plain, mesh=DeviceMesh.from_group(group, "cpu"))
    optimizer = torch.optim.AdamW(plain.parameters(), 1e-2)
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(RANKS) if layout == "one" else [rank]:
            found = loss(module, step * RANKS + number)
            (found / RANKS if layout == "one" else found).backward()
        optimizer.step()
    found_weights = (one.full_tensor() if hasattr(one, "full_tensor") else one for one in plain.parameters())
    return torch.cat([one.detach().flatten() for one in found_weights])


LAYOUTS = ("ddp", "ddp, its hook", "fsdp")


def other_back_end(store: Any, rank: int, ranks: int, timeout: Any) -> Any:
    """Of a name that nothing knows."""
    return torch.distributed.ProcessGroupGloo(store, rank, ranks, timeout)


class AddsUpOnly(torch.distributed.ProcessGroup):
    """A back end that cannot gather."""

    def __init__(self, store: Any, rank: int, ranks: int, timeout: Any) -> None:
        super().__init__(rank, ranks)
        self._gloo = torch.distributed.ProcessGroupGloo(store, rank, ranks, timeout)

    def allreduce(self, tensors: Any, options: Any) -> Any:
        return self._gloo.allreduce(tensors, options)

    def getBackendName(self) -> str:  # noqa: N802  # torch's
        return "adds_up_only"


def work(rank: int, folder: Path) -> None:
    from msprobe.training.folded import fold_reductions
    from torch import distributed

    said: list[str] = []
    fold_reductions(said.append)
    for name, maker in (("other", other_back_end), ("adds_up_only", AddsUpOnly)):
        distributed.Backend.register_backend(name, maker, devices=["cpu"])
    for name in ("gloo", "other"):
        group = distributed.new_group(backend=name)
        given = torch.tensor([1e8, 1.0, -1e8, 0.0][rank])
        scaled = given.clone()
        handle = distributed.all_reduce(given, group=group, async_op=True)
        assert handle.wait()  # in the order of the ranks the 1 is lost
        distributed.all_reduce(scaled, distributed.ReduceOp.PREMUL_SUM(0.5), group)
        counts = torch.tensor(rank)
        distributed.all_reduce(counts, group=group)  # exact in any order, and left to the back end
        for layout in LAYOUTS:
            torch.save(trained(layout, rank, group), folder / f"{name}.{layout}.{rank}")
        torch.save((given, scaled, counts), folder / f"{name}.sums.{rank}")
    assert said == []
    cannot = distributed.new_group(backend="adds_up_only")
    left = torch.tensor(float(rank))
    for _ in range(2):
        distributed.all_reduce(left.fill_(float(rank)), group=cannot)
    distributed.reduce(torch.tensor(float(rank)), 0)
    torch.save((left, said), folder / f"left.{rank}")


@processes
def test_ranks_add_up_as_one_process_whatever_the_back_end_is_called(tmp_path: Path) -> None:
    launch(work, tmp_path, ranks=RANKS)
    torch.set_num_threads(1)
    whole = trained("one", 0)
    for rank, name in itertools.product(range(RANKS), ("gloo", "other")):
        sums = torch.load(tmp_path / f"{name}.sums.{rank}")
        assert [one.item() for one in sums] == [0.0, 0.0, 6]
        for layout in LAYOUTS:
            found = torch.load(tmp_path / f"{name}.{layout}.{rank}")
            assert torch.equal(found, whole), (name, layout)
    for rank in range(RANKS):
        left, said = torch.load(tmp_path / f"left.{rank}")
        assert left.item() == 6  # by the back end
        gather, reduce = said
        assert gather.startswith("back end adds_up_only: cannot gather (")
        assert reduce.startswith("reduce of torch.distributed")
