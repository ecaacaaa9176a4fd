# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How good a wine is, in an order of grades: one score and thresholds that cannot change places."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
GRADES, SEEN, REGIONS, WIDE, BATCH, STEPS = 6, 9, 5, 24, 40, 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.regions = nn.Embedding(REGIONS, 4)
        self.first, self.second = nn.Linear(SEEN + 4, 2 * WIDE), nn.Linear(WIDE, 2 * WIDE)
        self.score = nn.Linear(WIDE, 1, bias=False)
        self.lowest = nn.Parameter(torch.tensor(2.0))
        self.gaps = nn.Parameter(torch.zeros(GRADES - 2))

    def forward(self, x, region):
        """Of each threshold the logit that a wine is above it."""
        x = F.glu(self.first(torch.cat([x, self.regions(region)], dim=1)))
        x = x + F.glu(self.second(x))
        down = F.softplus(self.gaps).cumsum(dim=0)
        biases = torch.cat([self.lowest.view(1), self.lowest - down])
        return self.score(x).float() + biases


def above(grades):
    """(wines, thresholds)"""
    return (grades.unsqueeze(1) > torch.arange(GRADES - 1)).float()


def judged(logits, grades, counts):
    """Thresholds between grades that are seen often count for more."""
    wanted = above(grades)
    higher = counts.flip(0).cumsum(dim=0).flip(0)[1:]
    weights = torch.maximum(higher, counts.sum() - higher).sqrt()
    weights = weights / weights.max()
    told = F.logsigmoid(logits) * wanted + (F.logsigmoid(logits) - logits) * (1 - wanted)
    return -(weights * told).sum(dim=1).mean()


def wines(generator):
    x = torch.randn(BATCH, SEEN, generator=generator)
    region = torch.randint(0, REGIONS, (BATCH,), generator=generator)
    good = 1.2 * x[:, 0] - x[:, 1] * x[:, 2] + 0.5 * (region - 2)
    good = good + 0.5 * torch.randn(BATCH, generator=generator)
    return x, region, torch.bucketize(good, torch.tensor([-2.5, -1.0, 0.0, 1.0, 2.5]))


torch.set_num_threads(1)
torch.manual_seed(1212)
model = Model()
# model built
slow = [model.lowest, model.gaps]
fast = [p for p in model.parameters() if not any(p is other for other in slow)]
optimizer = torch.optim.ASGD(
    [{"params": fast, "weight_decay": 1e-3}, {"params": slow, "lr": 0.05}],
    lr=0.2, lambd=1e-3, alpha=0.6, t0=2, foreach=False,
)  # fmt: skip
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2)
generator = torch.Generator().manual_seed(12112)
counts = torch.zeros(GRADES)
for step in range(STEPS):
    x, region, grades = wines(generator)
    counts = counts + torch.bincount(grades, minlength=GRADES)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x, region)
    loss = judged(logits, grades, counts)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
