# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt: depthwise convolutions, norms over the last dimension, scaled branches, averaged weights."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.along = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.3))

    def forward(self, x):
        h = self.norm(self.along(x).permute(0, 2, 3, 1))
        h = self.gamma * self.down(F.gelu(self.up(h)))
        return x + h.permute(0, 3, 1, 2)


class NormOfChannels(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.first = nn.Conv2d(3, 16, 2, 2), NormOfChannels(16)
        self.stage1 = nn.Sequential(Block(16), Block(16))
        self.norm, self.down = NormOfChannels(16), nn.Conv2d(16, 32, 2, 2)
        self.stage2 = nn.Sequential(Block(32), Block(32))
        self.last, self.head = nn.LayerNorm(32), nn.Linear(32, 6)

    def forward(self, x):
        x = self.stage1(self.first(self.stem(x)))
        x = self.stage2(self.down(self.norm(x)))
        return self.head(self.last(x.mean((2, 3))))


torch.set_num_threads(1)
torch.manual_seed(26)
model = ConvNext().to(DTYPE)
# model built
average = copy.deepcopy(model)
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3, foreach=False)
generator = torch.Generator().manual_seed(750)
called = model
for step in range(3):
    pictures = torch.randn(6, 3, 24, 24, generator=generator).to(DTYPE)
    wanted = torch.randint(6, (6,), generator=generator)
    loss = F.cross_entropy(called(pictures).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, theirs in zip(average.parameters(), model.parameters()):
            mine.mul_(0.9).add_(theirs, alpha=0.1)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
