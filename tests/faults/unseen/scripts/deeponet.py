# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""DeepONet: from how a rod is heated to how warm it is at any place and time, by a branch and a trunk."""

import math

import torch
from torch import nn

DTYPE = torch.float32
SENSORS, TERMS, WIDE, WAVES, RODS, ASKED, PARTS, STEPS = 16, 20, 32, 4, 8, 24, 2, 4


class Gated(nn.Module):
    """Two gates of what comes in are mixed in after each layer."""

    def __init__(self, before):
        super().__init__()
        self.one, self.two = nn.Linear(before, WIDE), nn.Linear(before, WIDE)
        self.first = nn.Linear(before, WIDE)
        self.layers = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(2))
        self.out = nn.Linear(WIDE, TERMS)

    def forward(self, x):
        one, two = torch.tanh(self.one(x)), torch.tanh(self.two(x))
        h = torch.tanh(self.first(x))
        for layer in self.layers:
            z = torch.tanh(layer(h))
            h = z * one + (1 - z) * two
        return self.out(h)


class DeepONet(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch, self.trunk = Gated(SENSORS), Gated(2 + 4 * WAVES)
        self.lean = nn.Parameter(torch.zeros(()))

    @staticmethod
    def waves(places):
        """Where and when, and sines of both, twice as fast each time."""
        pitch = math.pi * 2 ** torch.arange(WAVES, dtype=places.dtype)
        turned = (places.unsqueeze(-1) * pitch).flatten(1)
        return torch.cat([places, turned.sin(), turned.cos()], dim=-1)

    def forward(self, heated, places):
        """Of each rod at each place."""
        terms = torch.einsum("rk,pk->rp", self.branch(heated), self.trunk(self.waves(places)))
        return terms / math.sqrt(TERMS) + self.lean


def rods(generator):
    """Sines fall the faster, the shorter they are."""
    pitch = torch.arange(1, 5)
    sizes = torch.randn(RODS, 4, generator=generator) / pitch
    places = torch.rand(ASKED, 2, generator=generator)
    x, t = places.unbind(1)
    heated = sizes @ torch.sin(math.pi * pitch[:, None] * torch.linspace(0, 1, SENSORS))
    falls = torch.exp(-0.1 * (math.pi * pitch[:, None]).square() * t)
    return heated, places, sizes @ (torch.sin(math.pi * pitch[:, None] * x) * falls)


def apart(found, wanted):
    """Each rod beside how warm it is."""
    return ((found - wanted).norm(dim=1) / wanted.norm(dim=1)).mean()


torch.set_num_threads(1)
torch.manual_seed(911)
model = DeepONet().to(DTYPE)
# model built
groups = [{"params": model.branch.parameters()}, {"params": [*model.trunk.parameters(), model.lean]}]
optimizer = torch.optim.Adagrad(groups, lr=5e-3, lr_decay=0.1, initial_accumulator_value=0.01, foreach=False)
generator = torch.Generator().manual_seed(101)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        heated, places, wanted = rods(generator)
        found = model(heated.to(DTYPE), places.to(DTYPE)).float()
        loss = apart(found, wanted) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
