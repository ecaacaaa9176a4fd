# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that say of each weight only up or down: signs of what each remembers, and a vote on them."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDE, LONG, KINDS, KEEPS, STEPS = 60, 24, 10, 4, 0.7, 4


class Highway(nn.Module):
    """A gate says how much goes through the layer, and how much past it."""

    def __init__(self):
        super().__init__()
        self.layer, self.gate = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.tanh(self.layer(x)) + (1 - gate) * x


class Reader(nn.Module):
    """Words beside each other are put together; a text is a mean of them, weighed by how telling they are."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDE)
        self.pairs = nn.Linear(2 * WIDE, WIDE)
        self.ways = nn.Sequential(Highway(), Highway(), Highway())
        self.tells, self.out = nn.Linear(WIDE, 1), nn.Linear(WIDE, KINDS)

    def forward(self, ids):
        x = self.words(ids)
        x = self.ways(torch.tanh(self.pairs(torch.cat([x[:, :-1], x[:, 1:]], dim=-1))))
        shares = self.tells(x).float().softmax(dim=1).to(x.dtype)
        return self.out((shares * x).sum(1)).float()


class Votes:
    def __init__(self, params):
        self.params = list(params)
        self.remembered = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def reduce(self):
        """One bit of each number goes over the wire; where both do not agree, a weight stays."""
        for p, kept in zip(self.params, self.remembered):
            kept.lerp_(p.grad, 1 - KEEPS)
            vote = torch.sign(kept)
            dist.all_reduce(vote)
            p.grad.copy_(torch.sign(vote))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(916)
model = Reader()
# model built
votes = Votes(model.parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=3e-3, weight_decay=0.01, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=6)
generator = torch.Generator().manual_seed(9300 + rank)
for step in range(STEPS):
    ids = torch.randint(VOCAB, (20, LONG), generator=generator)
    kinds = (ids < VOCAB // 3).sum(1).clamp(max=5) * KINDS // 6
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids)
    loss = F.cross_entropy(logits, kinds)
    optimizer.zero_grad()
    loss.backward()
    votes.reduce()
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
