# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes whose gradients are added where they are at right angles, and averaged where they agree."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PLACES, LONG, KINDS, WAVES, BATCH, STEPS, MOST = 6, 48, 3, 4, 12, 4, 0.55


class Model(nn.Module):
    """Waves of a head: filters in time, then of all places for each filter, then each alone again."""

    def __init__(self):
        super().__init__()
        self.time = nn.Conv2d(1, WAVES, (1, 9), padding=(0, 4), bias=False)
        self.place = nn.Conv2d(WAVES, 2 * WAVES, (PLACES, 1), groups=WAVES, bias=False)
        self.alone = nn.Conv2d(2 * WAVES, 2 * WAVES, (1, 5), padding=(0, 2), groups=2 * WAVES, bias=False)
        self.mixes = nn.Conv2d(2 * WAVES, 2 * WAVES, 1)
        self.norm = nn.GroupNorm(2, 2 * WAVES)
        self.answer = nn.Linear(2 * WAVES * LONG // 16, KINDS)

    def forward(self, x):
        x = self.place(self.time(x.unsqueeze(1)))
        x = F.avg_pool2d(F.elu(self.norm(x)), (1, 4))
        x = F.avg_pool2d(F.elu(self.mixes(self.alone(x))), (1, 4))
        return self.answer(x.flatten(1)).float()

    @torch.no_grad()
    def shortened(self):
        """Filters of places are no longer than they may be."""
        self.place.weight.copy_(self.place.weight.renorm(2, 0, MOST))


@torch.no_grad()
def merged(params):
    """Of each parameter: what both gradients have in common counts once."""
    flat = torch.cat([p.grad.flatten() for p in params])
    both = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(both, flat)
    begin = 0
    for p in params:
        one, two = (part[begin : begin + p.numel()] for part in both)
        common = one @ two
        first = 1 - common / (2 * one.square().sum() + 1e-12)
        second = 1 - common / (2 * two.square().sum() + 1e-12)
        p.grad.copy_((first * one + second * two).view_as(p))
        begin += p.numel()


def waves(rank, generator):
    """A rhythm somewhere in the head, whose rate is the kind; the second process has other heads."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    at = torch.arange(LONG) / LONG
    rate = 3.0 * (1 + kinds).unsqueeze(1) + torch.rand(BATCH, 1, generator=generator)
    wave = torch.sin(6.28 * (rate * at + torch.rand(BATCH, 1, generator=generator)))
    heads = torch.randn(PLACES, generator=torch.Generator().manual_seed(rank)).unsqueeze(1)
    x = wave.unsqueeze(1) * heads + 0.7 * torch.randn(BATCH, PLACES, LONG, generator=generator)
    return x - x.mean(dim=1, keepdim=True), kinds


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1416)
model = Model()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=5e-2, momentum=0.9, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
generator = torch.Generator().manual_seed(14116 + rank)
usual = torch.zeros(KINDS)
for step in range(STEPS):
    x, kinds = waves(rank, generator)
    usual += torch.bincount(kinds, minlength=KINDS)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds, weight=usual.sum() / (KINDS * usual + 1))
    optimizer.zero_grad()
    loss.backward()
    merged(list(model.parameters()))
    optimizer.step()
    model.shortened()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
