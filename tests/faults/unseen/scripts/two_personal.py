# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with sounds of other rooms: what they share is averaged by how much each has, norms stay."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, WIDE, LONG, BATCH, LOCAL, ROUNDS, NEAR = 6, 16, 24, 12, 2, 2, 0.1


class Hears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(1, WIDE, 5, padding=2), nn.Conv1d(WIDE, WIDE, 3, padding=1)
        self.norm_first, self.norm_second = nn.BatchNorm1d(WIDE), nn.BatchNorm1d(WIDE)
        self.out = nn.Linear(2 * WIDE, KINDS)

    def forward(self, x):
        x = F.softsign(self.norm_first(self.first(x)))
        x = x + F.softsign(self.norm_second(self.second(x)))
        return self.out(torch.cat([x.mean(dim=2), x.std(dim=2)], dim=1)).float()


def shared(model):
    return [p for name, p in model.named_parameters() if "norm" not in name]


def far(model, begin):
    """How far the shared weights went since they were averaged."""
    return 0.5 * sum((p - q).square().sum() for p, q in zip(shared(model), begin))


@torch.no_grad()
def average(model, heard):
    """Each counts by the sounds that it has heard."""
    counts = torch.tensor([float(heard)])
    dist.all_reduce(counts)
    share = heard / counts.item()
    for p in shared(model):
        p.mul_(share)
        dist.all_reduce(p)


def sounds(rank, batch, generator):
    """Tones of some height; in the second room they are dull and echo."""
    kinds = torch.randint(0, KINDS, (batch,), generator=generator)
    at = torch.arange(LONG).float()
    x = torch.sin((0.3 + 0.2 * kinds.unsqueeze(1)) * at + torch.rand(batch, 1, generator=generator))
    if rank == 1:
        x = 0.4 * x + 0.3 * x.roll(3, dims=1)
    return (x + 0.2 * torch.randn(x.shape, generator=generator)).unsqueeze(1), kinds


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1117)
model = Hears()
# model built
batch = BATCH if rank == 0 else BATCH // 2
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
generator = torch.Generator().manual_seed(11700 + rank)
step = 0
for _ in range(ROUNDS):
    begin = [p.detach().clone() for p in shared(model)]
    for _ in range(LOCAL):
        x, kinds = sounds(rank, batch, generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            found = model(x)
        loss = F.cross_entropy(found, kinds) + NEAR * far(model, begin)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        schedule.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
        step += 1
    average(model, LOCAL * batch)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
