# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Counts of genes in cells: few numbers behind them, laboratories that differ, zeros that mean nothing."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
GENES, LABS, WIDE, FEW, BATCH, WARM = 30, 3, 24, 5, 24, 4


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.reads = nn.Sequential(nn.Linear(GENES + LABS, WIDE), nn.LayerNorm(WIDE), nn.ReLU())
        self.middle, self.spread = nn.Linear(WIDE, FEW), nn.Linear(WIDE, FEW)
        self.writes = nn.Sequential(nn.Linear(FEW + LABS, WIDE), nn.LayerNorm(WIDE), nn.ReLU())
        self.share, self.lost = nn.Linear(WIDE, GENES), nn.Linear(WIDE, GENES)
        self.certain = nn.Parameter(torch.zeros(LABS, GENES))

    def forward(self, counts, lab, noise):
        """Mean counts, how certain they are, the logit of a lost count; and how far from the prior."""
        labs = F.one_hot(lab, LABS).float()
        x = self.reads(torch.cat([counts.log1p(), labs], dim=1))
        middle, spread = self.middle(x).float(), F.softplus(self.spread(x).float()) + 1e-3
        x = self.writes(torch.cat([middle + spread * noise, labs], dim=1))
        size = counts.sum(dim=1, keepdim=True)
        means = size * self.share(x).float().softmax(dim=1)
        prior = 0.5 * (middle.square() + spread.square() - 2 * spread.log() - 1).sum(dim=1)
        return means, self.certain[lab].exp(), self.lost(x).float(), prior


def likely(counts, means, certain, lost):
    """The logarithm of how likely counts are: negative binomial, or lost."""
    both = (certain + means).log()
    none = certain * (certain.log() - both)
    some = torch.lgamma(counts + certain) - torch.lgamma(certain) - torch.lgamma(counts + 1)
    some = some + none + counts * ((means + 1e-8).log() - both)
    zero = F.softplus(none - lost) - F.softplus(-lost)
    return torch.where(counts == 0, zero, some - F.softplus(lost))


def cells(genes, generator):
    """Kinds of cells have genes of their own; laboratories see some of them better."""
    kinds, lab = (torch.randint(0, LABS, (BATCH,), generator=generator) for _ in range(2))
    means = torch.exp(genes[0, kinds] + 0.4 * genes[1, lab])
    counts = torch.poisson(4 * means, generator=generator)
    lost = torch.rand(counts.shape, generator=generator) < 0.2
    return counts.masked_fill(lost, 0.0), lab, torch.randn(BATCH, FEW, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1108)
model = Cells()
# model built
genes = torch.randn(2, LABS, GENES, generator=torch.Generator().manual_seed(8))
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, eps=1e-5, amsgrad=True, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    counts, lab, noise = cells(genes, torch.Generator().manual_seed(11800 + step))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        means, certain, lost, prior = model(counts, lab, noise)
    share = min(1.0, (step + 1) / WARM)
    loss = (share * prior - likely(counts, means, certain, lost).sum(dim=1)).mean() / GENES
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
