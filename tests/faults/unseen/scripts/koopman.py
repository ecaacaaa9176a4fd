# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What moves by a curved law moves straight elsewhere: an encoder, turns and shrinking, and back."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PAIRS, WIDE, LONG, DT = 3, 32, 6, 0.1


class Koopman(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, WIDE), nn.SiLU(), nn.Linear(WIDE, 2 * PAIRS))
        self.decode = nn.Sequential(nn.Linear(2 * PAIRS, WIDE), nn.SiLU(), nn.Linear(WIDE, 2))
        self.values = nn.Sequential(nn.Linear(PAIRS, 16), nn.SiLU(), nn.Linear(16, 2 * PAIRS))

    def ahead(self, z):
        """One step: each pair of numbers turns and shrinks, by how far it is from the middle."""
        x, y = z.chunk(2, dim=-1)
        shrink, turn = self.values(x.square() + y.square()).chunk(2, dim=-1)
        size, angle = torch.exp(-F.softplus(shrink) * DT), turn * DT
        c, s = torch.cos(angle), torch.sin(angle)
        return torch.cat([size * (c * x - s * y), size * (s * x + c * y)], dim=-1)

    def forward(self, seen):
        """What is written again, where the steps lead, and where the encoder has what came after."""
        z = self.encode(seen)
        at, path = z[:, 0], []
        for _ in range(seen.shape[1] - 1):
            at = self.ahead(at)
            path.append(at)
        path = torch.stack(path, dim=1)
        return self.decode(z), self.decode(path), path, z[:, 1:]


def loss_of(model, seen):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        same, later, path, wanted = model(seen)
    again = (same.float() - seen).square().mean()
    told = (later.float() - seen[:, 1:]).square().mean()
    straight = (path.float() - wanted.float()).square().mean()
    worst = (later.float() - seen[:, 1:]).abs().amax((1, 2)).mean()
    return again + told + 0.5 * straight + 0.01 * worst


def pendulums(generator):
    """Angles and speeds, by small steps; a little friction."""
    angle, speed = 2 * torch.rand(2, 16, generator=generator) - 1
    seen = []
    for _ in range(LONG):
        seen.append(torch.stack([angle, speed], dim=-1))
        for _ in range(10):
            speed = speed - DT / 10 * (torch.sin(angle) + 0.1 * speed)
            angle = angle + DT / 10 * speed
    return torch.stack(seen, dim=1)


torch.set_num_threads(1)
torch.manual_seed(809)
model = Koopman()
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3, weight_decay=1e-4, foreach=False)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=2)
later = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, later], milestones=[2])
generator = torch.Generator().manual_seed(89)
for step in range(5):
    loss = loss_of(model, pendulums(generator))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
