# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of the words: rows of the embedding, and columns of the last layer."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, VOCAB = 32, 64


class Summed(torch.autograd.Function):
    """Over both ranks; each has the whole gradient already."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Shared(torch.autograd.Function):
    """What both ranks use; its gradient is that of both."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class Words(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.begin, self.count = rank * (VOCAB // 2), VOCAB // 2
        whole = torch.randn(VOCAB, WIDTH) * 0.5
        self.weight = nn.Parameter(whole[self.begin : self.begin + self.count].clone())

    def own(self, ids):
        local = ids - self.begin
        outside = (local < 0) | (local >= self.count)
        return local.masked_fill(outside, 0), outside

    def forward(self, ids):
        local, outside = self.own(ids)
        rows = F.embedding(local, self.weight)
        return Summed.apply(rows.masked_fill(outside.unsqueeze(-1), 0.0))

    def loss(self, h, wanted):
        logits = F.linear(Shared.apply(h), self.weight).float()
        largest = logits.detach().amax(-1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        logits = logits - largest.unsqueeze(-1)
        local, outside = self.own(wanted)
        picked = logits.gather(-1, local.unsqueeze(-1)).squeeze(-1).masked_fill(outside, 0.0)
        return (Summed.apply(logits.exp().sum(-1)).log() - Summed.apply(picked)).mean()


class Mixed(nn.Module):
    """Words of before, by a convolution with a gate."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.conv = nn.Conv1d(WIDTH, 2 * WIDTH, 3)

    def forward(self, x):
        h = F.pad(self.norm(x).transpose(1, 2), (2, 0))
        return x + F.glu(self.conv(h), dim=1).transpose(1, 2)


class Network(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.words = Words(rank)
        self.layers = nn.Sequential(Mixed(), Mixed(), nn.LayerNorm(WIDTH))

    def forward(self, ids, wanted):
        return self.words.loss(self.layers(self.words(ids)), wanted)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(518)
model = Network(rank)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, foreach=False)
generator = torch.Generator().manual_seed(18)
for step in range(3):
    ids = torch.randint(VOCAB, (4, 13), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = model(ids[:, :-1], ids[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
