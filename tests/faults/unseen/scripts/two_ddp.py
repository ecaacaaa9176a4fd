# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel: convolutions, each rank with its own data."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(18)
inner = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1),
    nn.GroupNorm(3, 12),
    nn.SiLU(),
    nn.Conv2d(12, 16, 3, 2, padding=1),
    nn.GELU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 5),
)
model = nn.parallel.DistributedDataParallel(inner, bucket_cap_mb=25)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(400 + rank)
for step in range(3):
    pictures = torch.randn(4, 3, 12, 12, generator=generator)
    wanted = torch.randint(5, (4,), generator=generator)
    synchronised = contextlib.nullcontext()
    with synchronised:
        loss = F.cross_entropy(model(pictures), wanted)
        optimizer.zero_grad()
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
