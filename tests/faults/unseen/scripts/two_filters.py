# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of the filters of every convolution: what both found is put together."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, WIDE, SIDE, BATCH, STEPS = 5, 16, 12, 10, 4


class Both(torch.autograd.Function):
    """Channels of both; each gives back what the other needs of its gradient."""

    @staticmethod
    def forward(ctx, own):
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size(), dim=1)[dist.get_rank()]


class Divided(nn.Module):
    """A convolution of all channels to half of them, with groups of its own to norm."""

    def __init__(self, given, made, stride):
        super().__init__()
        self.filters = nn.Conv2d(given, made // 2, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, made // 2)

    def forward(self, x):
        return Both.apply(F.silu(self.norm(self.filters(x))).float())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            Divided(3, WIDE, 1), Divided(WIDE, 2 * WIDE, 2), Divided(2 * WIDE, 2 * WIDE, 1)
        )
        self.out = nn.Linear(2 * WIDE, KINDS)

    def forward(self, x):
        x = self.layers(x)
        return self.out(x.flatten(2).logsumexp(dim=2) - x[0, 0].numel() ** 0.5 / 4).float()


def clip(model, most):
    """The length of the whole gradient: that of both halves, and once of what both have."""
    own = sum(p.grad.square().sum() for p in model.layers.parameters())
    dist.all_reduce(own)
    length = (own + sum(p.grad.square().sum() for p in model.out.parameters())).sqrt()
    for p in model.parameters():
        p.grad.mul_((most / (length + 1e-6)).clamp(max=1.0))


def pictures(generator):
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    at = torch.arange(SIDE)
    waves = torch.cos(0.5 * (1 + kinds.view(-1, 1, 1)) * (at + at.unsqueeze(1) * (kinds % 2).view(-1, 1, 1)))
    return waves.unsqueeze(1) + 0.4 * torch.randn(BATCH, 3, SIDE, SIDE, generator=generator), kinds


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1118)
model = Model()
# model built
for p in model.layers.parameters():
    if p.ndim > 1:
        nn.init.kaiming_normal_(p, generator=torch.Generator().manual_seed(1800 + 7 * rank + p.shape[1]))
optimizer = torch.optim.Adadelta(model.parameters(), lr=0.6, rho=0.9, eps=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.7)
generator = torch.Generator().manual_seed(1218)
for step in range(STEPS):
    x, kinds = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds)
    optimizer.zero_grad()
    (loss / dist.get_world_size()).backward()
    for p in model.out.parameters():
        dist.all_reduce(p.grad)
    clip(model, 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
