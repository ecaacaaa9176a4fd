# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two kinds by a Gaussian process of few points that stand for all: where, and what is known there."""

import math

import torch
from torch import nn

AUTOCAST = False
SEEN, WIDE, INNER, POINTS, BATCH, STEPS, ALL, JITTER = 4, 20, 3, 10, 32, 4, 256, 1e-3
ROOTS = [0.3811869902, 1.1571937124, 1.9816567567, 2.9306374203]
SHARES = [0.6611470126, 0.2078023258, 0.0170779830, 0.0001996041]


class Model(nn.Module):
    """A network bends what is seen, a kernel has a width of each number; a normal of values at the points."""

    def __init__(self):
        super().__init__()
        self.bends = nn.Sequential(nn.Linear(SEEN, WIDE), nn.SiLU(), nn.Linear(WIDE, INNER))
        self.points = nn.Parameter(torch.randn(POINTS, INNER) * 0.6)
        self.widths, self.size = nn.Parameter(torch.zeros(INNER)), nn.Parameter(torch.tensor(0.5))
        self.level = nn.Parameter(torch.zeros(()))
        self.mean, self.root = nn.Parameter(torch.zeros(POINTS)), nn.Parameter(torch.eye(POINTS) * 0.8)

    def kernel(self, one, two):
        one, two = one / self.widths.exp(), two / self.widths.exp()
        far = (one.unsqueeze(1) - two).square().sum(dim=2)
        return self.size.exp() * (-0.5 * far).exp()

    def spread(self):
        """The root of the covariance: a triangle whose diagonal is above none."""
        return self.root.tril(-1) + torch.diag(self.root.diagonal().abs() + 1e-4)

    def forward(self, x):
        """Mean and variance at each row that was bent."""
        inner = self.kernel(self.points, self.points) + JITTER * torch.eye(POINTS)
        lower = torch.linalg.cholesky(inner)
        reach = torch.linalg.solve_triangular(lower, self.kernel(self.points, x), upper=False)
        mean = self.level + reach.T @ self.mean
        known = (self.spread().T @ reach).square().sum(dim=0)
        return mean, (self.size.exp() - reach.square().sum(dim=0) + known).clamp(min=1e-5)

    def divergence(self):
        """From a normal of ones."""
        spread = self.spread()
        log = spread.diagonal().log().sum()
        return 0.5 * (spread.square().sum() + self.mean.square().sum() - POINTS) - log


def expected(mean, variance, sign):
    """The mean log of how likely each label is, by sums at roots of Hermite polynomials."""
    roots = torch.tensor(ROOTS + [-root for root in ROOTS])
    shares = torch.tensor(SHARES * 2) / math.sqrt(math.pi)
    values = mean.unsqueeze(1) + (2 * variance).sqrt().unsqueeze(1) * roots
    return (torch.special.log_ndtr(sign.unsqueeze(1) * values) * shares).sum(dim=1)


def rows(generator):
    """Two spirals, seen with other numbers, all rows of which there are."""
    kind = (torch.rand(ALL, generator=generator) < 0.5).float()
    long = 0.3 + 2.5 * torch.rand(ALL, generator=generator)
    turn = 2 * long + math.pi * kind
    x = torch.stack([long * turn.cos(), long * turn.sin(), 0.2 * long, 0.3 * turn.cos()], dim=1)
    return x + 0.1 * torch.randn(x.shape, generator=generator), 2 * kind - 1


torch.set_num_threads(1)
torch.manual_seed(1510)
model = Model()
# model built
groups = [
    {"params": [model.mean, model.root], "lr": 3e-2, "betas": (0.7, 0.9)},
    {"params": [*model.bends.parameters(), model.points, model.widths, model.size, model.level]},
]
optimizer = torch.optim.Adam(groups, lr=8e-3, foreach=False)
generator = torch.Generator().manual_seed(15110)
x, sign = rows(generator)
order = torch.randperm(ALL, generator=generator)
for step in range(STEPS):
    batch = order[step * BATCH : (step + 1) * BATCH]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        bent = model.bends(x[batch])
    mean, variance = model(torch.tanh(bent.float()))
    likely = expected(mean, variance, sign[batch]).sum() * (ALL / BATCH)
    divergence = model.divergence()
    loss = (divergence - likely) / ALL
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r} {divergence.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
