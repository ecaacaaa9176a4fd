# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with the optimizer states of a half of the parameters; gradients reduced by hand."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(22)
model = nn.Sequential(
    nn.Embedding(40, 16), nn.Flatten(), nn.Linear(96, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 6)
)
parameters = list(model.parameters())
owner = [index % size for index in range(len(parameters))]
mine = [p for p, who in zip(parameters, owner) if who == rank]
optimizer = torch.optim.AdamW(mine, lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(700 + rank)
for step in range(3):
    ids = torch.randint(40, (8, 6), generator=generator)
    wanted = torch.randint(6, (8,), generator=generator)
    loss = F.cross_entropy(model(ids), wanted)
    model.zero_grad()
    loss.backward()
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
    optimizer.step()
    for parameter, who in zip(parameters, owner):
        dist.broadcast(parameter.data, who)
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in parameters)
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
