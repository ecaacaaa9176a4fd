# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Clouds of points: they are turned by a learned matrix, and the largest of each feature is kept."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class Turn(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.point = nn.Sequential(
            nn.Conv1d(size, 24, 1), nn.BatchNorm1d(24), nn.ReLU(), nn.Conv1d(24, 48, 1)
        )
        self.out = nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, size * size))

    def forward(self, x):
        found = self.out(self.point(x).amax(-1)).unflatten(1, (self.size, self.size))
        return found + torch.eye(self.size)


class Cloud(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn1, self.conv1, self.norm1 = Turn(3), nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16)
        self.turn2, self.conv2, self.norm2 = Turn(16), nn.Conv1d(16, 64, 1), nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        x = (x.transpose(1, 2) @ self.turn1(x)).transpose(1, 2)
        h = F.relu(self.norm1(self.conv1(x)))
        turned = self.turn2(h)
        h = (h.transpose(1, 2) @ turned).transpose(1, 2)
        return self.head(self.norm2(self.conv2(h)).amax(-1)), turned


torch.set_num_threads(1)
torch.manual_seed(55)
model = Cloud()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, foreach=False)
generator = torch.Generator().manual_seed(1040)
called = model
for step in range(3):
    x = torch.randn(8, 3, 40, generator=generator)
    wanted = torch.randint(5, (8,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, turned = called(x)
        apart = turned @ turned.transpose(1, 2) - torch.eye(16)
        loss = F.cross_entropy(logits.float(), wanted) + 0.01 * apart.float().square().sum((1, 2)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
