# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cells grow a picture: each sees its neighbours and changes a little; a pool keeps what has grown so far."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
SIDE, STATE, WIDE, GROWS, POOL, BATCH, LIVES = 12, 8, 32, 6, 12, 4, 0.1


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        itself = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
        self.register_buffer("kernels", torch.stack([itself, across, across.T]).unsqueeze(1))
        self.first, self.second = nn.Conv2d(3 * STATE, WIDE, 1), nn.Conv2d(WIDE, STATE, 1)
        nn.init.normal_(self.second.weight, std=0.1)

    def seen(self, x):
        """Of each channel: itself, and how it changes along both directions."""
        return F.conv2d(x, self.kernels.repeat(STATE, 1, 1, 1), padding=1, groups=STATE)

    @staticmethod
    def alive(x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > LIVES

    def forward(self, x, wakes):
        before = self.alive(x)
        change = self.second(F.relu(self.first(self.seen(x)))).float()
        x = x + change * wakes
        return x * (before & self.alive(x))


def picture():
    """A ring in two colours; the fourth channel says where it is."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    there = ((x.square() + y.square()).sqrt() - 0.5).abs() < 0.25
    return torch.stack([(x + 1) / 2, (y + 1) / 2, 0.5 * torch.ones_like(x), torch.ones_like(x)]) * there


def seed():
    x = torch.zeros(STATE, SIDE, SIDE)
    x[3:, SIDE // 2 - 2 : SIDE // 2 + 2, SIDE // 2 - 2 : SIDE // 2 + 2] = 1.0
    return x


torch.set_num_threads(1)
torch.manual_seed(908)
model = Cells()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.5)
wanted, pool, first = picture(), seed().repeat(POOL, 1, 1, 1), 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first, pool = saved["step"], saved["pool"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    generator = torch.Generator().manual_seed(9800 + step)
    rows = torch.randperm(POOL, generator=generator)[:BATCH]
    x = pool[rows]
    worst = (x[:, :4] - wanted).square().mean((1, 2, 3)).argmax()
    x[worst] = seed()
    for _ in range(GROWS):
        wakes = torch.rand(BATCH, 1, SIDE, SIDE, generator=generator) < 0.5
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            x = model(x, wakes)
    loss = (x[:, :4] - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.grad /= p.grad.norm() + 1e-8
    optimizer.step()
    schedule.step()
    pool[rows] = x.detach()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, "pool": pool, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
