# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that go one way by conjugate gradients, and agree how far: so that both got better enough."""

import torch
import torch.distributed as dist
from torch import nn

AUTOCAST = False
SEEN, WIDE, BATCH, STEPS, BEGIN, HALF, ENOUGH, TRIES = 6, 14, 40, 4, 8.0, 0.5, 0.1, 8


class Model(nn.Module):
    """A sum of bumps whose places and widths are learnt, and a plane."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(WIDE, SEEN))
        self.widths = nn.Parameter(torch.full((WIDE,), -1.0))
        self.heights, self.plane = nn.Linear(WIDE, 1), nn.Linear(SEEN, 1)

    def forward(self, x):
        far = (x.unsqueeze(1) - self.places).square().sum(dim=2)
        bumps = (-far * self.widths.exp()).exp()
        return (self.heights(bumps) + self.plane(x)).float().squeeze(1)


class Conjugate(torch.optim.Optimizer):
    """Each way is the gradient and a part of the way before, by Polak and Ribière, if it is above none."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.way, self.before, self.tries = None, None, 0

    def flat(self):
        return torch.cat([p.grad.flatten() for group in self.param_groups for p in group["params"]])

    @torch.no_grad()
    def moved(self, way, size):
        at = 0
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(way[at : at + p.numel()].view_as(p), alpha=size)
                at += p.numel()

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            loss = closure(True)
        grad = self.flat()
        way = -grad
        if self.way is not None:
            part = (grad @ (grad - self.before) / (self.before @ self.before)).clamp(min=0)
            way = way + part * self.way
        slope = grad @ way
        if slope >= 0:
            way, slope = -grad, -grad @ grad
        size = self.param_groups[0]["lr"]
        self.moved(way, size)
        self.tries = 1
        while closure(False) > loss + ENOUGH * size * slope and self.tries < TRIES:
            self.moved(way, size * HALF - size)
            size *= HALF
            self.tries += 1
        self.way, self.before = way, grad.clone()
        return loss


def rows(generator):
    """A bent surface."""
    x = torch.randn(BATCH, SEEN, generator=generator)
    return x, torch.sin(x[:, 0] + x[:, 1]) + 0.3 * x[:, 2] * x[:, 3]


@torch.no_grad()
def mean(tensor):
    dist.all_reduce(tensor)
    tensor /= dist.get_world_size()
    return tensor


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1320)
model = Model()
# model built
optimizer = Conjugate(model.parameters(), lr=BEGIN)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.5)
x, wanted = rows(torch.Generator().manual_seed(13120 + rank))


def closure(learns):
    """The loss of both; with gradients of both, too, where it learns."""
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = (torch.cosh(found - wanted)).log().mean()
    if learns:
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            mean(p.grad)
    return mean(loss.detach().clone())


for step in range(STEPS):
    loss = optimizer.step(closure)
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r} {optimizer.tries}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
