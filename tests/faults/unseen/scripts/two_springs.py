# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that wander on their own, each held by a spring at a middle that both draw along."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDE, LONG, AHEAD, BATCH, STEPS, EVERY, PULL = 14, 32, 4, 12, 5, 2, 0.2


class Forecasts(nn.Module):
    """Dilated convolutions of two gates; what comes next as differences to what is there."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Conv1d(1, WIDE, 1)
        self.both = nn.ModuleList(nn.Conv1d(WIDE, 2 * WIDE, 2, dilation=2**k) for k in range(3))
        self.norm, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, AHEAD)

    def forward(self, x):
        last, x = x[:, :, -1], self.begin(x)
        for layer in self.both:
            told, gate = layer(x).chunk(2, dim=1)
            x = x[:, :, -told.shape[2] :] + F.softsign(told) * gate.sigmoid()
        return last.float() + self.out(self.norm(x[:, :, -1])).float().cumsum(dim=1)


@torch.no_grad()
def spring(model, middle):
    """Each goes to the middle by a share of how far it is, and the middle goes to where both are."""
    for p, m in zip(model.parameters(), middle):
        force = PULL * (p - m)
        p.sub_(force)
        dist.all_reduce(force)
        m.add_(force)


def series(rank, generator):
    """Tides of two waves; each process has its own harbour."""
    at = torch.arange(LONG + AHEAD) + 20 * torch.rand(BATCH, 1, generator=generator)
    high = 1 + torch.rand(BATCH, 1, generator=generator)
    x = high * torch.sin(0.5 * at) + 0.5 * torch.sin((0.9 + 0.2 * rank) * at)
    x = x + 0.1 * torch.randn(x.shape, generator=generator)
    return x[:, None, :LONG], x[:, LONG:]


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1205)
model = Forecasts()
# model built
middle = [p.detach().clone() for p in model.parameters()]
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=8, power=0.5)
generator = torch.Generator().manual_seed(12105 + rank)
for step in range(STEPS):
    x, comes = series(rank, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told = model(x)
    loss = F.smooth_l1_loss(told, comes, beta=0.5)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % EVERY == 0:
        spring(model, middle)
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.double().abs().sum().item() for p in [*model.parameters(), *middle])
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
