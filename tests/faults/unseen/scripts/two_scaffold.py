# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with data of different kinds: each trains alone, and is told how it drifts from all."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDE, KINDS, ROUNDS, ALONE, RATE, GOES = 12, 4, 3, 2, 0.08, 1.0


class Separable(nn.Module):
    """Each channel by itself, then channels with each other."""

    def __init__(self, stride):
        super().__init__()
        self.deep = nn.Conv2d(WIDE, WIDE, 3, stride, padding=1, groups=WIDE, bias=False)
        self.point, self.norm = nn.Conv2d(WIDE, WIDE, 1, bias=False), nn.GroupNorm(3, WIDE)

    def forward(self, x):
        return F.hardswish(self.norm(self.point(self.deep(x))))


def network():
    return nn.Sequential(
        nn.Conv2d(2, WIDE, 3, padding=1),
        Separable(1),
        Separable(2),
        Separable(1),
        nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * WIDE, KINDS)),
    )


def pictures(generator, rank):
    """Blobs in one of four corners; each process sees two corners more often."""
    often = torch.tensor([4.0, 4.0, 1.0, 1.0] if rank == 0 else [1.0, 1.0, 4.0, 4.0])
    kinds = torch.multinomial(often, 16, replacement=True, generator=generator)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 10), torch.linspace(-1, 1, 10), indexing="ij")
    up, left = (kinds // 2 * 2.0 - 1).view(-1, 1, 1), (kinds % 2 * 2.0 - 1).view(-1, 1, 1)
    blob = torch.exp(-3 * ((y - 0.5 * up).square() + (x - 0.5 * left).square()))
    noise = torch.randn(16, 2, 10, 10, generator=generator)
    return blob.unsqueeze(1) + 0.5 * noise, kinds


def averaged(tensors):
    found = []
    for tensor in tensors:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        found.append(tensor / dist.get_world_size())
    return found


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(920)
model = network()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=RATE, foreach=False)
params = list(model.parameters())
own, common = ([torch.zeros_like(p) for p in params] for _ in range(2))
generator = torch.Generator().manual_seed(9600 + rank)
for turn in range(ROUNDS):
    begin = [p.detach().clone() for p in params]
    for alone in range(ALONE):
        x, kinds = pictures(generator, rank)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), kinds)
        optimizer.zero_grad()
        loss.backward()
        for p, mine, ours in zip(params, own, common):
            p.grad += ours - mine
        nn.utils.clip_grad_norm_(params, 2.0)
        optimizer.step()
        print(f"rank {rank} step {turn * ALONE + alone} loss {loss.item()!r}\n", end="", flush=True)
    with torch.no_grad():
        drift = [(was - p) / (ALONE * RATE) for was, p in zip(begin, params)]
        own = [mine - ours + steep for mine, ours, steep in zip(own, common, drift)]
        common = averaged(own)
        for p, was, mean in zip(params, begin, averaged(params)):
            p.copy_(was + GOES * (mean - was))
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
