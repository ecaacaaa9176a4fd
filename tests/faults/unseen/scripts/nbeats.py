# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""N-BEATS: blocks that each explain a part of a series, and hand on what they could not."""

import math

import torch
from torch import nn

AUTOCAST = False
BACK, AHEAD = 24, 8


def powers(length, degree):
    return torch.stack([(torch.arange(length) / length) ** power for power in range(degree)])


def waves(length, count):
    angles = 2 * math.pi * torch.arange(count)[:, None] * torch.arange(length) / length
    return torch.cat([angles.cos(), angles.sin()])


class Block(nn.Module):
    def __init__(self, basis, size, width=40):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(BACK, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.register_buffer("of_past", basis(BACK, size))
        self.register_buffer("of_future", basis(AHEAD, size))
        self.past, self.future = (nn.Linear(width, len(self.of_past), bias=False) for _ in range(2))

    def forward(self, x):
        h = self.body(x)
        return self.past(h) @ self.of_past, self.future(h) @ self.of_future


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(powers, 3), Block(powers, 3), Block(waves, 5), Block(waves, 5)])

    def forward(self, x):
        ahead = 0
        for block in self.blocks:
            past, future = block(x)
            x = x - past
            ahead = ahead + future
        return ahead


torch.set_num_threads(1)
torch.manual_seed(59)
model = NBeats()
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=12)
generator = torch.Generator().manual_seed(1080)
called = model
for step in range(4):
    series = 5 + torch.randn(12, BACK + AHEAD, generator=generator).cumsum(1)
    x, wanted = series[:, :BACK], series[:, BACK:]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        ahead = called(x).float()
        size = (ahead.abs() + wanted.abs()).detach()
        loss = 2 * ((ahead - wanted).abs() / (size + 1e-3)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
