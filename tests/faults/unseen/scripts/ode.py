# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A neural differential equation: Runge-Kutta of four stages through a field that depends on the time."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TURNS = 4


class Field(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(width + 1, 48), nn.Linear(48, width)
        self.gate = nn.Linear(1, width)

    def forward(self, t, z):
        at = t.expand(len(z), 1)
        h = F.softplus(self.first(torch.cat([z, at], 1)))
        return torch.tanh(self.second(h)) * torch.sigmoid(self.gate(at))


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.field, self.head = nn.Linear(6, 16), Field(), nn.Linear(16, 3)

    def turn(self, t, z, dt):
        k1 = self.field(t, z)
        k2 = self.field(t + dt / 2, z + dt / 2 * k1)
        k3 = self.field(t + dt / 2, z + dt / 2 * k2)
        k4 = self.field(t + dt, z + dt * k3)
        return z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def forward(self, x):
        z = self.start(x)
        for t in torch.linspace(0, 1, TURNS + 1)[:-1]:
            z = self.turn(t, z, 1 / TURNS)
        return self.head(z)


torch.set_num_threads(1)
torch.manual_seed(52)
model = Flow()
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3, foreach=False)
generator = torch.Generator().manual_seed(1010)
called = model
for step in range(3):
    x = torch.randn(24, 6, generator=generator)
    wanted = (x[:, :3].abs().argmax(1) + (x[:, 3] > 0).long()) % 3
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.cross_entropy(called(x).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
