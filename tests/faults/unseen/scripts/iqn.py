# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Implicit quantiles: how what an act is worth is spread; moves that surprised come again sooner."""

import copy
import math
import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
SEEN, ACTS, WIDE, COSINES, SHARES, MOVES, BATCH = 6, 3, 24, 16, 8, 96, 16
GAMMA, AHEAD, ALPHA, BETA, EVERY = 0.97, 3, 0.5, 0.4, 2


class Spread(nn.Module):
    """What an act is worth at any share of its luck."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(SEEN, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDE), nn.ReLU())
        self.share = nn.Linear(COSINES, WIDE)
        self.value, self.better = nn.Linear(WIDE, 1), nn.Linear(WIDE, ACTS)

    def forward(self, seen, shares):
        """From (moves, what is seen) and (moves, shares) to (moves, shares, acts)."""
        waves = torch.cos(math.pi * torch.arange(1, COSINES + 1) * shares.unsqueeze(-1))
        h = self.see(seen).unsqueeze(1) * F.relu(self.share(waves))
        better = self.better(h)
        return (self.value(h) + better - better.mean(dim=-1, keepdim=True)).float()


def memory():
    """Moves of several steps each, with what they earned, and how much each surprised so far."""
    g = torch.Generator().manual_seed(910)
    seen, later = torch.randn(2, MOVES, SEEN, generator=g)
    acts = torch.randint(ACTS, (MOVES,), generator=g)
    luck = torch.randn(MOVES, AHEAD, generator=g)
    rewards = (seen[:, :ACTS].gather(1, acts.unsqueeze(1)) + luck) * 0.5
    earned = (rewards * GAMMA ** torch.arange(AHEAD)).sum(1)
    return seen, acts, earned, later, (torch.rand(MOVES, generator=g) < 0.1).float()


def surprise(found, wanted, shares):
    """Each found quantile against each wanted one: what is too low counts by its share, what is too high by
    the rest.
    """
    apart = wanted.unsqueeze(1) - found.unsqueeze(2)
    huber = F.huber_loss(apart, torch.zeros_like(apart), reduction="none")
    weights = (shares.unsqueeze(2) - (apart < 0).float()).abs()
    return (weights * huber).mean(2).sum(1)


torch.set_num_threads(1)
torch.manual_seed(910)
net = Spread()
slow = copy.deepcopy(net).requires_grad_(False)
# model built
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, eps=0.01 / BATCH, foreach=False)
first, parts = 0, {"net": net, "slow": slow, "optimizer": optimizer}
seen, acts, earned, later, ends = memory()
priority = torch.ones(MOVES)
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first, priority = saved["step"], saved["priority"]
    for name, part in parts.items():
        part.load_state_dict(saved[name])
for step in range(first, TOTAL):
    g = torch.Generator().manual_seed(9900 + step)
    chances = priority**ALPHA / (priority**ALPHA).sum()
    rows = torch.multinomial(chances, BATCH, generator=g)
    weights = (MOVES * chances[rows]) ** -BETA
    weights = weights / weights.max()
    shares, of_best, of_next = torch.rand(3, BATCH, SHARES, generator=g)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        with torch.no_grad():
            best = net(later[rows], of_best).mean(1).argmax(dim=-1)
            after = slow(later[rows], of_next)[torch.arange(BATCH), :, best]
        found = net(seen[rows], shares)[torch.arange(BATCH), :, acts[rows]]
    wanted = earned[rows, None] + GAMMA**AHEAD * (1 - ends[rows, None]) * after
    each = surprise(found, wanted, shares)
    loss = (weights * each).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    optimizer.step()
    priority[rows] = each.detach() + 1e-3
    if step % EVERY == EVERY - 1:
        slow.load_state_dict(net.state_dict())
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, "priority": priority, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))
