# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A normalizing flow: affine couplings over the halves of points, and scales of single features."""

import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, width, is_swapped):
        super().__init__()
        self.is_swapped = is_swapped
        self.net = nn.Sequential(
            nn.Linear(width // 2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, width)
        )

    def forward(self, x):
        kept, moved = x.chunk(2, 1)
        if self.is_swapped:
            kept, moved = moved, kept
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale)
        moved = moved * torch.exp(scale) + shift
        halves = [moved, kept] if self.is_swapped else [kept, moved]
        return torch.cat(halves, 1), scale.sum(1)


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.log_scale, self.shift = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, width):
        super().__init__()
        parts = []
        for number in range(4):
            parts += [Scale(width), Coupling(width, number % 2 == 1)]
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        total = torch.zeros(len(x))
        for part in self.parts:
            x, change = part(x)
            total = total + change
        prior = -0.5 * (x.square() + math.log(2 * math.pi)).sum(1)
        return prior + total


torch.set_num_threads(1)
torch.manual_seed(22)
model = Flow(10)
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01, foreach=False)
generator = torch.Generator().manual_seed(710)
called = model
for step in range(3):
    points = torch.randn(64, 10, generator=generator)
    points = points @ torch.randn(10, 10, generator=generator) * 0.4
    loss = -called(points).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
