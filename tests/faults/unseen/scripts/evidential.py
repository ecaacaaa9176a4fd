# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How much speaks for each kind, not how likely it is: a Dirichlet distribution, learnt by Adadelta."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, KINDS, WARM, PARTS = 10, 32, 5, 4, 2


class Evidence(nn.Module):
    """Maxout in two layers; what comes out is never negative."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, 3 * WIDE), nn.Linear(WIDE, 3 * WIDE)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)])
        self.out = nn.Linear(WIDE, KINDS)

    def forward(self, x):
        h = self.norms[0](self.first(x).unflatten(-1, (WIDE, 3)).amax(dim=-1))
        h = h + self.norms[1](self.second(h).unflatten(-1, (WIDE, 3)).amax(dim=-1))
        return F.softplus(self.out(h).float())


def off(alpha, wanted):
    """The expected squared error: of the mean, and how much one may be off it."""
    total = alpha.sum(-1, keepdim=True)
    share = alpha / total
    return ((wanted - share).square() + share * (1 - share) / (total + 1)).sum(-1)


def for_nothing(alpha):
    """How far a Dirichlet distribution is from the one that knows nothing."""
    total = alpha.sum(-1)
    logs = torch.lgamma(total) - torch.lgamma(alpha).sum(-1) - torch.lgamma(torch.tensor(float(KINDS)))
    return logs + ((alpha - 1) * (torch.digamma(alpha) - torch.digamma(total).unsqueeze(-1))).sum(-1)


def batch_of(generator):
    x = torch.randn(32, SEEN, generator=generator)
    kinds = (x[:, :KINDS] - x[:, KINDS:]).argmax(1)
    doubtful = torch.rand(32, generator=generator) < 0.1
    return x, torch.where(doubtful, (kinds + 1) % KINDS, kinds)


torch.set_num_threads(1)
torch.manual_seed(815)
model = Evidence()
# model built
optimizer = torch.optim.Adadelta(
    model.parameters(), lr=1.0, rho=0.9, eps=1e-5, weight_decay=1e-4, foreach=False
)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.95)
generator = torch.Generator().manual_seed(815)
for step in range(5):
    x, kinds = batch_of(generator)
    optimizer.zero_grad()
    total = 0.0
    for some, right in zip(x.chunk(PARTS), kinds.chunk(PARTS)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            alpha = model(some) + 1
        wanted = F.one_hot(right, KINDS).float()
        wrong = wanted + (1 - wanted) * alpha
        loss = (off(alpha, wanted) + min(1.0, (step + 1) / WARM) * for_nothing(wrong)).mean() / PARTS
        loss.backward()
        total += loss.item()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
