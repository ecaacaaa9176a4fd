# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes without a common gradient: each trains on its own data, tells the other where it is, and both
track how steep it is for all.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

AUTOCAST = False
KEPT, LR, KINDS = 0.6, 0.1, 5


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.first = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.second, self.norm = nn.Conv1d(width, width, 1), nn.GroupNorm(4, width)

    def forward(self, x):
        return x + self.second(F.mish(self.norm(self.first(x))))


def network():
    return nn.Sequential(
        nn.Conv1d(2, 16, 5, padding=2),
        Residual(16, 1),
        Residual(16, 2),
        Residual(16, 4),
        nn.Sequential(nn.AdaptiveMaxPool1d(2), nn.Flatten(), nn.Linear(32, KINDS)),
    )


def mixed(vector):
    """Of the own and what the other has, where neither waits for a third."""
    other = torch.empty_like(vector)
    peer = 1 - dist.get_rank()
    todo = [dist.isend(vector, peer), dist.irecv(other, peer)]
    for work in todo:
        work.wait()
    return KEPT * vector + (1 - KEPT) * other


def series(generator, rank):
    """Each process sees some kinds more often than the other does."""
    often = torch.arange(KINDS) if rank == 0 else torch.arange(KINDS).flip(0)
    wanted = torch.multinomial(often + 0.5, 12, replacement=True, generator=generator)
    times = torch.arange(32) / 32
    waves = torch.sin(6.28 * (wanted[:, None] + 1) * times + torch.rand(12, 1, generator=generator))
    x = torch.stack([waves, times.expand(12, -1)], dim=1)
    return x + 0.3 * torch.randn(x.shape, generator=generator), wanted


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(719)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=LR, weight_decay=1e-4, foreach=False)
tracked = before = None
generator = torch.Generator().manual_seed(8200 + rank)
for step in range(5):
    x, wanted = series(generator, rank)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    now = parameters_to_vector([p.grad for p in model.parameters()])
    tracked = now.clone() if tracked is None else mixed(tracked) + now - before
    before = now
    with torch.no_grad():
        vector_to_parameters(mixed(parameters_to_vector(model.parameters())), model.parameters())
    for p, part in zip(model.parameters(), tracked.split([p.numel() for p in model.parameters()])):
        p.grad = part.view_as(p).clone()
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
