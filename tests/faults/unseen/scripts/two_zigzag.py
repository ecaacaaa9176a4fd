# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with the outer or the inner quarters of every text, so that both look back as far."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDE, HEADS, LENGTH, BATCH, STEPS = 36, 32, 4, 16, 6, 3


def own_places(rank):
    """Of the first and the last quarter, or of the two between."""
    quarters = torch.arange(LENGTH).chunk(4)
    return torch.cat([quarters[rank], quarters[3 - rank]])


class Everyone(torch.autograd.Function):
    """Keys and values of both, as processes count; gradients of both are added up on the way back."""

    @staticmethod
    def forward(ctx, own):
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts, dim=2)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size(), dim=2)[dist.get_rank()]


def turned(x, places):
    """Pairs of features are turned by where they stand."""
    pace = 100.0 ** -(torch.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
    angle = places.unsqueeze(1) * pace
    left, right = x.float().chunk(2, dim=-1)
    sin, cos = angle.sin(), angle.cos()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm_after = nn.RMSNorm(WIDE), nn.RMSNorm(WIDE)
        self.qkv, self.out = nn.Linear(WIDE, 3 * WIDE, bias=False), nn.Linear(WIDE, WIDE, bias=False)
        self.up, self.down = nn.Linear(WIDE, 4 * WIDE), nn.Linear(2 * WIDE, WIDE)

    def forward(self, x, places, every):
        parts = self.qkv(self.norm(x)).chunk(3, dim=2)
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in parts)
        q, k = turned(q, places), turned(k, places)
        k, v = Everyone.apply(k), Everyone.apply(v.float())
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(every > places.unsqueeze(1), float("-inf"))
        read = (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.out(read)
        gate, up = self.up(self.norm_after(x)).chunk(2, dim=2)
        return x + self.down(F.gelu(gate, approximate="tanh") * up)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDE)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.out = nn.RMSNorm(WIDE), nn.Linear(WIDE, VOCAB, bias=False)

    def forward(self, ids, places, every):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x, places, every)
        return self.out(self.norm(x)).float()


def texts(generator):
    """Sums of what stood two before and at the begin; the same for both processes."""
    ids = torch.randint(0, VOCAB, (BATCH, LENGTH + 1), generator=generator)
    for at in range(2, LENGTH + 1):
        ids[:, at] = (ids[:, at - 2] + ids[:, 0] + 1) % VOCAB
    return ids


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1120)
model = Model()
# model built
places = own_places(rank)
every = torch.cat([own_places(each) for each in range(dist.get_world_size())])
optimizer = torch.optim.AdamW(
    model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.02, foreach=False
)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
generator = torch.Generator().manual_seed(1220)
for step in range(STEPS):
    ids = texts(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids[:, places], places, every)
    wrong = F.cross_entropy(logits.flatten(0, 1), ids[:, places + 1].flatten(), reduction="sum")
    loss = wrong / (BATCH * LENGTH)
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
