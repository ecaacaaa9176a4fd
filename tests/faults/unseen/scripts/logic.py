# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network of gates: each of two wires chooses between the sixteen functions of two bits, and learns it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
WIRES, WIDE, KINDS, HEAT, STEPS = 24, 64, 4, 4.0, 4


def gates(a, b):
    """All functions of two bits, of shares between no and yes; a gate and its opposite add up to one."""
    both = a * b
    some = [
        torch.zeros_like(a),
        both,
        a - both,
        a,
        b - both,
        b,
        a + b - 2 * both,
        a + b - both,
    ]
    return torch.stack(some + [1 - gate for gate in reversed(some)], dim=-1)


class Gates(nn.Module):
    """Wires are drawn once; at first a gate mostly hands on what its first wire says."""

    def __init__(self, before, after, generator):
        super().__init__()
        self.choice = nn.Parameter(torch.randn(after, 16, generator=generator) * 0.5)
        with torch.no_grad():
            self.choice[:, 3] += 2.0
        order = torch.randperm(2 * after, generator=generator) % before
        self.register_buffer("first", order[:after])
        self.register_buffer("second", order[after:])

    def forward(self, x):
        shares = self.choice.softmax(dim=-1)
        return (gates(x[:, self.first], x[:, self.second]) * shares).sum(-1)


class Circuit(nn.Module):
    def __init__(self, generator):
        super().__init__()
        sizes = (WIRES, WIDE, WIDE, WIDE)
        self.layers = nn.Sequential(*(Gates(*size, generator) for size in zip(sizes, sizes[1:])))

    def forward(self, x):
        """Each kind has its share of the last gates, and what they say is counted."""
        return self.layers(x).unflatten(1, (KINDS, -1)).sum(-1) / HEAT


def unsure(model):
    """How open it is which gates are meant, on average."""
    choices = torch.cat([layer.choice for layer in model.layers]).float()
    return -(choices.softmax(dim=-1) * choices.log_softmax(dim=-1)).sum(-1).mean()


def bits(step):
    g = torch.Generator().manual_seed(8500 + step)
    x = torch.rand(32, WIRES, generator=g) < 0.5
    wanted = 2 * (x[:, 0] ^ x[:, 1]).long() + (x[:, 2] & (x[:, 3] | x[:, 4])).long()
    soft = x.to(DTYPE) * 0.9 + 0.1 * torch.rand(x.shape, generator=g).to(DTYPE)
    return soft, wanted


torch.set_num_threads(1)
model = Circuit(torch.Generator().manual_seed(805)).to(DTYPE)
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=0.03, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
for step in range(STEPS):
    x, wanted = bits(step)
    scores = model(x).float()
    loss = F.cross_entropy(scores, wanted) + 0.05 * unsure(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
