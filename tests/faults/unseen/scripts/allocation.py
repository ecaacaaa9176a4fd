# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Money is shared out by a quadratic program whose gains a network foretells, and which is solved within."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
PAPERS, SEEN, WIDE, DAYS, BATCH, SHRINK, FEAR = 6, 5, 24, 20, 16, 0.2, 2.0


class Foretells(nn.Module):
    """Of each paper: what it gains, and how far its own spread counts."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, WIDE), nn.Linear(2 * WIDE, WIDE)
        self.norm = nn.LayerNorm(WIDE)
        self.out = nn.Linear(WIDE, 2)

    def forward(self, x):
        x = F.gelu(self.first(x))
        market = x.mean(dim=1, keepdim=True).expand_as(x)
        x = x + F.gelu(self.second(torch.cat([x, market], dim=-1)))
        return self.out(self.norm(x)).float().unbind(dim=-1)


def risk_of(past, care):
    """The covariance of days, drawn towards a ball, and more of each paper that asks for care."""
    apart = past - past.mean(dim=1, keepdim=True)
    found = apart.mT @ apart / (DAYS - 1)
    size = found.diagonal(dim1=1, dim2=2).mean(dim=1)
    found = (1 - SHRINK) * found + SHRINK * size[:, None, None] * torch.eye(PAPERS)
    return found + torch.diag_embed(F.softplus(care))


def shared_out(gains, risk):
    """Shares of the whole: the most gain less risk, among those that add up to one."""
    ones = torch.ones(len(gains), PAPERS, 1)
    upper = torch.cat([FEAR * risk, ones], dim=2)
    lower = torch.cat([ones.mT, torch.zeros(len(gains), 1, 1)], dim=2)
    wanted = torch.cat([gains, torch.ones(len(gains), 1)], dim=1)
    return torch.linalg.solve(torch.cat([upper, lower], dim=1), wanted)[:, :PAPERS]


def worth(shares, gains, risk):
    spread = torch.einsum("bi,bij,bj->b", shares, risk, shares)
    return (shares * gains).sum(dim=1) - 0.5 * FEAR * spread


def days(generator):
    """What is seen of papers, how they went, and what they then gain."""
    x = torch.randn(BATCH, PAPERS, SEEN, generator=generator)
    common = torch.randn(BATCH, DAYS, 1, generator=generator)
    past = 0.5 * common + torch.randn(BATCH, DAYS, PAPERS, generator=generator)
    gains = 0.6 * torch.tanh(x[..., 0] - x[..., 1]) + 0.3 * x[..., 2] * x[..., 3]
    return x, past, gains + 0.1 * torch.randn(BATCH, PAPERS, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1103)
model = Foretells()
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=6e-3, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.CyclicLR(
    optimizer, base_lr=2e-3, max_lr=8e-3, step_size_up=3, cycle_momentum=False
)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=False)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    x, past, true = days(torch.Generator().manual_seed(11300 + step))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told, care = model(x)
    given = risk_of(past, torch.zeros_like(care))
    shares = shared_out(told, risk_of(past, care))
    best = worth(shared_out(true, given), true, given)
    regret = (best - worth(shares, true, given)).mean()
    loss = regret + 0.2 * F.huber_loss(told, true, delta=0.5)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
