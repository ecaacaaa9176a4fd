# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A ball of triangles is bent to be what a cloud of points shows: by distances, edges and smoothness."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
RINGS, ROUND, POINTS, SEEN, WIDE, BATCH, STEPS = 5, 8, 60, 24, 24, 4, 4
SMOOTH, LONG, STRAIGHT = 0.3, 0.1, 0.05
CORNERS = RINGS * ROUND + 2


def ball():
    """Rings of corners between two poles, and which corners have an edge."""
    down = torch.linspace(0, torch.pi, RINGS + 2)[1:-1].repeat_interleave(ROUND)
    turn = (2 * torch.pi / ROUND * torch.arange(ROUND)).repeat(RINGS)
    rings = torch.stack([down.sin() * turn.cos(), down.sin() * turn.sin(), down.cos()], dim=1)
    corners = torch.cat([torch.tensor([[0.0, 0.0, 1.0]]), rings, torch.tensor([[0.0, 0.0, -1.0]])])
    edges = []
    for ring in range(RINGS):
        for at in range(ROUND):
            here = 1 + ring * ROUND + at
            edges.append((here, 1 + ring * ROUND + (at + 1) % ROUND))
            edges.append((here, here + ROUND if ring < RINGS - 1 else CORNERS - 1))
    edges += [(0, 1 + at) for at in range(ROUND)]
    return corners, torch.tensor(edges).T


class Bends(nn.Module):
    """A corner sees itself and the mean of its neighbours."""

    def __init__(self, comes, goes):
        super().__init__()
        self.own, self.near = nn.Linear(comes, goes), nn.Linear(comes, goes, bias=False)

    def forward(self, x, near):
        return self.own(x) + self.near(near @ x.float())


class Model(nn.Module):
    """What is seen of the cloud goes to all corners; they are moved twice."""

    def __init__(self):
        super().__init__()
        self.sees = nn.Sequential(nn.Linear(3, WIDE), nn.ReLU(), nn.Linear(WIDE, SEEN))
        self.bends = nn.ModuleList(Bends(3 + SEEN + at * WIDE, WIDE) for at in range(2))
        self.moves = nn.ModuleList(Bends(WIDE, 3) for _ in range(2))
        corners, edges = ball()
        near = torch.zeros(CORNERS, CORNERS)
        near[edges[0], edges[1]] = near[edges[1], edges[0]] = 1.0
        self.register_buffer("corners", corners)
        self.register_buffer("edges", edges)
        self.register_buffer("near", near / near.sum(dim=1, keepdim=True))

    def forward(self, cloud):
        seen = self.sees(cloud).amax(dim=1, keepdim=True).expand(-1, CORNERS, -1)
        x, known, found = self.corners.expand(len(cloud), -1, -1), [], []
        for bends, moves in zip(self.bends, self.moves):
            y = F.relu(bends(torch.cat([x, seen, *known], dim=2), self.near))
            x = x + torch.tanh(moves(y, self.near).float())
            known = [y]
            found.append(x)
        return found


def chamfer(one, two):
    """From each to the nearest of the other."""
    far = (one.unsqueeze(2) - two.unsqueeze(1)).square().sum(dim=3)
    return far.amin(dim=2).mean() + far.amin(dim=1).mean()


def shapes(generator):
    """Points on eggs, pressed in somewhere, that are turned anyhow."""
    points = F.normalize(torch.randn(BATCH, POINTS, 3, generator=generator), dim=2)
    size = 0.6 + 0.8 * torch.rand(BATCH, 1, 3, generator=generator)
    side = F.normalize(torch.randn(BATCH, 3, 1, generator=generator), dim=1)
    points = points * (1 - 0.4 * (points @ side).clamp(min=0))
    turned, _ = torch.linalg.qr(torch.randn(BATCH, 3, 3, generator=generator))
    return (points * size) @ turned


def cost(model, found, cloud, before):
    """Distances; how a corner lies to its neighbours shall stay as before, and edges shall be short."""
    bent = (found - model.near @ found) - (before - model.near @ before)
    edges = found[:, model.edges[0]] - found[:, model.edges[1]]
    sizes = edges.square().sum(dim=2)
    return chamfer(found, cloud) + SMOOTH * bent.square().sum(dim=2).mean() + LONG * sizes.mean()


torch.set_num_threads(1)
torch.manual_seed(1609)
model = Model()
# model built
optimizer = torch.optim.Rprop(model.parameters(), lr=2e-3, etas=(0.5, 1.3), foreach=False)
generator = torch.Generator().manual_seed(16109)
cloud = shapes(generator)
for step in range(STEPS):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(cloud)
    before = [model.corners.expand(BATCH, -1, -1), found[0]]
    costs = [cost(model, after, cloud, ahead) for after, ahead in zip(found, before)]
    middle = (found[-1].mean(dim=1) - cloud.mean(dim=1)).square().sum(dim=1).mean()
    loss = 0.5 * costs[0] + costs[1] + STRAIGHT * middle
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r} {costs[1].item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
