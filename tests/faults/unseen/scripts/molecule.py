# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Molecules: continuous filters between atoms give an energy, and its slopes are the forces to learn."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
CUTOFF = 4.0


def shifted_softplus(x):
    return F.softplus(x) - math.log(2.0)


class Smear(nn.Module):
    def __init__(self, n=16):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0, CUTOFF, n))
        self.coeff = -0.5 / (CUTOFF / (n - 1)) ** 2

    def forward(self, d):
        return torch.exp(self.coeff * (d.unsqueeze(-1) - self.centers).pow(2))


class Interaction(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.filter1, self.filter2 = nn.Linear(n, width), nn.Linear(width, width)
        self.before = nn.Linear(width, width, bias=False)
        self.after1, self.after2 = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h, i, j, smeared, fade):
        w = self.filter2(shifted_softplus(self.filter1(smeared))) * fade.unsqueeze(-1)
        message = self.before(h)[j] * w
        gathered = torch.zeros_like(h).index_add(0, i, message.to(h.dtype))
        return h + self.after2(shifted_softplus(self.after1(gathered)))


class SchNet(nn.Module):
    def __init__(self, width=24, n=16):
        super().__init__()
        self.kinds = nn.Embedding(5, width)
        self.smear = Smear(n)
        self.blocks = nn.ModuleList([Interaction(width, n) for _ in range(2)])
        self.out = nn.Sequential(nn.Linear(width, 12), nn.Softplus(), nn.Linear(12, 1))

    def forward(self, kind, pos, i, j, molecule, count):
        d = (pos[i] - pos[j]).norm(dim=-1)
        fade = 0.5 * (torch.cos(d * math.pi / CUTOFF) + 1) * (d < CUTOFF)
        h = self.kinds(kind)
        smeared = self.smear(d)
        for block in self.blocks:
            h = block(h, i, j, smeared, fade)
        atoms = self.out(h).squeeze(-1).float()
        return torch.zeros(count).index_add(0, molecule, atoms)


def molecules(generator, count=5, size=5):
    kind = torch.randint(5, (count * size,), generator=generator)
    grid = torch.tensor([[0.0, 0, 0], [1.1, 0, 0], [0, 1.2, 0], [0, 0, 1.3], [1.0, 1.0, 1.0]])
    pos = grid.repeat(count, 1) + 0.15 * torch.randn(count * size, 3, generator=generator)
    molecule = torch.arange(count).repeat_interleave(size)
    together = molecule[:, None] == molecule[None, :]
    together.fill_diagonal_(False)
    i, j = together.nonzero(as_tuple=True)
    return kind, pos, i, j, molecule


torch.set_num_threads(1)
torch.manual_seed(407)
model = SchNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True, foreach=False)
generator = torch.Generator().manual_seed(4070)
for step in range(3):
    kind, pos, i, j, molecule = molecules(generator)
    d = (pos[i] - pos[j]).norm(dim=-1)
    spring = 0.5 * (d - 1.5).square()
    true_energy = torch.zeros(5).index_add(0, molecule[i], 0.5 * spring)
    pull = (d - 1.5).unsqueeze(-1) * (pos[i] - pos[j]) / d.unsqueeze(-1)
    true_forces = torch.zeros_like(pos).index_add(0, i, -pull)
    pos.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        energy = model(kind, pos, i, j, molecule, 5)
    (slope,) = torch.autograd.grad(energy.sum(), pos, create_graph=True)
    forces = -slope
    loss = 0.05 * F.mse_loss(energy, true_energy) + 0.95 * F.mse_loss(forces, true_forces)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
