# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with a half of the layers; four parts of a batch go through one after the other."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

PARTS, WIDTH = 4, 20

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(23 + rank)
if rank == 0:
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
else:
    model = nn.Sequential(nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
generator = torch.Generator().manual_seed(800)
for step in range(3):
    features = torch.randn(PARTS, 6, 8, generator=generator)
    wanted = torch.randint(4, (PARTS, 6), generator=generator)
    optimizer.zero_grad()
    total = 0.0
    for part in range(PARTS):
        if rank == 0:
            sent = model(features[part])
            dist.send(sent.detach(), 1)
            back = torch.empty_like(sent)
            dist.recv(back, 1)
            sent.backward(back)
        else:
            came = torch.empty(6, WIDTH)
            dist.recv(came, 0)
            came.requires_grad_()
            loss = F.cross_entropy(model(came), wanted[part]) / PARTS
            loss.backward()
            dist.send(came.grad, 0)
            total += loss.item()
    optimizer.step()
    if rank == 1:
        print(f"rank {rank} step {step} loss {total!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
