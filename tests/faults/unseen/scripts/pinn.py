# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network that solves the equation of Burgers: its loss is made of its own derivatives."""

import math

import torch
from torch import nn

AUTOCAST = False


class Solution(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, width)])
        self.head = nn.Linear(width, 1)

    def forward(self, t, x):
        h = torch.stack([t, x], 1)
        for layer in self.layers:
            h = torch.tanh(layer(h))
        return self.head(h).squeeze(1).float()


def derivative(of, by):
    return torch.autograd.grad(of.sum(), by, create_graph=True)[0]


torch.set_num_threads(1)
torch.manual_seed(62)
model = Solution()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(1110)
called = model
for step in range(3):
    t = torch.rand(40, generator=generator).requires_grad_()
    x = (torch.rand(40, generator=generator) * 2 - 1).requires_grad_()
    begin = torch.rand(16, generator=generator) * 2 - 1
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        u = called(t, x)
        u_x = derivative(u, x)
        left = derivative(u, t) + u * u_x - 0.01 / math.pi * derivative(u_x, x)
        at_begin = called(torch.zeros(16), begin) + torch.sin(math.pi * begin)
        loss = left.square().mean() + 10 * at_begin.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
