# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of the rows of a table of pairs, then half of the columns: who is near."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, LONG, WIDE, HEADS, NEAR, BATCH, STEPS = 8, 12, 16, 4, 5, 3, 3


class Turn(torch.autograd.Function):
    """(texts, rows, columns, channels): from own rows, all columns to all rows, own columns, or back."""

    @staticmethod
    def forward(ctx, x, split, join):
        ctx.split, ctx.join = split, join
        sent = [part.contiguous() for part in x.chunk(dist.get_world_size(), dim=split)]
        taken = [torch.empty_like(part) for part in sent]
        dist.all_to_all(taken, sent)
        return torch.cat(taken, dim=join)

    @staticmethod
    def backward(ctx, grad):
        return Turn.apply(grad, ctx.join, ctx.split), None, None


class Along(nn.Module):
    """Attention along the last but one dimension, with a gate, each row by itself."""

    def __init__(self):
        super().__init__()
        self.norm, self.all = nn.LayerNorm(WIDE), nn.Linear(WIDE, 3 * WIDE, bias=False)
        self.gate, self.out = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.all(h).unflatten(-1, (3, HEADS, -1)).permute(3, 0, 1, 4, 2, 5)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        read = scores.softmax(dim=-1) @ v
        return x + self.out(torch.sigmoid(self.gate(h)) * read.transpose(2, 3).flatten(3))


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Embedding(KINDS, WIDE), nn.Embedding(KINDS, WIDE)
        self.apart = nn.Embedding(2 * LONG - 1, WIDE)
        self.rows, self.columns = (nn.ModuleList(Along() for _ in range(2)) for _ in range(2))
        self.last = nn.Sequential(
            nn.LayerNorm(WIDE), nn.Linear(WIDE, 2 * WIDE), nn.ReLU6(), nn.Linear(2 * WIDE, NEAR)
        )

    def forward(self, kinds):
        """Of the rows of this process: how far each place of a chain is from each."""
        half, at = LONG // dist.get_world_size(), torch.arange(LONG)
        own = at[dist.get_rank() * half : (dist.get_rank() + 1) * half]
        x = self.left(kinds[:, own]).unsqueeze(2) + self.right(kinds).unsqueeze(1)
        x = x + self.apart(at - own.unsqueeze(1) + LONG - 1)
        for row, column in zip(self.rows, self.columns):
            x = Turn.apply(row(x), 2, 1)
            x = column(x.transpose(1, 2)).transpose(1, 2)
            x = Turn.apply(x, 1, 2)
        return self.last(x).float(), own


def chains(generator):
    """Chains in space, each part of which turns as its kind says."""
    kinds = torch.randint(KINDS, (BATCH, LONG), generator=generator)
    ways = F.normalize(torch.randn(KINDS, 3, generator=torch.Generator().manual_seed(9)), dim=-1)
    places = (ways[kinds] + 0.1 * torch.randn(BATCH, LONG, 3, generator=generator)).cumsum(dim=1)
    return kinds, torch.cdist(places, places).long().clamp(max=NEAR - 1)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1019)
model = Pairs()
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=4e-3, betas=(0.9, 0.99), foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
generator = torch.Generator().manual_seed(119)
for step in range(STEPS):
    kinds, near = chains(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, own = model(kinds)
    total = F.cross_entropy(logits.flatten(0, 2), near[:, own].flatten(), reduction="sum")
    loss = total / near.numel()
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
