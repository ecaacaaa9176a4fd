# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Larger pictures: residual blocks without norms, channels shuffled to pixels, gradients of two parts."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
PARTS = 2


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + 0.2 * self.conv2(F.relu(self.conv1(x)))


class Larger(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.register_buffer("middle", torch.tensor([0.45, 0.44, 0.40]).view(3, 1, 1))
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(3)))
        self.up, self.tail = nn.Conv2d(width, 4 * width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        h = self.head(x - self.middle)
        h = h + self.blocks(h)
        return self.tail(F.pixel_shuffle(self.up(h), 2)) + self.middle


torch.set_num_threads(1)
torch.manual_seed(68)
model = Larger().to(DTYPE)
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-8, foreach=False)
generator = torch.Generator().manual_seed(1170)
called = model
for step in range(3):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        large = torch.rand(4, 3, 16, 16, generator=generator)
        small = F.avg_pool2d(large, 2).to(DTYPE)
        loss = F.l1_loss(called(small).float(), large) / PARTS
        loss.backward()
        total += loss.item()
    optimizer.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
