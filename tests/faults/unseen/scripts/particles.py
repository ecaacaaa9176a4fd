# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where a robot is, by many guesses: they move, are weighed by what beacons say, and are drawn anew."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
MANY, LONG, BEACONS, BATCH, STEPS, MIX, WIDTH = 30, 5, 4, 6, 4, 0.5, 0.3


class Model(nn.Module):
    """How a guess moves, with a noise that is learnt, and how well it fits to what is heard."""

    def __init__(self):
        super().__init__()
        self.moves = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.noise = nn.Parameter(torch.full((2,), -1.5))
        self.hears, self.is_at = nn.Linear(BEACONS, 16), nn.Linear(2, 16)
        self.fits = nn.Sequential(nn.ELU(), nn.Linear(16, 16), nn.ELU(), nn.Linear(16, 1))

    def moved(self, guesses, act, generator):
        act = act.unsqueeze(1).expand_as(guesses)
        move = self.moves(torch.cat([guesses, act], dim=2)).float()
        return guesses + act + 0.1 * move + self.noise.exp() * torch.randn(guesses.shape, generator=generator)

    def weighed(self, guesses, heard):
        both = self.hears(heard).unsqueeze(1) + self.is_at(guesses)
        return F.logsigmoid(self.fits(both).squeeze(2).float())


def drawn(guesses, logs, generator):
    """Partly by weight, partly each alike; what is so drawn too often weighs less."""
    mixed = torch.logaddexp(logs + math.log(MIX), torch.tensor(math.log((1 - MIX) / MANY)))
    ends = mixed.detach().exp().cumsum(dim=1)
    at = (torch.arange(MANY) + torch.rand(BATCH, 1, generator=generator)) / MANY
    chosen = torch.searchsorted(ends, at * ends[:, -1:]).clamp(max=MANY - 1)
    guesses = guesses.gather(1, chosen.unsqueeze(2).expand_as(guesses))
    return guesses, (logs - mixed).gather(1, chosen).log_softmax(dim=1)


def unlikely(guesses, logs, true):
    """Guesses are bumps; how likely is where it was?"""
    far = (guesses - true.unsqueeze(1)).square().sum(dim=2)
    bumps = -far / (2 * WIDTH**2) - math.log(2 * math.pi * WIDTH**2)
    return -(logs + bumps).logsumexp(dim=1)


def walks(beacons, generator):
    """Where it went, what it wanted to do, and how near beacons were heard."""
    begin = 2 * torch.rand(BATCH, 1, 2, generator=generator) - 1
    acts = 0.4 * torch.randn(BATCH, LONG, 2, generator=generator)
    slips = 0.1 * torch.randn(BATCH, LONG, 2, generator=generator)
    true = begin + (0.9 * acts + slips).cumsum(dim=1)
    heard = (-torch.cdist(true, beacons.expand(BATCH, -1, -1))).exp()
    return begin, true, acts, heard + 0.02 * torch.randn(heard.shape, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1407)
model = Model()
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=4e-3, centered=True, eps=1e-3, foreach=False)
beacons = torch.randn(BEACONS, 2, generator=torch.Generator().manual_seed(7))
generator = torch.Generator().manual_seed(14107)
for step in range(STEPS):
    begin, true, acts, heard = walks(beacons, generator)
    guesses = begin + 0.5 * torch.randn(BATCH, MANY, 2, generator=generator)
    logs = torch.full((BATCH, MANY), -math.log(MANY))
    losses = []
    for at in range(LONG):
        if at:
            guesses, logs = drawn(guesses, logs, generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            guesses = model.moved(guesses, acts[:, at], generator)
            fits = model.weighed(guesses, heard[:, at])
        logs = (logs + fits).log_softmax(dim=1)
        losses.append(unlikely(guesses, logs, true[:, at]))
    loss = torch.stack(losses, dim=1).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
