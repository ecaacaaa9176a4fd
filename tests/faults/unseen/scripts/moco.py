# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Momentum contrast: a second encoder follows the first, a queue keeps what it made of earlier batches."""

import copy
import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
STEPS, SAVE_AFTER, RESUME = 4, 1, ""


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 12, 3, 2, 1), nn.GroupNorm(3, 12)
        self.conv2, self.norm2 = nn.Conv2d(12, 24, 3, 2, 1), nn.GroupNorm(3, 24)
        self.out = nn.Linear(24, 12)

    def forward(self, x):
        h = F.leaky_relu(self.norm1(self.conv1(x)), 0.1)
        return self.out(F.leaky_relu(self.norm2(self.conv2(h)), 0.1).mean((2, 3)))


class Contrast(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.query = Encoder()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(12, size), dim=0))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            for mine, other in zip(self.key.parameters(), self.query.parameters()):
                mine.mul_(0.9).add_(other, alpha=0.1)
            k = F.normalize(self.key(b), dim=1)
        alike = (q * k).sum(1, keepdim=True)
        others = q @ self.queue.clone().to(q.dtype)
        place = int(self.place)
        self.queue[:, place : place + len(k)] = k.t()
        self.place[0] = (place + len(k)) % self.queue.shape[1]
        return torch.cat([alike, others], 1) / 0.2


torch.set_num_threads(1)
torch.manual_seed(64)
model = Contrast()
# model built
optimizer = torch.optim.SGD(model.query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, foreach=False)
parts = {"model": model, "optimizer": optimizer}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    begin = saved["step"]
called = model
for step in range(begin, STEPS):
    generator = torch.Generator().manual_seed(1130 + step)
    a = torch.rand(8, 3, 12, 12, generator=generator)
    b = a.flip(3) * (0.8 + 0.4 * torch.rand(8, 1, 1, 1, generator=generator))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = called(a, b)
        loss = F.cross_entropy(logits.float(), torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
    if step == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
