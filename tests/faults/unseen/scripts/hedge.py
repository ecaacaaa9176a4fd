# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Deep hedging: what to hold of a share, day by day, so that the worst that remains is small; trades cost."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
DAYS, PATHS, WIDE, STEPS, STRIKE, SPREAD, WORST, COST = 8, 96, 16, 4, 1.0, 0.3, 0.5, 0.01


class Holds(nn.Module):
    """The days share a network, which knows what was held before; each day has its norm."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, WIDE), nn.Linear(WIDE, WIDE)
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDE, momentum=0.2) for _ in range(DAYS))
        self.out = nn.Linear(WIDE, 1)
        self.premium = nn.Parameter(torch.tensor(0.05))

    def forward(self, prices, spreads):
        held, all_held = torch.zeros(len(prices)), []
        for day in range(DAYS):
            left = torch.full_like(held, 1 - day / DAYS)
            x = torch.stack([(prices[:, day] / STRIKE).log(), spreads[:, day], left, held], dim=1)
            x = F.celu(self.norms[day](self.first(x)))
            x = F.celu(self.second(x))
            held = torch.sigmoid(self.out(x)).float().squeeze(1)
            all_held.append(held)
        return torch.stack(all_held, dim=1)


def shares(generator):
    """Prices whose spread wanders, too, mostly against them; each path comes with its mirror."""
    one, two = torch.randn(2, PATHS // 2, DAYS, generator=generator)
    one, two = torch.cat([one, -one]), torch.cat([two, -two])
    day = 1 / DAYS
    log, spread = torch.zeros(PATHS), torch.full((PATHS,), SPREAD)
    logs, spreads = [log], [spread]
    for at in range(DAYS):
        log = log - 0.5 * spread.square() * day + spread * day**0.5 * one[:, at]
        spread = spread + (SPREAD - spread) * day + 0.2 * day**0.5 * (0.8 * two[:, at] - 0.6 * one[:, at])
        spread = spread.clamp(min=0.05)
        logs.append(log)
        spreads.append(spread)
    return torch.stack(logs, dim=1).exp(), torch.stack(spreads, dim=1)


def remains(model, prices, held):
    """What is left at the end: the premium and what was won, less what the option pays, less costs."""
    won = (held * (prices[:, 1:] - prices[:, :-1])).sum(dim=1)
    changes = torch.diff(held, dim=1, prepend=torch.zeros(PATHS, 1))
    costs = COST * (changes.abs() * prices[:, :-1]).sum(dim=1)
    pays = F.relu(prices[:, -1] - STRIKE)
    return model.premium + won - pays - costs


def risk(left, level):
    """Mean of the worst share of all, by the level that it starts from, which is learnt."""
    return level + F.relu(-left - level).mean() / WORST


torch.set_num_threads(1)
torch.manual_seed(1312)
model = Holds()
# model built
level = nn.Parameter(torch.tensor(0.0))
optimizer = torch.optim.AdamW(
    [{"params": model.parameters()}, {"params": [level], "lr": 5e-2, "weight_decay": 0.0}],
    lr=1e-2, betas=(0.85, 0.95), weight_decay=0.01, maximize=False, foreach=False,
)  # fmt: skip
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 0.9**step, lambda step: 1.0])
generator = torch.Generator().manual_seed(13112)
for step in range(STEPS):
    prices, spreads = shares(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        held = model(prices, spreads)
    left = remains(model, prices, held)
    loss = risk(left, level) + 0.1 * model.premium.square()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {level.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in [*model.parameters(), level]))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
