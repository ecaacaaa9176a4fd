# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that each look for weights of their own, and pay for how far these are from common ones."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PLACES, TIMES, WIDE, KINDS, BATCH, STEPS, LOCAL, PRICE, SPARSE, OVER = 8, 10, 4, 4, 24, 4, 2, 0.5, 0.02, 1.5


class Model(nn.Module):
    """Tables of places and times are seen by few pairs of a filter of places and one of times each."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.randn(KINDS, WIDE, PLACES) / PLACES**0.5)
        self.time = nn.Parameter(torch.randn(KINDS, WIDE, TIMES) / TIMES**0.5)
        self.bias = nn.Parameter(torch.zeros(KINDS))

    def forward(self, x):
        seen = torch.einsum("kwp,bpt->bkwt", self.place, x)
        both = torch.einsum("bkwt,kwt->bkw", seen, self.time)
        return (both.float().sum(dim=2) + self.bias).float()


class Agreement:
    """What both agree on, and what it costs each to be elsewhere, so far."""

    def __init__(self, params):
        self.params = list(params)
        self.common = [p.detach().clone() for p in self.params]
        self.owed = [torch.zeros_like(p) for p in self.params]

    def costs(self):
        """How far each weight is from where it should be."""
        far = [
            (p - common + owed).square().sum() for p, common, owed in zip(self.params, self.common, self.owed)
        ]
        return 0.5 * PRICE * torch.stack(far).sum()

    @torch.no_grad()
    def meet(self):
        """The mean of both, small parts of which are none; who is still elsewhere owes that."""
        many = dist.get_world_size()
        for p, common, owed in zip(self.params, self.common, self.owed):
            relaxed = OVER * p + (1 - OVER) * common
            mean = relaxed + owed
            dist.all_reduce(mean)
            mean /= many
            common.copy_(F.softshrink(mean, SPARSE / (many * PRICE)))
            owed.add_(relaxed - common)


def tables(rank, looks, generator):
    """A kind is where and when something happens; one process has more of the first kinds."""
    chance = torch.ones(KINDS)
    chance[: KINDS // 2] += 2.0 * (1 - rank)
    kinds = torch.multinomial(chance, BATCH, replacement=True, generator=generator)
    place, time = looks
    x = place[kinds].unsqueeze(2) * time[kinds].unsqueeze(1)
    return x + 0.5 * torch.randn(BATCH, PLACES, TIMES, generator=generator), kinds


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1419)
model = Model()
# model built
agreement = Agreement(model.parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, foreach=False)
shared = torch.Generator().manual_seed(19)
looks = torch.randn(KINDS, PLACES, generator=shared), torch.randn(KINDS, TIMES, generator=shared)
generator = torch.Generator().manual_seed(14119 + rank)
for step in range(STEPS):
    x, kinds = tables(rank, looks, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds)
    far = agreement.costs()
    optimizer.zero_grad()
    (loss + far).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    if (step + 1) % LOCAL == 0:
        agreement.meet()
    print(f"rank {rank} step {step} loss {loss.item()!r} {far.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
common = sum(p.double().abs().sum().item() for p in agreement.common)
print(f"rank {rank} weights {total} {common}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
