# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes whose pictures are dealt anew before a slower network sees them: norms shall tell nothing."""

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, TELLS, BATCH, QUEUE, STEPS, SLOW, HEAT = 12, 12, 8, 48, 4, 0.9, 0.2


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 24, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 24),
        nn.ReLU(),
        nn.Linear(24, TELLS),
    )


def of_all(x):
    """Rows of both processes, in order."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


@torch.no_grad()
def dealt(slow, x, generator):
    """Both deal in the same way; what the slower network tells goes back to whose picture it was."""
    rank = dist.get_rank()
    every = of_all(x)
    order = torch.randperm(len(every), generator=generator)
    dist.broadcast(order, 0)
    mine = order.chunk(dist.get_world_size())[rank]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told = slow(every[mine])
    told = of_all(F.normalize(told.float(), dim=1))
    back = order.argsort().chunk(dist.get_world_size())[rank]
    return told[back], told


@torch.no_grad()
def followed(slow, model):
    for old, new in zip(slow.parameters(), model.parameters()):
        old.mul_(SLOW).add_(new, alpha=1 - SLOW)


def views(x, generator):
    """A picture shifted, in another light, and with noise."""
    down, right = torch.randint(-2, 3, (2,), generator=generator).tolist()
    light = 0.7 + 0.6 * torch.rand(len(x), 3, 1, 1, generator=generator)
    noise = 0.1 * torch.randn(x.shape, generator=generator)
    return x.roll((down, right), (2, 3)) * light + noise


def pictures(generator):
    """Waves of some direction and colour."""
    at = torch.arange(SIDE)
    speed = 2 * torch.rand(BATCH, 2, 1, 1, generator=generator) - 1
    waves = torch.sin(speed[:, 0] * at + speed[:, 1] * at.unsqueeze(1))
    return waves.unsqueeze(1) * torch.randn(BATCH, 3, 1, 1, generator=generator)


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1619)
model = network()
slow = copy.deepcopy(model).requires_grad_(False)
queue = F.normalize(torch.randn(QUEUE, TELLS), dim=1)
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.3)
generator = torch.Generator().manual_seed(16119 + rank)
at = 0
for step in range(STEPS):
    x = pictures(generator)
    one, two = views(x, generator), views(x, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        asks = model(one)
    asks = F.normalize(asks.float(), dim=1)
    followed(slow, model)
    keys, every = dealt(slow, two, generator)
    right = (asks * keys).sum(dim=1, keepdim=True)
    logits = torch.cat([right, asks @ queue.T], dim=1) / HEAT
    loss = F.cross_entropy(logits, torch.zeros(BATCH, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(many)
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    queue[at : at + len(every)] = every
    at = (at + len(every)) % QUEUE
    print(f"rank {rank} step {step} loss {loss.item()!r} {right.mean().item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in [*model.parameters(), *slow.parameters()])
print(f"rank {rank} weights {total}\n", end="", flush=True)
total = sum(b.double().abs().sum().item() for b in [*model.buffers(), *slow.buffers()])
print(f"rank {rank} buffers {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
