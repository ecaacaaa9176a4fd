# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A critic of pictures whose weights have a spectral norm of 1, with a margin and a penalty of slopes."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

PENALTY = 0.5


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(2, 12, 3, 2, padding=1))
        self.conv2 = spectral_norm(nn.Conv2d(12, 24, 3, 2, padding=1))
        self.head = spectral_norm(nn.Linear(24, 1))

    def forward(self, x):
        h = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(x), 0.2)), 0.2)
        return self.head(h.sum((2, 3)))


torch.set_num_threads(1)
torch.manual_seed(38)
model = Critic()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.0, 0.9), foreach=False)
generator = torch.Generator().manual_seed(870)
for step in range(3):
    real = torch.randn(6, 2, 12, 12, generator=generator) + 0.5
    fake = torch.randn(6, 2, 12, 12, generator=generator)
    share = torch.rand(6, 1, 1, 1, generator=generator)
    margin = F.relu(1 - model(real)).mean() + F.relu(1 + model(fake)).mean()
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
    penalty = (slope.flatten(1).norm(2, 1) - 1).square().mean()
    loss = margin + PENALTY * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
