# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far it is to a shape: tables of several grids, found by a hash of the corner; slopes shall be one."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LEVELS, SIZE, FEATURES, COARSE, GROWTH, WIDE = 4, 128, 2, 4, 1.7, 24
POINTS, STEEP, STEPS = 96, 0.1, 4


class HashGrid(nn.Module):
    """What each level knows of a point: a mean of the four corners round it."""

    def __init__(self):
        super().__init__()
        self.tables = nn.Parameter(torch.empty(LEVELS, SIZE, FEATURES).uniform_(-0.1, 0.1))
        self.register_buffer("primes", torch.tensor([1, 2654435761]))
        self.register_buffer("corners", torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))

    def forward(self, x):
        found = []
        for level, table in enumerate(self.tables):
            scaled = x * int(COARSE * GROWTH**level)
            low = scaled.detach().floor()
            part = (scaled - low).unsqueeze(1)
            places = (low.long().unsqueeze(1) + self.corners) * self.primes
            rows = (places[..., 0] ^ places[..., 1]) % SIZE
            weights = torch.where(self.corners == 1, part, 1 - part).prod(dim=-1, keepdim=True)
            found.append((table[rows] * weights).sum(1))
        return torch.cat(found, dim=-1)


class Shape(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = HashGrid()
        self.first = nn.Linear(2 + LEVELS * FEATURES, WIDE)
        self.second, self.out = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 1)

    def forward(self, x):
        h = torch.cat([2 * x - 1, self.grid(x)], dim=-1)
        h = F.softplus(self.first(h), beta=10)
        return self.out(F.softplus(self.second(h), beta=10)).float().squeeze(-1)


def distance(x):
    """To a circle and a box, whichever is nearer; negative within."""
    circle = (x - torch.tensor([0.35, 0.4])).norm(dim=-1) - 0.2
    apart = (x - torch.tensor([0.7, 0.65])).abs() - 0.15
    box = apart.clamp(min=0).norm(dim=-1) + apart.amax(dim=-1).clamp(max=0)
    return torch.minimum(circle, box)


torch.set_num_threads(1)
torch.manual_seed(905)
model = Shape()
# model built
network = [p for name, p in model.named_parameters() if not name.startswith("grid.")]
groups = [
    {"params": model.grid.parameters(), "lr": 1e-2},
    {"params": network, "lr": 3e-3, "weight_decay": 1e-4},
]
optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99), eps=1e-10, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.33)
generator = torch.Generator().manual_seed(95)
for step in range(STEPS):
    x = torch.rand(POINTS, 2, generator=generator).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    slopes = torch.autograd.grad(found.sum(), x, create_graph=True)[0]
    with torch.no_grad():
        wanted = distance(x)
    near = (found - wanted).abs() / (wanted.abs() + 0.01)
    steep = (slopes.norm(dim=-1) - 1).square()
    loss = near.mean() + STEEP * steep.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
