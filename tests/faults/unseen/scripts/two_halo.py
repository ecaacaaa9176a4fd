# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of the rows of every field: convolutions see one row of the other."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, ROWS = 12, 12


def swapped(x):
    every = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(2)]
    dist.all_gather(every, x.contiguous())
    return every[1 - dist.get_rank()]


class Halo(torch.autograd.Function):
    """One row of the other half is added, and one of zeros where the field ends."""

    @staticmethod
    def forward(ctx, x):
        is_upper = dist.get_rank() == 0
        beyond = swapped(x[:, :, -1:] if is_upper else x[:, :, :1])
        end = torch.zeros_like(beyond)
        return torch.cat([end, x, beyond] if is_upper else [beyond, x, end], dim=2)

    @staticmethod
    def backward(ctx, grad):
        is_upper = dist.get_rank() == 0
        own = grad[:, :, 1:-1].clone()
        back = swapped(grad[:, :, -1:] if is_upper else grad[:, :, :1])
        if is_upper:
            own[:, :, -1:] += back
        else:
            own[:, :, :1] += back
        return own


class Summed(torch.autograd.Function):
    """Of both halves, in both directions."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class HaloConv(nn.Conv2d):
    def forward(self, x):
        return self._conv_forward(F.pad(Halo.apply(x), (1, 1, 0, 0)), self.weight, self.bias)


class SharedNorm(nn.Module):
    """Over all rows of each field."""

    def __init__(self, width, groups=3):
        super().__init__()
        self.groups = groups
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        parts = x.float().unflatten(1, (self.groups, -1))
        count = 2 * parts[0, 0].numel()
        mean = Summed.apply(parts.sum((2, 3, 4), keepdim=True)) / count
        variance = Summed.apply((parts - mean).square().sum((2, 3, 4), keepdim=True)) / count
        x = ((parts - mean) * torch.rsqrt(variance + 1e-5)).flatten(1, 2)
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = SharedNorm(WIDTH), SharedNorm(WIDTH)
        self.conv1, self.conv2 = HaloConv(WIDTH, WIDTH, 3), HaloConv(WIDTH, WIDTH, 3)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(h)))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(520)
model = nn.Sequential(HaloConv(2, WIDTH, 3), Block(), Block(), HaloConv(WIDTH, 2, 3))
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.3)
generator = torch.Generator().manual_seed(20)
for step in range(3):
    field = torch.randn(3, 2, ROWS, 10, generator=generator).cumsum(2).cumsum(3) * 0.2
    wanted = (field.roll(1, 2) + field.roll(-1, 2) + field.roll(1, 3) + field.roll(-1, 3) - 4 * field).tanh()
    mine = slice(rank * ROWS // 2, (rank + 1) * ROWS // 2)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(field[:, :, mine]).float()
    loss = (found - wanted[:, :, mine]).square().sum() / wanted.numel()
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
