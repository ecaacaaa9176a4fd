# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, a strong and a weak one, who has the first half of all channels, where both meet."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, WIDE, KINDS, BATCH, STEPS, EVERY, NEAR = 12, 16, 6, 12, 4, 2, 0.05
SHARES = (1.0, 0.5)


class Model(nn.Module):
    """Channels by share; what comes out of fewer is made as strong as of all."""

    def __init__(self, share):
        super().__init__()
        wide = int(WIDE * share)
        self.one, self.two = (
            nn.Conv2d(2, wide, 3, padding=1),
            nn.Conv2d(wide, 2 * wide, 3, stride=2, padding=1),
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(n, track_running_stats=False) for n in (wide, 2 * wide))
        self.head, self.share = nn.Linear(2 * wide, KINDS), share

    def scaled(self, x):
        return x / self.share if self.training else x

    def forward(self, x):
        x = F.hardswish(self.norms[0](self.scaled(self.one(x))))
        x = F.hardswish(self.norms[1](self.scaled(self.two(x))))
        return self.head(x.mean(dim=(2, 3))).float()


def first(whole, shape):
    """The corner of a tensor that a narrower one is."""
    return whole[tuple(slice(size) for size in shape)]


@torch.no_grad()
def met(model, whole, present):
    """Of each number the mean of those who have it; a head counts of each only kinds that it saw."""
    for (name, p), common in zip(model.named_parameters(), whole):
        count = torch.zeros_like(common)
        seen = present.float() if name.startswith("head") else torch.ones(len(p))
        first(count, p.shape).copy_(seen.view(-1, *[1] * (p.ndim - 1)).expand_as(p))
        sums = torch.zeros_like(common)
        first(sums, p.shape).copy_(p)
        sums = sums * count
        dist.all_reduce(sums)
        dist.all_reduce(count)
        common.copy_(torch.where(count > 0, sums / count.clamp(min=1), common))
        p.copy_(first(common, p.shape))


def drawings(kinds, generator):
    """Rings of a size for each kind, in one of two colours, anywhere."""
    size = 1.5 + 0.6 * kinds.view(-1, 1, 1)
    place = SIDE / 2 + 2 * torch.rand(2, len(kinds), 1, 1, generator=generator) - 1
    at = torch.arange(SIDE)
    far = ((at - place[0]).square() + (at.unsqueeze(1) - place[1]).square()).sqrt()
    look = torch.exp(-(far - size).square()).unsqueeze(1)
    x = look * torch.rand(len(kinds), 2, 1, 1, generator=generator)
    return x + 0.1 * torch.randn(x.shape, generator=generator)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1518)
whole = [p.detach().clone() for p in Model(1.0).parameters()]
model = Model(SHARES[rank])
with torch.no_grad():
    for p, common in zip(model.parameters(), whole):
        p.copy_(first(common, p.shape))
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=EVERY, eta_min=0.02)
generator = torch.Generator().manual_seed(15118 + rank)
present = torch.arange(KINDS) % 3 != rank
for step in range(STEPS):
    own = present.nonzero().squeeze(1)
    kinds = own[torch.randint(0, len(own), (BATCH,), generator=generator)]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(drawings(kinds, generator))
    loss = F.cross_entropy(logits.masked_fill(~present, 0.0), kinds)
    away = sum((p - first(common, p.shape)).square().sum() for p, common in zip(model.parameters(), whole))
    optimizer.zero_grad()
    (loss + NEAR * away).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    if (step + 1) % EVERY == 0:
        met(model, whole, present)
    print(f"rank {rank} step {step} loss {loss.item()!r} {away.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
