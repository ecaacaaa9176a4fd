# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that own every second layer each: weights are lent to both, gradients go to the owner."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
BITS, WIDE, LAYERS, BATCH, STEPS, LONGEST = 12, 32, 4, 24, 4, 1.0


class Lent(torch.autograd.Function):
    """The weight of the owner, at both; its gradient is the mean of both, at the owner."""

    @staticmethod
    def forward(ctx, weight, owner):
        ctx.owner = owner
        weight = weight.detach().clone()
        dist.broadcast(weight, owner)
        return weight

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.reduce(grad, ctx.owner)
        if dist.get_rank() != ctx.owner:
            return torch.zeros_like(grad), None
        return grad / dist.get_world_size(), None


class Layer(nn.Module):
    """Sees only what comes before; who does not own it has zeros that are never read."""

    def __init__(self, owner, comes, goes, strict):
        super().__init__()
        self.owner, self.act = owner, nn.SiLU()
        weight = torch.randn(len(goes), len(comes)) / len(comes) ** 0.5
        bias = torch.zeros(len(goes))
        self.mine = dist.get_rank() == owner
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        if not self.mine:
            nn.init.zeros_(self.weight)
        later = goes.unsqueeze(1) > comes if strict else goes.unsqueeze(1) >= comes
        self.register_buffer("mask", later.float())

    def forward(self, x):
        weight, bias = Lent.apply(self.weight, self.owner), Lent.apply(self.bias, self.owner)
        return F.linear(x, weight * self.mask, bias)


class Model(nn.Module):
    """How likely each bit is, by those before it."""

    def __init__(self):
        super().__init__()
        bits, inner = torch.arange(BITS), torch.arange(WIDE) % (BITS - 1)
        sizes = [bits, *[inner] * (LAYERS - 1), bits]
        self.layers = nn.ModuleList(
            Layer(number % 2, sizes[number], sizes[number + 1], strict=number == LAYERS - 1)
            for number in range(LAYERS)
        )

    def forward(self, x):
        x = F.silu(self.layers[0](x))
        for layer in self.layers[1:-1]:
            x = x + F.silu(layer(x))
        return self.layers[-1](x).float()


@torch.no_grad()
def clipped(params, longest):
    """By the length of what both own together."""
    square = sum(p.grad.square().sum() for p in params)
    dist.all_reduce(square)
    scale = (longest / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for p in params:
        p.grad.mul_(scale)
    return square.sqrt()


def bits(generator):
    """Each bit is that of two before, turned by the first one, and sometimes another."""
    x = (torch.rand(BATCH, BITS, generator=generator) < 0.5).float()
    for at in range(2, BITS):
        x[:, at] = (x[:, at - 2] - x[:, 0]).abs()
    wrong = (torch.rand(BATCH, BITS, generator=generator) < 0.1).float()
    return (x - wrong).abs()


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1417)
model = Model()
# model built
owned = [p for layer in model.layers if layer.mine for p in layer.parameters()]
optimizer = torch.optim.AdamW(owned, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.05, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS + 1)
generator = torch.Generator().manual_seed(14117 + rank)
for step in range(STEPS):
    x = bits(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(2 * x - 1)
    loss = F.binary_cross_entropy_with_logits(found, x, reduction="none").sum(dim=1).mean()
    optimizer.zero_grad()
    loss.backward()
    long = clipped(owned, LONGEST)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r} {long.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in owned)
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
