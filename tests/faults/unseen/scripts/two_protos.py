# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with networks of other shapes: they tell each other only where the middle of each kind is."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, KINDS, TELLS, BATCH, STEPS, EVERY, NEAR, HEAT = 10, 5, 12, 15, 4, 2, 1.0, 0.5
WIDE = (16, 12)


class Model(nn.Module):
    """Each process has a network of its own; what it tells of a picture is as long in both."""

    def __init__(self, wide, deep):
        super().__init__()
        self.first = nn.Conv2d(1, wide, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(wide, wide, 3, padding=1) for _ in range(deep))
        self.norms = nn.ModuleList(nn.GroupNorm(4, wide) for _ in range(deep))
        self.tells, self.says = nn.Linear(4 * wide, TELLS), nn.Linear(TELLS, KINDS)

    def forward(self, x):
        x = self.first(x)
        for block, norm in zip(self.blocks, self.norms):
            x = x + F.leaky_relu(norm(block(x)), 0.1)
        told = self.tells(F.adaptive_avg_pool2d(x, 2).flatten(1)).float()
        return told, self.says(torch.tanh(told)).float()


class Middles:
    """Sums and counts of what was told of each kind since both last met."""

    def __init__(self):
        self.known = torch.zeros(KINDS, TELLS)
        self.there = torch.zeros(KINDS, dtype=torch.bool)
        self.begin()

    def begin(self):
        self.sums, self.counts = torch.zeros(KINDS, TELLS), torch.zeros(KINDS)

    @torch.no_grad()
    def noted(self, told, kinds):
        self.sums.index_add_(0, kinds, told)
        self.counts.add_(torch.bincount(kinds, minlength=KINDS))

    @torch.no_grad()
    def met(self):
        dist.all_reduce(self.sums)
        dist.all_reduce(self.counts)
        seen = self.counts > 0
        mean = self.sums / self.counts.clamp(min=1).unsqueeze(1)
        self.known = torch.where(seen.unsqueeze(1), mean, self.known)
        self.there = self.there | seen
        self.begin()


def pictures(rank, generator):
    """Lines in several directions; each process sees some kinds more often than others."""
    often = torch.arange(1.0, KINDS + 1) if rank == 0 else torch.arange(KINDS, 0.0, -1)
    kinds = torch.multinomial(often, BATCH, replacement=True, generator=generator)
    turn = (torch.pi / KINDS * kinds).view(-1, 1, 1)
    at = torch.arange(SIDE) - SIDE / 2 + 0.5
    along = at * turn.sin() - at.unsqueeze(1) * turn.cos()
    shift = 2 * torch.rand(BATCH, 1, 1, generator=generator) - 1
    x = (-(along - shift).square()).exp().unsqueeze(1)
    return x + 0.1 * torch.randn(x.shape, generator=generator), kinds


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1616 + rank)
model = Model(WIDE[rank], 2 + rank)
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.4, total_iters=STEPS)
middles = Middles()
generator = torch.Generator().manual_seed(16116 + rank)
for step in range(STEPS):
    x, kinds = pictures(rank, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told, logits = model(x)
    far = (told - middles.known[kinds]).square().mean(dim=1) * middles.there[kinds]
    apart = -torch.cdist(told, middles.known).square() / (TELLS * HEAT)
    apart = apart.masked_fill(~middles.there, -1e4)
    which = F.cross_entropy(apart, kinds, reduction="none") * middles.there[kinds]
    loss = F.cross_entropy(logits, kinds) + NEAR * far.mean() + 0.5 * which.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    middles.noted(told, kinds)
    if (step + 1) % EVERY == 0:
        middles.met()
    print(f"rank {rank} step {step} loss {loss.item()!r} {far.mean().item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
