# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What causes what: small networks, one of each variable, whose first weights shall make no circle."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, ROWS, STEPS, FEW = 7, 10, 64, 4, 0.01


class Causes(nn.Module):
    """The network of each variable sees all others, but for itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(0.12 * torch.randn(SEEN, WIDE, SEEN))
        self.first_bias = nn.Parameter(torch.zeros(SEEN, WIDE))
        self.second = nn.Parameter(torch.randn(SEEN, WIDE, WIDE) / WIDE**0.5)
        self.last = nn.Parameter(torch.randn(SEEN, WIDE) / WIDE**0.5)
        self.register_buffer("others", 1 - torch.eye(SEEN))

    def weights(self):
        return self.first * self.others.unsqueeze(1)

    def strength(self):
        """Of each variable (rows) on each other (columns)."""
        return self.weights().square().sum(dim=1).T

    def forward(self, x):
        hidden = torch.einsum("ri,dwi->rdw", x, self.weights()) + self.first_bias
        hidden = torch.einsum("rdw,dvw->rdv", torch.sigmoid(hidden), self.second)
        return (torch.sigmoid(hidden) * self.last).sum(dim=2).float()


def circles(strength):
    """Nothing if and only if no variable causes itself, by whatever way."""
    return torch.matrix_exp(strength).diagonal().sum() - SEEN


def rows(generator):
    """Each variable is made of two before it."""
    noise = torch.randn(ROWS, SEEN, generator=generator)
    found = [noise[:, 0], noise[:, 1]]
    for at in range(2, SEEN):
        found.append(torch.sin(found[at - 1]) + 0.5 * found[at - 2] + 0.3 * noise[:, at])
    return torch.stack(found, dim=1)


torch.set_num_threads(1)
torch.manual_seed(1105)
model = Causes()
# model built
optimizer = torch.optim.Rprop(model.parameters(), lr=5e-3, etas=(0.6, 1.3), foreach=False)
generator = torch.Generator().manual_seed(115)
steep, price, before = 1.0, 0.0, float("inf")
for step in range(STEPS):
    x = rows(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    strength = model.strength()
    round_about = circles(strength)
    missing = 0.5 / ROWS * F.mse_loss(found, x, reduction="sum")
    sparse = FEW * (strength + 1e-8).sqrt().sum()
    loss = missing + sparse + price * round_about + 0.5 * steep * round_about.square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    price += steep * round_about.item()
    if round_about.item() > 0.25 * before:
        steep *= 2
    before = round_about.item()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
