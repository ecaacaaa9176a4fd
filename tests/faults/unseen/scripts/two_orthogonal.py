# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with half of a cloud each: near points stay near, what is told is at right angles in all."""

import torch
import torch.distributed as dist
from torch import nn

AUTOCAST = False
SEEN, WIDE, TOLD, BATCH, STEPS, NEAREST, SMALL = 3, 24, 4, 24, 4, 3, 1e-4


class Both(torch.autograd.Function):
    """The sum of both; the gradient is that of both sums."""

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


class Gathered(torch.autograd.Function):
    """Rows of both in order; each gets the gradients of its own rows from both."""

    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]


class Model(nn.Module):
    """A few numbers of each point, which are made orthogonal over the points of both."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE)
        self.three = nn.Linear(WIDE, TOLD)

    def forward(self, x):
        y = torch.tanh(self.one(x))
        y = y + torch.tanh(self.two(y))
        return orthogonal(torch.tanh(self.three(y)).float())


@torch.autocast("cpu", enabled=False)
def orthogonal(y):
    """By the root of the matrix of all products, which is a triangle."""
    count = len(y) * dist.get_world_size()
    products = Both.apply(y.T @ y) / count
    root = torch.linalg.cholesky(products + SMALL * torch.eye(TOLD))
    return torch.linalg.solve_triangular(root, y.T, upper=False).T


@torch.no_grad()
def near(x):
    """How near own points are to all; each is judged by how far its nearest ones are."""
    whole = Gathered.apply(x)
    far = torch.cdist(x, whole)
    width = far.topk(NEAREST + 1, dim=1, largest=False).values[:, -1:]
    return (-(far / width).square()).exp()


def cloud(generator):
    """Rings in each other, seen from the side."""
    ring = torch.randint(1, 4, (BATCH, 1), generator=generator)
    turn = 6.28 * torch.rand(BATCH, 1, generator=generator)
    x = torch.cat([ring * turn.cos(), ring * turn.sin(), 0.3 * ring], dim=1)
    return x / 2 + 0.05 * torch.randn(BATCH, SEEN, generator=generator)


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1420)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=STEPS + 2, power=1.5)
generator = torch.Generator().manual_seed(14120 + rank)
for step in range(STEPS):
    x = cloud(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told = model(x)
    whole = Gathered.apply(told)
    apart = (told.unsqueeze(1) - whole).square().sum(dim=2)
    loss = (near(x) * apart).sum() / (len(told) * NEAREST)
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= many
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
