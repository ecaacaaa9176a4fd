# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel: each climbs alone to where it is worse, both learn from there."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel

AUTOCAST = False


class Dense(nn.Module):
    """Each layer sees what all before it made."""

    def __init__(self, before, grown=6, layers=3):
        super().__init__()
        sizes = [before + n * grown for n in range(layers)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(size) for size in sizes)
        self.convs = nn.ModuleList(nn.Conv2d(size, grown, 3, padding=1, bias=False) for size in sizes)

    def forward(self, x):
        for norm, conv in zip(self.norms, self.convs):
            x = torch.cat([x, conv(F.relu(norm(x)))], dim=1)
        return x


def densenet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        Dense(8),
        nn.Sequential(nn.BatchNorm2d(26), nn.ReLU(), nn.Conv2d(26, 13, 1, bias=False), nn.AvgPool2d(2)),
        Dense(13),
        nn.Sequential(nn.BatchNorm2d(31), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(31, 6)),
    )


@contextlib.contextmanager
def resting_norms(model):
    """Running means and variances stay as they are."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.usual, norm.momentum = norm.momentum, 0.0
    yield
    for norm in norms:
        norm.momentum = norm.usual


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05):
        super().__init__(params, {"rho": rho})
        self.base = base(self.param_groups)

    @torch.no_grad()
    def climb(self):
        params = [p for group in self.param_groups for p in group["params"]]
        size = torch.stack([p.grad.norm() for p in params]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["before"] = p.clone()
                p.add_(p.grad, alpha=group["rho"] / (size.item() + 1e-12))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p].pop("before"))
        self.base.step()


def loss_of(model, x, wanted):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    return F.cross_entropy(logits.float(), wanted, label_smoothing=0.1)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(620)
net = densenet()
model = DistributedDataParallel(net)
optimizer = SAM(
    model.parameters(),
    lambda groups: torch.optim.SGD(
        groups, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True, foreach=False
    ),
)
generator = torch.Generator().manual_seed(8000 + rank)
for step in range(3):
    x = F.avg_pool2d(torch.randn(8, 3, 10, 10, generator=generator), 3, 1) * 2
    wanted = (x.mean((2, 3)) * 9).long().sum(1) % 6
    with model.no_sync():
        here = loss_of(model, x, wanted)
        here.backward()
    optimizer.climb()
    optimizer.zero_grad()
    with resting_norms(net):
        there = loss_of(model, x, wanted)
        there.backward()
    optimizer.step()
    print(f"rank {rank} step {step} loss {here.item()!r} {there.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
print(
    f"rank {rank} buffers {sum(b.double().abs().sum().item() for b in net.buffers())}\n", end="", flush=True
)
dist.barrier()
dist.destroy_process_group()
