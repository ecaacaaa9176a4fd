# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run --fold: n ranks add up as one process that accumulates n micro-batches."""

from __future__ import annotations

from pathlib import Path

import torch
from gloo import launch, processes

RANKS, STEPS = 4, 2


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.GELU(), torch.nn.Linear(65, 7))


def loss(module: torch.nn.Module, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(number)
    return module(torch.randn(16, 33, generator=generator)).square().mean()


def trained(layout: str, rank: int) -> torch.Tensor:
    plain = model()
    module: torch.nn.Module = plain
    if layout == "ddp":
        module = torch.nn.parallel.DistributedDataParallel(plain)
    if layout == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(plain)
    optimizer = torch.optim.AdamW(plain.parameters(), 1e-2)
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(RANKS) if layout == "one" else [rank]:
            found = loss(module, step * RANKS + number)
            (found / RANKS if layout == "one" else found).backward()
        optimizer.step()
    found_weights = (one.full_tensor() if hasattr(one, "full_tensor") else one for one in plain.parameters())
    return torch.cat([one.detach().flatten() for one in found_weights])


def work(rank: int, folder: Path) -> None:
    from msprobe.training.folded import fold_reductions

    fold_reductions()
    given = torch.tensor([1e8, 1.0, -1e8, 0.0][rank])
    torch.distributed.all_reduce(given)  # in the order of the ranks the 1 is lost
    counts = torch.tensor(rank)
    torch.distributed.all_reduce(counts)  # integers are exact in any order, and left to the back end
    for layout in ("ddp", "fsdp"):
        torch.save(trained(layout, rank), folder / f"{layout}.{rank}")
    torch.save((given, counts), folder / f"sums.{rank}")


@processes
def test_ranks_add_up_as_one_process(tmp_path: Path) -> None:
    launch(work, tmp_path, ranks=RANKS)
    torch.set_num_threads(1)
    whole = trained("one", 0)
    for rank in range(RANKS):
        given, counts = torch.load(tmp_path / f"sums.{rank}")
        assert (given.item(), counts.item()) == (0.0, 6)
        for layout in ("ddp", "fsdp"):
            found = torch.load(tmp_path / f"{layout}.{rank}")
            assert torch.equal(found, whole)
