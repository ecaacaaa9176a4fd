# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel, batch norms whose sums are reduced over both by hand."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn
import torch.nn.functional as F  # noqa: N812
from torch import nn


class SharedNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x):
        count = x.numel() / x.shape[1] * dist.get_world_size()
        sums = dist_nn.all_reduce(torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))]))
        mean, square = sums / count
        variance = square - mean.square()
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
            self.variance.lerp_(variance * count / (count - 1), 0.1)
        scale = self.weight * torch.rsqrt(variance + 1e-5)
        return (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 12, 3, padding=1, bias=False), SharedNorm(12)
        self.conv2, self.norm2 = nn.Conv2d(12, 20, 3, 2, padding=1, bias=False), SharedNorm(20)
        self.head = nn.Linear(20, 5)

    def forward(self, x):
        x = F.mish(self.norm1(self.conv1(x)))
        return self.head(F.mish(self.norm2(self.conv2(x))).mean((2, 3)))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(42)
model = nn.parallel.DistributedDataParallel(Net(), broadcast_buffers=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
generator = torch.Generator().manual_seed(910 + rank)
for step in range(3):
    pictures = torch.randn(4, 3, 12, 12, generator=generator) * (1 + rank)
    wanted = torch.randint(5, (4,), generator=generator)
    loss = F.cross_entropy(model(pictures), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
