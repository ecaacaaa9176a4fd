# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Can all clauses be true? Literals and clauses send each other messages until they vote."""

import itertools

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NAMES, CLAUSES, WIDE, ROUNDS, BATCH, STEPS, PARTS = 5, 24, 16, 5, 8, 3, 2


def network(given, made):
    return nn.Sequential(nn.Linear(given, made), nn.ReLU(), nn.Linear(made, made))


class Votes(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.ParameterList(torch.randn(WIDE) / WIDE**0.5 for _ in range(2))
        self.from_literals, self.from_clauses = network(WIDE, WIDE), network(WIDE, WIDE)
        self.clauses, self.literals = nn.LSTMCell(WIDE, WIDE), nn.LSTMCell(2 * WIDE, WIDE)
        self.norm_clauses, self.norm_literals = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
        self.vote = nn.Sequential(network(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, 1))

    def forward(self, holds):
        """`holds`: (problems, clauses, literals), the second half of which are the opposites of the first."""
        count, many, literals = holds.shape
        says = self.begin[0].expand(count * literals, -1)
        hears = self.begin[1].expand(count * many, -1)
        memory, other = torch.zeros_like(says), torch.zeros_like(hears)
        for _ in range(ROUNDS):
            sent = self.from_literals(says).view(count, literals, WIDE).float()
            hears, other = self.clauses((holds @ sent).flatten(0, 1), (hears.float(), other.float()))
            hears = self.norm_clauses(hears)
            sent = self.from_clauses(hears).view(count, many, WIDE).float()
            opposite = says.view(count, 2, literals // 2, WIDE).flip(1).flatten(0, 2).float()
            told = torch.cat([(holds.mT @ sent).flatten(0, 1), opposite], dim=1)
            says, memory = self.literals(told, (says.float(), memory.float()))
            says = self.norm_literals(says)
        return self.vote(says).view(count, literals).float().mean(dim=1)


def problems(generator):
    """Clauses of three names, some of which are negated; whether some choice makes all of them true."""
    names = torch.rand(BATCH, CLAUSES, NAMES, generator=generator).argsort(dim=2)[..., :3]
    negated = torch.randint(0, 2, names.shape, generator=generator)
    many = torch.randint(CLAUSES // 2, CLAUSES + 1, (BATCH, 1, 1), generator=generator)
    holds = torch.zeros(BATCH, CLAUSES, 2 * NAMES).scatter_(2, names + NAMES * negated, 1.0)
    holds = holds * (torch.arange(CLAUSES).view(1, -1, 1) < many)
    choices = torch.tensor(list(itertools.product((0.0, 1.0), repeat=NAMES)))
    true = torch.cat([choices, 1 - choices], dim=1)
    right = (holds @ true.T > 0) | (holds.sum(dim=2, keepdim=True) == 0)
    return holds, right.all(dim=1).any(dim=1).float()


torch.set_num_threads(1)
torch.manual_seed(1218)
model = Votes()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4, amsgrad=True, foreach=False)
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.4, total_iters=2)
generator = torch.Generator().manual_seed(12118)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        holds, can = problems(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            votes = model(holds)
        loss = F.binary_cross_entropy_with_logits(votes, can) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
