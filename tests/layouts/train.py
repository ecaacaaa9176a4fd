# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small Llama, trained in one layout, sound or with a planted fault (tests/layouts/table.py).

The global batch of a step is the same in every layout; a data-parallel rank takes its rows.
"""

from __future__ import annotations

import argparse
import os

import torch
from torch import distributed, nn

VOCABULARY, WIDTH, BLOCKS, BATCH, LENGTH = 64, 32, 2, 8, 16


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        size = x.float().pow(2).mean(-1, keepdim=True) + 1e-5
        return (x.float() * size.rsqrt()).to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.o = nn.Linear(width, width)

    def forward(self, x):
        heads = [f(x).unflatten(-1, (-1, 8)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention = Norm(width), Attention(width)
        self.norm2, self.mlp = Norm(width), MLP(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(BLOCKS))
        self.norm = Norm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def laid_out(model: nn.Module, layout: str, fault: str) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh

    world = distributed.get_world_size() if distributed.is_initialized() else 1
    if layout in ("ddp", "zero1"):
        if fault == "norm left out":
            nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
                model, ["norm.weight"]
            )
        return nn.parallel.DistributedDataParallel(model)
    if layout in ("fsdp", "hsdp"):
        from torch.distributed.fsdp import fully_shard

        names = {"fsdp": (("dp",), (world,)), "hsdp": (("replicate", "shard"), (2, world // 2))}[layout]
        mesh = init_device_mesh("cpu", names[1], mesh_dim_names=names[0])
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if fault == "divided twice":
            for part in (*model.blocks, model):
                part.set_gradient_divide_factor(float(2 * world))
    if layout in ("tp", "tp+dp"):
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        shape = {"tp": ((world,), ("tp",)), "tp+dp": ((world // 2, 2), ("dp", "tp"))}[layout]
        mesh = init_device_mesh("cpu", shape[0], mesh_dim_names=shape[1])
        plan = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {"mlp.gate": ColwiseParallel(), "mlp.up": ColwiseParallel()}
        plan |= {"attention.o": RowwiseParallel(), "mlp.down": RowwiseParallel()}
        for block in model.blocks:
            parallelize_module(block, mesh["tp"], plan)
        if layout == "tp+dp":
            from torch.distributed.fsdp import fully_shard

            for block in model.blocks:
                fully_shard(block, mesh=mesh["dp"])
            fully_shard(model, mesh=mesh["dp"])
    return model


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layout", default="one")
    parser.add_argument("--fault", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--micro", type=int, default=1, help="batches whose gradients are added up")
    asked = parser.parse_args()
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    layout, fault = ("one" if world == 1 else asked.layout), ("" if world == 1 else asked.fault)
    torch.set_num_threads(1)
    if world > 1:
        distributed.init_process_group("gloo")
    torch.manual_seed(rank if fault == "seeds of ranks" else 0)
    plain = Llama().to(getattr(torch, asked.dtype))
    model = laid_out(plain, layout, fault)
    if layout == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    shares = {"one": 1, "tp": 1, "tp+dp": world // 2}.get(layout, world)
    place = {"tp+dp": rank // 2}.get(layout, rank) if shares > 1 else 0
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
        train_step(model, plain, optimizer, tokens, asked.micro, shares, place, fault, step, rank, world)
    if world > 1:
        distributed.destroy_process_group()


def train_step(model, plain, optimizer, tokens, micro, parts, place, fault, step, rank, world) -> None:
    rows = BATCH // parts
    if fault == "same data":
        place = 0
    mine = tokens[place * rows : (place + 1) * rows]
    if fault == "uneven ranks":
        mine = tokens[: BATCH - 2] if place == 0 else tokens[BATCH - 2 :]
    if fault == "shifted":
        mine = torch.cat([mine[:, 1:], mine[:, :1]], 1)
    optimizer.zero_grad()
    for part in mine.chunk(micro):
        loss = nn.functional.cross_entropy(model(part[:, :-1]).float().flatten(0, 1), part[:, 1:].flatten())
        weight = part.shape[0] / mine.shape[0]
        if fault == "micro-batches summed":
            weight = 1.0
        loss = loss * weight
        if fault == "loss times ranks":
            loss = loss * world
        if fault == "no reduction":
            with model.no_sync():
                loss.backward()
        else:
            loss.backward()
    spoil(plain, optimizer, fault, step, rank, world)
    optimizer.step()
    if fault == "stale replica" and rank == 1 and step == 0:
        with torch.no_grad():
            plain.blocks[0].mlp.up.weight.mul_(1.0001)
    print(rank, step, float(local(loss)))


def spoil(plain, optimizer, fault: str, step: int, rank: int, world: int) -> None:
    gradients = [local(one.grad) for one in plain.parameters()]
    if fault == "averaged twice":
        for gradient in gradients:
            gradient.div_(world)
    if fault == "clipped by rank":
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm() * (1 + 0.1 * rank)
        for gradient in gradients:
            gradient.mul_(0.1 / norm)
    if fault == "one gradient changed" and rank == 1 and step == 1:
        gradients[-2].mul_(1.01)
    if fault == "norm not reduced":
        gradient = local(plain.norm.weight.grad)
        gradient.mul_(1 + 0.01 * rank)
    if fault == "learning rate of a rank" and rank == 1:
        optimizer.param_groups[0]["lr"] = 2e-3
    if fault == "weight decay of a rank" and rank == world - 1:
        optimizer.param_groups[0]["weight_decay"] = 0.0
    if fault == "eps":
        optimizer.param_groups[0]["eps"] = 1e-6
    if fault == "frozen shard" and rank == 0:
        gradients[3].zero_()
    if fault == "bias times ranks":
        local(plain.blocks[0].mlp.down.bias.grad).mul_(world)
    if fault == "sign of a shard" and rank == 1:
        local(plain.head.weight.grad).neg_()
    if fault == "rows of a shard" and rank == 1:
        gradient = local(plain.head.weight.grad)
        gradient.copy_(gradient.flip(0))


if __name__ == "__main__":
    main()
