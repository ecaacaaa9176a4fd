# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A Siamese network: two views of each sample are drawn together, all others are pushed away."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TEMPERATURE = 0.2


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU()
        )
        self.project = nn.Sequential(nn.Linear(48, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, x):
        return F.normalize(self.project(self.body(x)), dim=-1)


def contrastive(a, b):
    both = torch.cat([a, b])
    scores = both @ both.t() / TEMPERATURE
    scores = scores.masked_fill(torch.eye(len(both), dtype=torch.bool), -1e4)
    wanted = torch.arange(len(both)).roll(len(a))
    return F.cross_entropy(scores.float(), wanted)


torch.set_num_threads(1)
torch.manual_seed(28)
model = Siamese()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
generator = torch.Generator().manual_seed(770)
called = model
for step in range(4):
    samples = torch.randn(16, 20, generator=generator)
    first = samples + 0.1 * torch.randn(16, 20, generator=generator)
    second = samples * (torch.rand(16, 20, generator=generator) > 0.1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = contrastive(called(first), called(second))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
