# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, two students: each has its own weights, and learns from what the other says, too."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, LONG, KINDS, HEAT, WARM = 3, 16, 24, 5, 2.0, 2


class Causal(nn.Module):
    """What comes later is not seen; how far it looks back grows with each block."""

    def __init__(self, dilation):
        super().__init__()
        self.before = 2 * dilation
        self.first = nn.Conv1d(WIDE, WIDE, 3, dilation=dilation)
        self.second = nn.Conv1d(WIDE, WIDE, 3, dilation=dilation)
        self.norm = nn.LayerNorm(WIDE)

    def forward(self, x):
        h = F.gelu(self.first(F.pad(x, (self.before, 0))))
        h = self.second(F.pad(h, (self.before, 0)))
        return self.norm((x + h).mT).mT


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Conv1d(SEEN, WIDE, 1)
        self.blocks = nn.Sequential(*(Causal(2**n) for n in range(3)))
        self.out = nn.Linear(WIDE, KINDS)

    def forward(self, x):
        return self.out(self.blocks(self.lift(x))[..., -1])


def of_other(logits):
    """What the other student says of the same; it is not moved by it."""
    every = [torch.empty_like(logits) for _ in range(dist.get_world_size())]
    dist.all_gather(every, logits.detach().contiguous())
    return every[1 - dist.get_rank()]


def batch_of(generator):
    """The first draws the waves, and both see the same."""
    x, wanted = torch.empty(20, SEEN, LONG), torch.empty(20, dtype=torch.long)
    if generator is not None:
        wanted = torch.randint(KINDS, (20,), generator=generator)
        pitch = 0.2 + 0.15 * wanted.view(-1, 1, 1) + 0.05 * torch.rand(20, SEEN, 1, generator=generator)
        x = torch.sin(pitch * torch.arange(LONG)) + 0.3 * torch.randn(20, SEEN, LONG, generator=generator)
    dist.broadcast(x, 0)
    dist.broadcast(wanted, 0)
    return x, wanted


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(819 + rank)
model = Student()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM))
generator = torch.Generator().manual_seed(9100) if rank == 0 else None
for step in range(4):
    x, wanted = batch_of(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x).float()
    soft = (of_other(logits) / HEAT).softmax(dim=-1)
    alike = F.kl_div((logits / HEAT).log_softmax(dim=-1), soft, reduction="batchmean") * HEAT**2
    loss = F.cross_entropy(logits, wanted) + alike
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
