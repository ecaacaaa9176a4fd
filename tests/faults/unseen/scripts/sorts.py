# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which of some pictures shows more: neighbours change places softly, round by round, until all is sorted."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
MANY, SIDE, BATCH, STEPS, STEEP, PARTS = 5, 12, 6, 4, 6.0, 2


class Counts(nn.Module):
    """One number of a picture."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 5, stride=2)
        self.second = nn.Conv2d(6, 12, 3)
        self.norm = nn.LocalResponseNorm(3)
        self.hidden, self.out = nn.Linear(12, 16), nn.Linear(16, 1)

    def forward(self, x):
        x = F.selu(self.norm(self.first(x)))
        x = F.selu(self.second(x)).mean((2, 3))
        return self.out(F.selu(self.hidden(x))).float().squeeze(1)


def sorted_softly(numbers):
    """In how far each number came to each place; the steps are odd and even pairs by turns."""
    way = torch.eye(MANY).expand(len(numbers), -1, -1)
    for turn in range(MANY):
        one = torch.arange(turn % 2, MANY - 1, 2)
        two = one + 1
        apart = STEEP * (numbers[:, two] - numbers[:, one])
        stays = torch.atan(apart) / math.pi + 0.5
        swap = torch.eye(MANY).repeat(len(numbers), 1, 1)
        swap[:, one, one], swap[:, two, two] = stays, stays
        swap[:, one, two], swap[:, two, one] = 1 - stays, 1 - stays
        numbers = (swap @ numbers.unsqueeze(2)).squeeze(2)
        way = swap @ way
    return way


def wrong(way, amounts):
    """The true order tells which picture belongs at which place."""
    order = amounts.argsort(dim=1)
    true = F.one_hot(order, MANY).float()
    return F.binary_cross_entropy(way.clamp(1e-6, 1 - 1e-6), true)


def pictures(generator):
    """Each has some bright spots; their number is never told, only who has more."""
    amounts = torch.stack([torch.randperm(12, generator=generator)[:MANY] for _ in range(BATCH)])
    places = torch.rand(BATCH, MANY, SIDE * SIDE, generator=generator).argsort(dim=2)
    x = (places < 3 * amounts.unsqueeze(2)).float().view(BATCH, MANY, SIDE, SIDE)
    return x + 0.1 * torch.randn(x.shape, generator=generator), amounts


torch.set_num_threads(1)
torch.manual_seed(1310)
model = Counts()
# model built
optimizer = torch.optim.ASGD(
    model.parameters(), lr=0.1, lambd=1e-2, alpha=0.6, t0=1, weight_decay=1e-3, foreach=False
)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.4, total_iters=5)
generator = torch.Generator().manual_seed(13110)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        x, amounts = pictures(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            numbers = model(x.flatten(0, 1).unsqueeze(1)).view(BATCH, MANY)
        loss = wrong(sorted_softly(numbers), amounts) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
means = sum(optimizer.state[p]["ax"].double().abs().sum().item() for p in model.parameters())
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()), means)
