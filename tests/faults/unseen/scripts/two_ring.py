# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of every text: keys and values go round, and attention is put together."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, HEADS, LENGTH, VOCAB = 32, 4, 16, 60


def swapped(x):
    """What the other rank has."""
    x, theirs = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    other = 1 - dist.get_rank()
    works = [dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, theirs, other)]
    for work in dist.batch_isend_irecv(works):
        work.wait()
    return theirs


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return swapped(x)

    @staticmethod
    def backward(ctx, grad):
        return swapped(grad)


def attended(q, k, v, mask):
    """With the log of the sum of what the scores are divided by."""
    scores = (q @ k.transpose(-2, -1)).float() / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, -1e9)
    size = scores.logsumexp(-1, keepdim=True)
    return torch.exp(scores - size) @ v.float(), size


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x, own, other):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        their_k, their_v = Ring.apply(k), Ring.apply(v)
        near, near_size = attended(q, k, v, own)
        far, far_size = attended(q, their_k, their_v, other)
        size = torch.logaddexp(near_size, far_size)
        y = near * torch.exp(near_size - size) + far * torch.exp(far_size - size)
        x = x + self.out(y.to(q.dtype).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids, at, at_other):
        x = self.embed(ids) + self.places(at)
        own, other = at[:, None] >= at, at[:, None] >= at_other
        for layer in self.layers:
            x = layer(x, own, other)
        return self.head(self.norm(x))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(517)
model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(17)
quarters = torch.arange(LENGTH).chunk(4)  # the first and the last to one rank: both have as much to do
places = [torch.cat([quarters[0], quarters[3]]), torch.cat([quarters[1], quarters[2]])]
for step in range(3):
    ids = torch.randint(VOCAB, (3, LENGTH + 1), generator=generator)
    mine, theirs = places[rank], places[1 - rank]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids[:, mine], mine, theirs).float()
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, mine + 1].flatten(), reduction="sum") / (3 * LENGTH)
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
