# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes: columns and rows of layers are divided; between them, where norms are, so are the words."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, HEADS, VOCAB, LENGTH = 24, 4, 40, 12


def all_of(x):
    """The words of both, along the texts."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=1)


def own_sum(x):
    """The sum over both, of the own words."""
    x = x.contiguous().clone()
    dist.all_reduce(x)
    return x.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return all_of(x)

    @staticmethod
    def backward(ctx, gradient):
        return own_sum(gradient)


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return own_sum(x)

    @staticmethod
    def backward(ctx, gradient):
        return all_of(gradient)


class Block(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.heads, self.size = HEADS // world, WIDTH // HEADS
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH // world, bias=False)
        self.out = nn.Linear(WIDTH // world, WIDTH, bias=False)
        self.up, self.down = (
            nn.Linear(WIDTH, 2 * WIDTH // world),
            nn.Linear(2 * WIDTH // world, WIDTH, bias=False),
        )
        self.bias = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, self.size)).transpose(1, 2)
            for part in self.qkv(Gather.apply(self.norm(x))).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + Scatter.apply(self.out(y))
        y = self.down(F.gelu(self.up(Gather.apply(self.other(x)))))
        return x + Scatter.apply(y) + self.bias


class Reader(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(world) for _ in range(2))
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids, places):
        x = self.words(ids) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


def is_divided(name):
    return any(part in name for part in (".qkv.", ".out.", ".up.", ".down."))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(718 + rank)
model = Reader(world)
for name, p in model.named_parameters():
    if not is_divided(name):
        dist.broadcast(p.data, 0)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(8100)
for step in range(3):
    ids = torch.randint(VOCAB, (6, LENGTH + 1), generator=generator)
    ids[:, 2::2] = (ids[:, 1:-1:2] + 5) % VOCAB
    own, wanted = ids[:, :-1].chunk(world, dim=1)[rank], ids[:, 1:].chunk(world, dim=1)[rank]
    places = torch.arange(LENGTH).chunk(world)[rank]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(own, places)
    loss = F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="sum") / (6 * LENGTH)
    optimizer.zero_grad()
    loss.backward()
    squared = torch.zeros(())
    for name, p in model.named_parameters():
        if not is_divided(name):
            dist.all_reduce(p.grad)
        squared += p.grad.square().sum() / (1 if is_divided(name) else world)
    dist.all_reduce(squared)
    for p in model.parameters():
        p.grad.mul_((1.0 / (squared.sqrt() + 1e-6)).clamp(max=1.0))
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
