# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes merge/cp2.deflate, cp1.deflate, ep2.deflate and ep1.deflate for tests/cpp/graph/merge_test.cpp: what
msprobe records of a small model on two gloo ranks of context (expert) parallelism, and of the same model with
the same data on one. In the form of make_merge.py, without graphs.

Context parallelism: each rank has half of every sequence; keys and values are gathered for attention. Expert
parallelism: each rank has half of the batch and two of four experts; tokens go to the rank of their expert.

Usage: python make_parallel.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from make_merge import TARGET, input_lines, write

WIDTH, LENGTH, BATCH, EXPERTS = 8, 6, 4, 4


class Gather(torch.autograd.Function):
    """All parts of a tensor along a dimension; gradients of the copies are added up."""

    @staticmethod
    def forward(context: Any, part: torch.Tensor, dimension: int) -> torch.Tensor:
        context.dimension = dimension
        context.size = part.shape[dimension]
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, dimension)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = gradient.clone()
        dist.all_reduce(total)
        return total.narrow(context.dimension, dist.get_rank() * context.size, context.size), None


class Scatter(torch.autograd.Function):
    """The part of this rank, along the first dimension, of the sum over the ranks."""

    @staticmethod
    def forward(context: Any, summand: torch.Tensor) -> torch.Tensor:
        total = summand.clone()
        dist.all_reduce(total)
        return torch.chunk(total, dist.get_world_size())[dist.get_rank()].clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, gradient.contiguous())
        return torch.cat(parts)


def gather(part: torch.Tensor, dimension: int) -> torch.Tensor:
    return Gather.apply(part, dimension) if dist.get_world_size() > 1 else part


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), gather(self.key(x), 1), gather(self.value(x), 1)
        weights = torch.softmax(torch.matmul(query, key.transpose(1, 2)), -1)
        return torch.matmul(weights, value)


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class SequentialMLP(nn.Module):
    """Experts one after the other; tokens are sorted by expert."""

    def __init__(self, experts: list[MLP]) -> None:
        super().__init__()
        self.local_experts = nn.ModuleList(experts)

    def forward(self, tokens: torch.Tensor, counts: list[int]) -> torch.Tensor:
        parts = torch.split(tokens, counts)
        return torch.cat([expert(part) for expert, part in zip(self.local_experts, parts, strict=True)])


class MoELayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        experts = [MLP() for _ in range(EXPERTS)]
        self.count = EXPERTS // dist.get_world_size()
        self.first = self.count * dist.get_rank()
        self.experts = SequentialMLP(experts[self.first : self.first + self.count])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = gather(x.reshape(-1, WIDTH), 0)
        choice = gather(self.router(x).detach().reshape(-1, EXPERTS), 0).argmax(-1)
        own = [(choice == self.first + i).nonzero()[:, 0] for i in range(self.count)]
        done = self.experts(tokens[torch.cat(own)], [len(indices) for indices in own])
        total = torch.zeros_like(tokens).index_add(0, torch.cat(own), done)
        return (Scatter.apply(total) if dist.get_world_size() > 1 else total).reshape(x.shape)


class Layer(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = SelfAttention() if kind == "cp" else None
        self.mlp = MLP() if kind == "cp" else MoELayer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        return self.mlp(x + self.attention(x) if self.attention is not None else x)


class Block(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(kind)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def work(rank: int, world: int, kind: str, folder: str, port: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    from msprobe.pytorch import PrecisionDebugger

    config = Path(folder, f"config{rank}.json")
    config.write_text(
        json.dumps(
            {
                "task": "statistics",
                "dump_path": folder + "/dump",
                "rank": [],
                "step": [],
                "level": "mix",
                "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
            }
        )
    )
    torch.manual_seed(1)
    model = Block(kind)
    data = torch.randn(BATCH, LENGTH, WIDTH)
    part = torch.chunk(data, world, 1 if kind == "cp" else 0)[rank].clone()
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start(model=model)
    result = model(part.requires_grad_())
    result.square().sum().backward()
    debugger.stop()
    debugger.step()
    dist.destroy_process_group()


def main() -> None:
    for number, (kind, world) in enumerate((kind, world) for kind in ("cp", "ep") for world in (1, 2)):
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(work, (world, kind, folder, 29650 + number), nprocs=world)
            write(TARGET / f"{kind}{world}.deflate", input_lines(Path(folder, "dump")))


if __name__ == "__main__":
    main()
