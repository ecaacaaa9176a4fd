# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A consistency model: what it makes of a noisy point is what its average makes of a less noisy one."""

import copy

import torch
from torch import nn

AUTOCAST = False
LEAST, MOST, DATA, RHO, LEVELS, KEPT = 0.05, 20.0, 0.5, 7.0, 10, 0.9


class Body(nn.Module):
    """Residual layers that are told how noisy it is."""

    def __init__(self, width=48):
        super().__init__()
        self.register_buffer("waves", torch.linspace(0.5, 6, 8))
        self.told = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, 2 * 3 * width))
        self.lift, self.out = nn.Linear(2, width), nn.Linear(width, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x, noise):
        angles = noise * self.waves
        told = self.told(torch.cat([angles.sin(), angles.cos()], dim=-1)).chunk(6, dim=-1)
        h = self.lift(x)
        for n, (norm, layer) in enumerate(zip(self.norms, self.layers)):
            h = h + layer(nn.functional.silu(norm(h) * (1 + told[2 * n]) + told[2 * n + 1]))
        return self.out(h)


class Consistency(nn.Module):
    """At the least noise it is the point itself, whatever the body says."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, x, t):
        t = t.unsqueeze(-1)
        kept = DATA**2 / ((t - LEAST) ** 2 + DATA**2)
        made = DATA * (t - LEAST) / (DATA**2 + t**2).sqrt()
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            said = self.body(x / (DATA**2 + t**2).sqrt(), 0.25 * t.log())
        return kept * x + made * said.float()


def noise_levels(count):
    """Many low ones, few high ones."""
    steps = torch.arange(count) / (count - 1)
    return (LEAST ** (1 / RHO) + steps * (MOST ** (1 / RHO) - LEAST ** (1 / RHO))) ** RHO


def pseudo_huber(gap, c=0.03):
    return (gap.square().sum(-1) + c**2).sqrt() - c


def objective(model, average, points, noise, level):
    levels = noise_levels(LEVELS)
    near, far = levels[level], levels[level + 1]
    said = model(points + far[:, None] * noise, far)
    with torch.no_grad():
        wanted = average(points + near[:, None] * noise, near)
    return (1 / (far - near) * pseudo_huber(said - wanted)).mean()


torch.set_num_threads(1)
torch.manual_seed(611)
model = Consistency()
average = copy.deepcopy(model).requires_grad_(False)
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3, weight_decay=1e-4, foreach=False)
generator = torch.Generator().manual_seed(71)
for step in range(3):
    angles = 7 * torch.rand(64, generator=generator)
    points = angles[:, None] / 7 * torch.stack([angles.cos(), angles.sin()], dim=-1)
    noise = torch.randn(64, 2, generator=generator)
    level = torch.randint(LEVELS - 1, (64,), generator=generator)
    loss = objective(model, average, points, noise, level)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    with torch.no_grad():
        for kept, p in zip(average.parameters(), model.parameters()):
            kept.mul_(KEPT).add_(p, alpha=1 - KEPT)
    print(f"step {step} loss {loss.item()!r}")
print(
    "weights",
    *(sum(p.detach().double().abs().sum().item() for p in m.parameters()) for m in (model, average)),
)
