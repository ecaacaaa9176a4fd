# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A picture as a function: sines of sines, which learn its colours and how steep it is."""

import math

import torch
from torch import nn

DTYPE = torch.float32
OMEGA, WIDTH, SIDE, POINTS = 20.0, 32, 32, 96


class Sine(nn.Module):
    def __init__(self, before, after, is_first=False):
        super().__init__()
        self.linear = nn.Linear(before, after)
        bound = 1 / before if is_first else math.sqrt(6 / before) / OMEGA
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(OMEGA * self.linear(x))


def siren():
    last = nn.Linear(WIDTH, 1)
    nn.init.uniform_(last.weight, -math.sqrt(6 / WIDTH) / OMEGA, math.sqrt(6 / WIDTH) / OMEGA)
    return nn.Sequential(Sine(2, WIDTH, is_first=True), Sine(WIDTH, WIDTH), Sine(WIDTH, WIDTH), last)


def picture():
    """A smooth one, and its slopes by differences, from pixel to pixel."""
    y, x = torch.meshgrid(torch.arange(SIDE + 0.0), torch.arange(SIDE + 0.0), indexing="ij")
    bright = torch.sin(x / 5) * torch.cos(y / 4) + 0.3 * torch.sin((x + y) / 3)
    return bright.to(DTYPE), torch.stack(torch.gradient(bright), dim=-1).to(DTYPE)


def batch_of(generator):
    places = torch.randint(1, SIDE - 1, (POINTS, 2), generator=generator)
    at = 2 * places.to(DTYPE) / (SIDE - 1) - 1
    return at.requires_grad_(), BRIGHT[places[:, 0], places[:, 1]], STEEP[places[:, 0], places[:, 1]]


torch.set_num_threads(1)
torch.manual_seed(707)
BRIGHT, STEEP = picture()
model = siren().to(DTYPE)
# model built
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-4, momentum_decay=4e-3, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
generator = torch.Generator().manual_seed(77)
for step in range(4):
    at, bright, steep = batch_of(generator)
    found = model(at).squeeze(-1)
    (slopes,) = torch.autograd.grad(found.sum(), at, create_graph=True)
    slopes = slopes * 2 / (SIDE - 1)
    of_colours = (found - bright).square().mean()
    of_slopes = (slopes - steep).square().sum(-1).mean()
    loss = of_colours + 2.0 * of_slopes
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
