# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small model on one process, and the same spread over several by FSDP2 and DTensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Kind of job -> processes.
RANKS = {"fsdp2": 2, "tp": 2, "fsdp2+tp": 4}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.act = nn.GELU()
        self.down = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x)))


def single() -> Model:
    torch.manual_seed(0)
    return Model()


def batch(parts: int = 1, part: int = 0) -> torch.Tensor:
    """Four samples, or what one of `parts` processes gets of them."""
    whole = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    return whole.chunk(parts)[part].clone()


def spread(kind: str) -> tuple[Any, torch.Tensor]:
    """The model, spread over the processes, and the samples of this one."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = single()
    if kind == "fsdp2+tp":
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        data, tensor = mesh["dp"], mesh["tp"]
    else:
        whole = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=(kind,))
        data, tensor = (whole, None) if kind == "fsdp2" else (None, whole)
    if tensor is not None:
        for block in (model.first, model.second):
            parallelize_module(block, tensor, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    if data is None:
        return model, batch()
    fully_shard(model.first, mesh=data)
    return fully_shard(model, mesh=data), batch(data.size(), data.get_local_rank())


def collectives() -> list[int]:
    """How many were issued so far, by process group."""
    from torch.distributed import distributed_c10d

    return [group._get_sequence_number_for_group() for group in distributed_c10d._world.pg_map]
