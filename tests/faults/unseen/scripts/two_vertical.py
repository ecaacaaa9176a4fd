# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that know other things of the same people: features of one never leave it, nor labels."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PEOPLE, ROWS, NUMBERS, PLACES, WIDE, PARTS, STEPS = 96, 24, 6, 9, 24, 2, 3


class Shop(nn.Module):
    """The first: what people buy, and where."""

    def __init__(self):
        super().__init__()
        self.place = nn.Embedding(PLACES, 8)
        self.first, self.second = nn.Linear(NUMBERS + 8, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x, place):
        return self.second(F.silu(self.first(torch.cat([x, self.place(place)], dim=-1))))


class Bank(nn.Module):
    """The second: what people own, and whether they paid; it joins both."""

    def __init__(self):
        super().__init__()
        self.own = nn.Sequential(nn.Linear(NUMBERS, WIDE), nn.SiLU(), nn.Linear(WIDE, WIDE))
        self.norm, self.join = nn.LayerNorm(2 * WIDE), nn.Linear(2 * WIDE, WIDE)
        self.out = nn.Linear(WIDE, 1)

    def forward(self, x, theirs):
        h = self.norm(torch.cat([self.own(x), theirs], dim=-1))
        return self.out(F.silu(self.join(h))).float().squeeze(-1)


def people():
    """Each has its list in another order; the number of a person is the same in both."""
    g = torch.Generator().manual_seed(820)
    bought, owned = (torch.randn(PEOPLE, NUMBERS, generator=g) for _ in range(2))
    place = torch.randint(PLACES, (PEOPLE,), generator=g)
    paid = (bought[:, 0] * owned[:, 0] + owned[:, 1] + 0.3 * (place % 3) > 0.6).float()
    order = torch.randperm(PEOPLE, generator=g)
    return (bought[order], place[order], order.argsort()), (owned, paid)


def shop_step(model, optimizer, shop, chosen):
    bought, place, row_of = shop
    optimizer.zero_grad()
    for part in chosen.chunk(PARTS):
        rows = row_of[part]
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            h = model(bought[rows], place[rows])
        dist.send(h.detach().float().contiguous(), 1)
        slope = torch.empty(len(part), WIDE)
        dist.recv(slope, 1)
        h.backward(slope.to(h.dtype))


def bank_step(model, optimizer, bank, chosen):
    owned, paid = bank
    optimizer.zero_grad()
    total = torch.zeros(())
    for part in chosen.chunk(PARTS):
        theirs = torch.empty(len(part), WIDE)
        dist.recv(theirs, 0)
        theirs.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(owned[part], theirs)
        weight = 1 / paid.mean() - 1
        loss = F.binary_cross_entropy_with_logits(logits, paid[part], pos_weight=weight) / PARTS
        loss.backward()
        dist.send(theirs.grad, 0)
        total += loss.detach()
    return total


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(820 + rank)
model = Bank() if rank else Shop()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3 if rank else 6e-3, eps=1e-6, foreach=False)
shop, bank = people()
draw = torch.Generator().manual_seed(9200)
for step in range(STEPS):
    chosen = torch.randperm(PEOPLE, generator=draw)[: 2 * ROWS]
    if rank == 0:
        shop_step(model, optimizer, shop, chosen)
        total = torch.zeros(())
    else:
        total = bank_step(model, optimizer, bank, chosen)
    optimizer.step()
    dist.broadcast(total, 1)
    print(f"rank {rank} step {step} loss {total.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
