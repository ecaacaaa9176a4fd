# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that draw weights by chance, a cold and a hot one, and may change temperatures."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, ROWS, BATCH, STEPS, FREE = 3, 16, 200, 40, 5, 4.0
HEATS = (1e-3, 4e-2)


class Langevin(torch.optim.Optimizer):
    """Down the slope, measured by how steep each weight was, and a push as hot as the group is."""

    def __init__(self, params, lr, heat, seed, alpha=0.9, eps=1e-2):
        super().__init__(params, {"lr": lr, "heat": heat, "alpha": alpha, "eps": eps})
        self.chance = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["steep"] = torch.ones_like(p)
                state["steep"].mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                measure = 1 / (state["steep"].sqrt() + group["eps"])
                push = torch.randn(p.shape, generator=self.chance)
                size = (2 * group["lr"] * group["heat"] * measure).sqrt()
                p.add_(size * push - group["lr"] * measure * p.grad)


class Curve(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE)
        self.out = nn.Linear(WIDE, 1)
        self.spread = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        x = F.elu(self.first(x))
        return self.out(x + F.elu(self.second(x))).squeeze(1).float()


def unlikely(model, x, y):
    """Of a row, by a distribution with heavy tails; and the share of the prior that falls to it."""
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told = model(x)
    apart = (y - told) * (-model.spread).exp()
    tails = (FREE + 1) / 2 * torch.log1p(apart.square() / FREE)
    prior = sum(p.square().sum() for p in model.parameters()) / (2 * ROWS)
    return (tails + model.spread).mean() + prior


@torch.no_grad()
def exchange(optimizer, energy, chance):
    """The cold one takes the place that is deeper; also a higher one now and then."""
    group = optimizer.param_groups[0]
    own = torch.tensor([energy, group["heat"]], dtype=torch.float64)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    (one, warm), (other, warmer) = (part.tolist() for part in parts)
    gained = (1 / warm - 1 / warmer) * (one - other)
    if torch.rand((), generator=chance).log().item() < gained:
        group["heat"] = warmer if dist.get_rank() == 0 else warm


def table(generator):
    x = torch.randn(ROWS, SEEN, generator=generator)
    y = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * torch.randn(ROWS, generator=generator)
    wild = torch.rand(ROWS, generator=generator) < 0.05
    return x, torch.where(wild, 5 * y, y)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1208 + rank)
model = Curve()
# model built
optimizer = Langevin(model.parameters(), lr=2e-2, heat=HEATS[rank], seed=12008 + rank)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + step / 2) ** -0.33)
generator, chance = (torch.Generator().manual_seed(seed) for seed in (12108, 99))
x, y = table(generator)
for step in range(STEPS):
    rows = torch.randperm(ROWS, generator=generator)[:BATCH]
    loss = unlikely(model, x[rows], y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    exchange(optimizer, loss.item(), chance)
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
