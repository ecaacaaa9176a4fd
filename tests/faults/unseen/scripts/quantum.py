# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A chain of spins at its lowest energy: a network tells each state's amplitude, walks draw states."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SPINS, WIDE, WALKS, SWEEPS, STEPS, FIELD, CUT = 10, 12, 48, 8, 4, 0.8, 4.0


class Model(nn.Module):
    """The log of an amplitude, the same wherever a state begins on the ring."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv1d(1, WIDE, 3), nn.Conv1d(WIDE, WIDE, 3)

    def forward(self, spins):
        x = F.pad(spins.unsqueeze(-2).flatten(0, -3), (1, 1), mode="circular")
        x = F.pad(F.gelu(self.one(x)), (1, 1), mode="circular")
        return log_cosh(self.two(x).float()).sum(dim=(1, 2)).view(spins.shape[:-1])


def log_cosh(x):
    return x.abs() + F.softplus(-2 * x.abs()) - math.log(2)


@torch.no_grad()
def walked(model, spins, generator):
    """Each walk turns one spin after another, where that is likely."""
    logs = model(spins)
    for _ in range(SWEEPS):
        at = torch.randint(0, SPINS, (WALKS, 1), generator=generator)
        other = spins.scatter(1, at, -spins.gather(1, at))
        new = model(other)
        goes = torch.rand(WALKS, generator=generator) < torch.exp(2 * (new - logs))
        spins = torch.where(goes.unsqueeze(1), other, spins)
        logs = torch.where(goes, new, logs)
    return spins


def energy_of(model, spins, logs):
    """Neighbours want to be alike, the field turns each; for that all states one turn away are seen."""
    alike = (spins * spins.roll(1, dims=1)).sum(dim=1)
    turned = spins.unsqueeze(1) * (1 - 2 * torch.eye(SPINS))
    ratio = torch.exp(model(turned) - logs.unsqueeze(1))
    return -alike - FIELD * ratio.sum(dim=1)


torch.set_num_threads(1)
torch.manual_seed(1606)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.8, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.3 * step))
generator = torch.Generator().manual_seed(16106)
spins = (torch.rand(WALKS, SPINS, generator=generator) < 0.7).float() * 2 - 1
for step in range(STEPS):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        spins = walked(model, spins, generator)
        logs = model(spins)
        with torch.no_grad():
            energy = energy_of(model, spins, logs)
    middle = energy.median()
    spread = (energy - middle).abs().mean()
    cut = energy.clamp(middle - CUT * spread, middle + CUT * spread)
    loss = 2 * ((cut - cut.mean()) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {energy.mean().item() / SPINS!r} {spread.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
