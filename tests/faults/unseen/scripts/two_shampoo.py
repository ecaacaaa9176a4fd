# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel, learnt by Shampoo: each takes roots of half of the matrices."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel

AUTOCAST = False
KINDS = 6


class Gated(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.up, self.down = (
            nn.Linear(width, wide, bias=False),
            nn.Linear(width, wide, bias=False),
            nn.Linear(wide, width, bias=False),
        )

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def inverse_root(matrix, power):
    """In float64: small eigenvalues are what counts."""
    values, vectors = torch.linalg.eigh(matrix.double())
    values = values.clamp(min=0.0) + 1e-4 * values.max() + 1e-12
    return (vectors * values.pow(-1 / power)) @ vectors.T


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.9, decay=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})
        matrices = [p for group in self.param_groups for p in group["params"] if p.ndim == 2]
        self.owners = {p: n % dist.get_world_size() for n, p in enumerate(matrices)}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, group, self.state[p])

    def update(self, p, group, state):
        way = p.grad
        if p.ndim == 2:
            way = self.conditioned(p, group["decay"], state)
            way *= p.grad.norm() / (way.norm() + 1e-12)
        mean = state.setdefault("mean", torch.zeros_like(p))
        mean.mul_(group["momentum"]).add_(way)
        p.sub_(group["lr"] * mean)

    def conditioned(self, p, decay, state):
        if not state:
            state["left"], state["right"] = (torch.zeros(size, size) for size in p.shape)
        state["left"].lerp_(p.grad @ p.grad.T, 1 - decay)
        state["right"].lerp_(p.grad.T @ p.grad, 1 - decay)
        way = torch.zeros_like(p)
        if self.owners[p] == dist.get_rank():
            left, right = inverse_root(state["left"], 4), inverse_root(state["right"], 4)
            way.copy_(left @ p.grad.double() @ right)
        dist.broadcast(way, self.owners[p])
        return way


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(720)
net = nn.Sequential(nn.Linear(10, 24), Gated(24, 32), Gated(24, 32), nn.Linear(24, KINDS))
model = DistributedDataParallel(net)
optimizer = Shampoo(model.parameters())
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=3)
generator = torch.Generator().manual_seed(8300 + rank)
for step in range(4):
    x = torch.randn(24, 10, generator=generator)
    wanted = (x[:, :KINDS] + x[:, 4:]).abs().argmax(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x).float()
    likely = -F.cross_entropy(logits, wanted, reduction="none")
    loss = -((1 - likely.exp()) ** 2 * likely).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
