# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Charged bodies move: a graph network that turns with what it sees says where they will be."""

import os

import torch
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
BODIES, WIDTH = 5, 24


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge = nn.Linear(2 * WIDTH + 2, WIDTH)
        self.message = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU())
        self.attend = nn.Linear(WIDTH, 1)
        self.push = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))
        self.speed = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 1))
        self.node = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, h, at, speeds, charges):
        apart = at[:, :, None] - at[:, None]
        squared = apart.square().sum(-1, keepdim=True)
        products = charges[:, :, None] * charges[:, None]
        ours = h[:, :, None].expand(-1, -1, BODIES, -1)
        theirs = h[:, None].expand(-1, BODIES, -1, -1)
        m = self.message(self.edge(torch.cat([ours, theirs, squared, products], dim=-1)))
        m = m * torch.sigmoid(self.attend(m)) * (1 - torch.eye(BODIES))[:, :, None]
        pushed = (apart / ((squared + 1e-8).sqrt() + 1) * self.push(m)).sum(2) / (BODIES - 1)
        at = at + pushed + self.speed(h) * speeds
        return h + self.node(torch.cat([h, m.sum(2)], dim=-1)), at


class EGNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(2, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.push[-1].weight, gain=0.1)

    def forward(self, at, speeds, charges):
        h = self.lift(torch.cat([charges, speeds.norm(dim=-1, keepdim=True)], dim=-1))
        for layer in self.layers:
            h, at = layer(h, at, speeds, charges)
        return at


def batch_of(step):
    """Bodies, and where they are some small steps of Euler later."""
    g = torch.Generator().manual_seed(6800 + step)
    at, speeds = torch.randn(16, BODIES, 3, generator=g), 0.5 * torch.randn(16, BODIES, 3, generator=g)
    charges = torch.randint(2, (16, BODIES, 1), generator=g) * 2.0 - 1
    now, v = at, speeds
    for _ in range(20):
        apart = now[:, :, None] - now[:, None]
        pull = (
            charges[:, :, None]
            * charges[:, None]
            * apart
            / (apart.square().sum(-1, keepdim=True) + 0.3) ** 1.5
        )
        v = v + 0.05 * pull.sum(2)
        now = now + 0.05 * v
    return at, speeds, charges, now


torch.set_num_threads(1)
torch.manual_seed(608)
model = EGNN()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-8, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    at, speeds, charges, later = batch_of(step)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(at, speeds, charges)
    loss = (found.float() - later).square().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
