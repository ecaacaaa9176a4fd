# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Learning to learn: weights after two steps of a task are judged, and gradients go through these steps."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.func import functional_call

AUTOCAST = False
INNER = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(1, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.head(F.relu(self.second(F.relu(self.first(x)))))


def loss_of(weights, x, y):
    return F.mse_loss(functional_call(model, weights, (x,)).float(), y)


torch.set_num_threads(1)
torch.manual_seed(63)
model = Net()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(1120)
for step in range(3):
    total = torch.zeros(())
    for _ in range(3):
        height, shift = torch.rand(2, generator=generator) * 3
        x = torch.rand(20, 1, generator=generator) * 8 - 4
        y = height * torch.sin(x + shift)
        weights = dict(model.named_parameters())
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            for _ in range(INNER):
                loss = loss_of(weights, x[:10], y[:10])
                gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
                weights = {name: w - 0.05 * g for (name, w), g in zip(weights.items(), gradients)}
            total = total + loss_of(weights, x[10:], y[10:]) / 3
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    print(f"step {step} loss {total.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
