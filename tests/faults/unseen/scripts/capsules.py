# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Capsules: parts of pictures vote for wholes, and votes are routed by their agreement."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


def squashed(s):
    square = s.square().sum(-1, keepdim=True)
    return square / (1 + square) * s / torch.sqrt(square + 1e-7)


class Routed(nn.Module):
    def __init__(self, parts, wholes, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(parts, wholes, outer, inner) * 0.3)

    def forward(self, u):
        votes = torch.einsum("pwoi,bpi->bpwo", self.weight, u)
        logits = torch.zeros(votes.shape[:3])
        for turn in range(3):
            shares = F.softmax(logits, dim=2)
            v = squashed((shares[..., None] * votes).sum(1))
            if turn < 2:
                logits = logits + (votes.detach() * v.detach()[:, None]).sum(-1)
        return v


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 5, padding=2)
        self.primary = nn.Conv2d(16, 24, 5, stride=3, padding=1)
        self.routed = Routed(6 * 16, 4, 4, 8)

    def forward(self, x):
        h = self.primary(F.relu(self.conv(x)))
        u = squashed(h.unflatten(1, (6, 4)).permute(0, 1, 3, 4, 2).reshape(len(x), -1, 4))
        return self.routed(u).norm(dim=-1)


torch.set_num_threads(1)
torch.manual_seed(53)
model = Net()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(1020)
called = model
for step in range(3):
    x = torch.rand(8, 1, 12, 12, generator=generator)
    wanted = F.one_hot(torch.randint(4, (8,), generator=generator), 4)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        lengths = called(x)
        there = wanted * F.relu(0.9 - lengths).square()
        absent = (1 - wanted) * F.relu(lengths - 0.1).square()
        loss = (there + 0.5 * absent).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
