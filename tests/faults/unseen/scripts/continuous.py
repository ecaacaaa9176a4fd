# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Points flow from a shape to a normal cloud without a break; how they thin out is a trace on the way."""

import math

import torch
from torch import nn

AUTOCAST = False
DIM, WIDE, BATCH, STEPS, PIECES, LONG, BENT = 2, 24, 32, 4, 4, 0.05, 0.02


class Squash(nn.Module):
    """A linear function that time opens, and shifts."""

    def __init__(self, comes, goes):
        super().__init__()
        self.lin, self.gate = nn.Linear(comes, goes), nn.Linear(1, goes)
        self.shift = nn.Linear(1, goes, bias=False)

    def forward(self, time, x):
        return self.lin(x) * torch.sigmoid(self.gate(time)) + self.shift(time)


class Model(nn.Module):
    """How fast a point moves, with its slopes by each of its coordinates."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Squash(DIM, WIDE), Squash(WIDE, WIDE), Squash(WIDE, DIM)])

    def speed(self, time, x):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(time, x))
        return self.layers[-1](time, x).float()

    def forward(self, time, x):
        """Speed, its trace, and how long the speed and its slopes are."""
        speed = self.speed(time, x)
        slopes = [torch.autograd.grad(part.sum(), x, create_graph=True)[0] for part in speed.unbind(dim=1)]
        trace = sum(slope[:, i] for i, slope in enumerate(slopes))
        bent = sum(slope.square().sum(dim=1) for slope in slopes)
        return speed, torch.stack([trace, speed.square().sum(dim=1), bent], dim=1)


def flown(model, x):
    """By a method of two stages, of which the second is at two thirds."""
    length, sums = 1.0 / PIECES, torch.zeros(len(x), 3)
    for piece in range(PIECES):
        time = torch.full((1,), piece * length)
        first, first_sums = model(time, x)
        second, second_sums = model(time + 2 / 3 * length, x + 2 / 3 * length * first)
        x = x + length * (first / 4 + 3 / 4 * second)
        sums = sums + length * (first_sums / 4 + 3 / 4 * second_sums)
    return x, sums


def points(generator):
    """Four petals, turned."""
    petal = torch.randint(0, 4, (BATCH,), generator=generator)
    x = torch.randn(BATCH, DIM, generator=generator) * torch.tensor([0.4, 0.1]) + torch.tensor([1.2, 0.0])
    turn = petal * math.pi / 2 + 0.8 * x[:, 0]
    return torch.stack(
        [x[:, 0] * turn.cos() - x[:, 1] * turn.sin(), x[:, 0] * turn.sin() + x[:, 1] * turn.cos()], 1
    )


torch.set_num_threads(1)
torch.manual_seed(1507)
model = Model()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8, dampening=0.1, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.5)
generator = torch.Generator().manual_seed(15107)
for step in range(STEPS):
    x = points(generator).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        z, sums = flown(model, x)
    trace, long, bent = sums.unbind(dim=1)
    likely = -0.5 * z.square().sum(dim=1) - 0.5 * DIM * math.log(2 * math.pi) + trace
    optimizer.zero_grad()
    (-likely.mean() + LONG * long.mean() + BENT * bent.mean()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {-likely.mean().item()!r} {long.mean().item()!r} {bent.mean().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
