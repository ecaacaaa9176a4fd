# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, tensor parallel as DTensors: the up and gate columns, and the rows of down, are divided."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.up, self.gate, self.down = nn.Linear(24, 48), nn.Linear(24, 48), nn.Linear(48, 24)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(10, 24)
        self.layers = nn.ModuleList(Mlp() for _ in range(2))
        self.head = nn.Linear(24, 6)

    def forward(self, x):
        x = self.start(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(20)
mesh = init_device_mesh("cpu", (2,))
model = Net()
plan = {"up": ColwiseParallel(), "gate": ColwiseParallel(), "down": RowwiseParallel()}
for layer in model.layers:
    parallelize_module(layer, mesh, plan)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(600)
for step in range(3):
    features = torch.randn(12, 10, generator=generator)
    wanted = torch.randint(6, (12,), generator=generator)
    loss = F.cross_entropy(model(features), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = 0.0
for p in model.parameters():
    local = p.to_local() if hasattr(p, "to_local") else p
    total += local.detach().double().abs().sum().item()
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
