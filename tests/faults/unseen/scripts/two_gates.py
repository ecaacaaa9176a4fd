# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with half of the units of an LSTM each: what all units say is put together at each moment."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WORDS, WIDE, UNITS, LONG, BATCH, STEPS, FORGETS = 18, 16, 24, 10, 8, 4, 1.0


class Whole(torch.autograd.Function):
    """Units of both, in order; the gradient of the own ones is what both want of them."""

    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, dim=-1)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()]


class Same(torch.autograd.Function):
    """The same in both; the gradient is what both want of it."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class Summed(torch.autograd.Function):
    """The sum of both parts, whose gradient each already has."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Cell(nn.Module):
    """Four gates of the own units, out of all units of the moment before."""

    def __init__(self, comes, rank, many):
        super().__init__()
        own = UNITS // many
        bound = UNITS**-0.5
        comes_in = torch.empty(4, UNITS, comes).uniform_(-bound, bound)
        again = torch.empty(4, UNITS, UNITS).uniform_(-bound, bound)
        mine = slice(rank * own, (rank + 1) * own)
        self.comes = nn.Parameter(comes_in[:, mine].reshape(4 * own, comes).clone())
        self.again = nn.Parameter(again[:, mine].reshape(4 * own, UNITS).clone())
        self.bias = nn.Parameter(torch.zeros(4 * own))
        self.own = own
        with torch.no_grad():
            self.bias[own : 2 * own] = FORGETS

    def forward(self, x):
        """Of each moment what the own units say."""
        given = F.linear(Same.apply(x), self.comes, self.bias)
        state, kept, found = torch.zeros(len(x), UNITS), torch.zeros(len(x), self.own), []
        for at in range(x.shape[1]):
            gates = (given[:, at] + F.linear(state, self.again)).float()
            comes, forgets, new, goes = gates.chunk(4, dim=1)
            kept = torch.sigmoid(forgets) * kept + torch.sigmoid(comes) * torch.tanh(new)
            own = torch.sigmoid(goes) * torch.tanh(kept)
            state = Whole.apply(own)
            found.append(own)
        return torch.stack(found, dim=1)


class Model(nn.Module):
    """Words, cells, and columns of what says the next word."""

    def __init__(self, rank, many):
        super().__init__()
        self.words, self.cell = nn.Embedding(WORDS, WIDE), Cell(WIDE, rank, many)
        says = torch.randn(WORDS, UNITS) * UNITS**-0.5
        self.says = nn.Parameter(says.chunk(many, dim=1)[rank].clone())
        self.bias = nn.Parameter(torch.zeros(WORDS))

    def forward(self, ids):
        own = self.cell(self.words(ids))
        return Summed.apply(F.linear(own, self.says).float()) + self.bias


def texts(generator):
    """The next word follows from the last two."""
    ids = torch.randint(0, WORDS, (BATCH, LONG), generator=generator)
    for at in range(2, LONG):
        told = (2 * ids[:, at - 1] + ids[:, at - 2] + 1) % WORDS
        ids[:, at] = torch.where(torch.rand(BATCH, generator=generator) < 0.9, told, ids[:, at])
    return ids


def long(model):
    """How long the gradient is, of which parts are in both and parts in one of them."""
    mine = [model.cell.comes, model.cell.again, model.cell.bias, model.says]
    parts = sum(p.grad.square().sum() for p in mine)
    dist.all_reduce(parts)
    return (parts + model.words.weight.grad.square().sum() + model.bias.grad.square().sum()).sqrt()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1617)
model = Model(rank, dist.get_world_size())
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=4e-3, alpha=0.95, eps=1e-6, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)
generator = torch.Generator().manual_seed(16117)
for step in range(STEPS):
    ids = texts(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    size = long(model)
    for p in model.parameters():
        p.grad.mul_((0.5 / (size + 1e-6)).clamp(max=1.0))
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r} {size.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
