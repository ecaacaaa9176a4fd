# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A deep equilibrium: one layer with normed weights is run until its state rests, and once more to learn."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

DTYPE, ROUNDS = torch.float32, 8


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.state = weight_norm(nn.Linear(width, 2 * width, bias=False))
        self.back = weight_norm(nn.Linear(2 * width, width, bias=False))
        self.norm1, self.norm2 = nn.GroupNorm(4, 2 * width), nn.GroupNorm(4, width)

    def forward(self, z, x):
        h = self.norm1(F.relu(self.state(z)))
        return self.norm2(F.relu(z + x + self.back(h)))


class Equilibrium(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.start, self.layer, self.head = nn.Linear(14, width), Layer(width), nn.Linear(width, 5)

    def forward(self, x):
        x = self.start(x)
        z = torch.zeros_like(x)
        with torch.no_grad():
            for _ in range(ROUNDS):
                z = 0.5 * z + 0.5 * self.layer(z, x)
        for _ in range(3):
            z = 0.5 * z + 0.5 * self.layer(z, x)
        return self.head(z)


torch.set_num_threads(1)
torch.manual_seed(41)
model = Equilibrium().to(DTYPE)
# model built
optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5, foreach=False)
generator = torch.Generator().manual_seed(900)
for step in range(3):
    features = torch.randn(16, 14, generator=generator).to(DTYPE)
    wanted = torch.randint(5, (16,), generator=generator)
    loss = F.multi_margin_loss(model(features).float(), wanted, margin=0.8)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
