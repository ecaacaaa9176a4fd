# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with two of four networks that go to the data and away from each other."""

import math

import torch
import torch.distributed as dist
from torch import nn

AUTOCAST = False
OWN, WIDE, ROWS, BATCH, STEPS, PRIOR = 2, 14, 120, 30, 4, 0.5


class Curve(nn.Module):
    """Where a value lies, and how far it is spread."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(2, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 2)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        middle, spread = self.out(torch.tanh(self.second(x))).float().unbind(dim=1)
        return middle, nn.functional.softplus(spread) + 0.05


def unlikely(network, x, y):
    """Of all data, as far as the batch tells, and of the weights before any data."""
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        middle, spread = network(x)
    data = (0.5 * ((y - middle) / spread).square() + spread.log()).mean()
    prior = 0.5 * sum(p.square().sum() for p in network.parameters())
    return data + PRIOR * prior / ROWS


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def of_all(own):
    """(networks, numbers)"""
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return torch.cat(parts)


def moved(own, places, slopes):
    """Where own networks shall go: down the slopes of all near them, and away from all near them."""
    apart = own.unsqueeze(1) - places.unsqueeze(0)
    far = apart.square().sum(dim=2)
    every = (places.unsqueeze(1) - places.unsqueeze(0)).square().sum(dim=2)
    wide = every.median() / math.log(len(places) + 1)
    near = torch.exp(-far / wide)
    away = 2 / wide * (near.unsqueeze(2) * apart).sum(dim=1)
    return (near @ slopes - away / ROWS) / len(places)


def rows(generator):
    x = 2 * torch.rand(ROWS, 2, generator=generator) - 1
    y = torch.sin(3 * x[:, 0]) * x[:, 1] + 0.2 * x[:, 0].abs() * torch.randn(ROWS, generator=generator)
    return x, y


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1119 + 10 * rank)
model = nn.ModuleList(Curve() for _ in range(OWN))
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=3e-2, initial_accumulator_value=1e-2, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + step) ** -0.3)
generator = torch.Generator().manual_seed(1219)
x, y = rows(generator)
for step in range(STEPS):
    chosen = torch.randperm(ROWS, generator=generator)[:BATCH]
    losses = [unlikely(network, x[chosen], y[chosen]) for network in model]
    optimizer.zero_grad()
    sum(losses).backward()
    own = torch.stack([flat(p.detach() for p in network.parameters()) for network in model])
    places = of_all(own)
    slopes = of_all(torch.stack([flat(p.grad for p in network.parameters()) for network in model]))
    for network, move in zip(model, moved(own, places, slopes)):
        sizes = [p.numel() for p in network.parameters()]
        for p, part in zip(network.parameters(), move.split(sizes)):
            p.grad.copy_(part.view_as(p))
    optimizer.step()
    schedule.step()
    told = " ".join(repr(loss.item()) for loss in losses)
    print(f"rank {rank} step {step} loss {told}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
