# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a cure does to whom: a network says how it goes with it, without it, and who was likely to get it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, PEOPLE, BATCH, STEPS, LIKELY, TARGETED = 10, 24, 160, 40, 4, 0.5, 0.4


class Cure(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm1d(SEEN), nn.Linear(SEEN, WIDE), nn.ELU(), nn.Linear(WIDE, WIDE), nn.ELU()
        )
        self.without, self.cured = (
            nn.Sequential(nn.Linear(WIDE, WIDE), nn.ELU(), nn.Linear(WIDE, 1)) for _ in range(2)
        )
        self.given = nn.Linear(WIDE, 1)
        self.step = nn.Parameter(torch.full((1,), 0.05))

    def forward(self, x):
        """How it goes without and with the cure, and the logit of getting it."""
        x = self.body(x)
        return tuple(head(x).squeeze(1).float() for head in (self.without, self.cured, self.given))


def judged(model, without, cured, logit, treated, went):
    """Of each person only one of both is known; what is said is moved a little against who got the cure."""
    said = torch.where(treated, cured, without)
    known = (said - went).square().mean()
    likely = F.binary_cross_entropy_with_logits(logit, treated.float())
    chance = 0.01 + 0.98 * torch.sigmoid(logit)
    odds = treated / chance - ~treated / (1 - chance)
    moved = (went - said - model.step * odds).square().mean()
    return known + LIKELY * likely + TARGETED * moved


def people(generator):
    """Who is old is given the cure more often, and goes worse."""
    x = torch.randn(PEOPLE, SEEN, generator=generator)
    chance = torch.sigmoid(1.2 * x[:, 0] - 0.5 * x[:, 1])
    treated = torch.rand(PEOPLE, generator=generator) < chance
    gain = 1 + 0.8 * torch.tanh(x[:, 2])
    went = torch.sin(x[:, 3]) - 0.7 * x[:, 0] + gain * treated
    return x, treated, went + 0.2 * torch.randn(PEOPLE, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1107)
model = Cure()
# model built
heads = [*model.without.parameters(), *model.cured.parameters()]
rest = [*model.body.parameters(), *model.given.parameters()]
optimizer = torch.optim.SGD(
    [
        {"params": rest, "lr": 0.05},
        {"params": heads, "weight_decay": 1e-2},
        {"params": [model.step], "momentum": 0.0},
    ],
    lr=0.03,
    momentum=0.8,
    dampening=0.1,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=6, power=2.0)
x, treated, went = people(torch.Generator().manual_seed(117))
order = torch.randperm(PEOPLE, generator=torch.Generator().manual_seed(1117))
for step in range(STEPS):
    rows = order[step * BATCH : (step + 1) * BATCH]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        without, cured, logit = model(x[rows])
    loss = judged(model, without, cured, logit, treated[rows], went[rows])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
