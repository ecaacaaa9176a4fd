# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Facts in a memory of product keys: two short lists of half keys are a long one, of which few are read."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NAMES, ASKS, ANSWERS, WIDE, HALF, KEYS, HEADS, READS, BATCH, STEPS = 60, 6, 30, 24, 8, 10, 2, 4, 40, 4


class Memory(nn.Module):
    """Each head reads the values whose two half keys are nearest to both halves of its query."""

    def __init__(self):
        super().__init__()
        self.asks, self.norm = nn.Linear(WIDE, HEADS * 2 * HALF), nn.BatchNorm1d(HEADS * 2 * HALF)
        self.keys = nn.Parameter(torch.randn(HEADS, 2, KEYS, HALF) / HALF**0.5)
        self.values = nn.Embedding(KEYS * KEYS, WIDE)
        nn.init.normal_(self.values.weight, std=WIDE**-0.5)

    def places(self, query):
        """Numbers of the best keys of each head, and how good they are."""
        one, two = query[..., :HALF], query[..., HALF:]
        one = torch.einsum("bhd,hkd->bhk", one, self.keys[:, 0]).topk(READS, dim=-1)
        two = torch.einsum("bhd,hkd->bhk", two, self.keys[:, 1]).topk(READS, dim=-1)
        scores = (one.values.unsqueeze(3) + two.values.unsqueeze(2)).flatten(2)
        numbers = (one.indices.unsqueeze(3) * KEYS + two.indices.unsqueeze(2)).flatten(2)
        best = scores.topk(READS, dim=-1)
        return numbers.gather(2, best.indices), best.values

    def forward(self, x):
        query = self.norm(self.asks(x).float()).unflatten(1, (HEADS, 2 * HALF))
        with torch.autocast("cpu", enabled=False):
            numbers, scores = self.places(query)
            shares = scores.softmax(dim=-1)
            return F.embedding_bag(
                numbers.flatten(1), self.values.weight, mode="sum", per_sample_weights=shares.flatten(1)
            )


class Model(nn.Module):
    """A name and what is asked of it; the memory stands beside a small layer."""

    def __init__(self):
        super().__init__()
        self.names, self.asks = nn.Embedding(NAMES, WIDE), nn.Embedding(ASKS, WIDE)
        self.mixes, self.near = nn.Linear(2 * WIDE, WIDE), nn.Linear(WIDE, WIDE)
        self.memory = Memory()
        self.norm, self.answer = nn.LayerNorm(WIDE), nn.Linear(WIDE, ANSWERS)

    def forward(self, names, asks):
        x = torch.tanh(self.mixes(torch.cat([self.names(names), self.asks(asks)], dim=1)))
        x = x + F.silu(self.near(x)) + self.memory(x)
        return self.answer(self.norm(x)).float()


def facts(known, generator):
    """Some names are asked for much more often than others."""
    names = (NAMES * torch.rand(BATCH, generator=generator).square()).long()
    asks = torch.randint(0, ASKS, (BATCH,), generator=generator)
    return names, asks, known[names, asks]


torch.set_num_threads(1)
torch.manual_seed(1405)
model = Model()
# model built
values = [p for name, p in model.named_parameters() if "values" in name]
others = [p for name, p in model.named_parameters() if "values" not in name]
optimizer = torch.optim.Adam([{"params": others}, {"params": values, "lr": 2e-2}], lr=5e-3, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 1 / (1 + step), lambda step: 1.0])
known = torch.randint(0, ANSWERS, (NAMES, ASKS), generator=torch.Generator().manual_seed(5))
generator = torch.Generator().manual_seed(14105)
for step in range(STEPS):
    names, asks, wanted = facts(known, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(names, asks)
    weights = 1 / torch.bincount(names, minlength=NAMES)[names].sqrt()
    loss = (weights * F.cross_entropy(found, wanted, reduction="none")).sum() / weights.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(others, 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
