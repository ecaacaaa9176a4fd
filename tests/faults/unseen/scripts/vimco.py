# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Causes that are there or not: guesses of a row are weighed, and each is judged by what the others say."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ONE, TWO, GUESSES, BATCH, STEPS = 16, 10, 6, 5, 12, 4


class Belief(nn.Module):
    """Two layers of bits, and the way back from what is seen to them."""

    def __init__(self):
        super().__init__()
        self.prior = nn.Parameter(torch.zeros(TWO))
        self.down_two, self.down_one = nn.Linear(TWO, ONE), nn.Linear(ONE, SEEN)
        self.up_one = nn.Sequential(nn.Linear(SEEN, 20), nn.LogSigmoid(), nn.Linear(20, ONE))
        self.up_two = nn.Linear(ONE, TWO)

    def guess(self, x, generator):
        """Bits of both layers, and how likely they were guessed."""
        says = self.up_one(x - 0.5).float()
        one = (torch.rand(says.shape, generator=generator) < says.sigmoid()).float()
        says_two = self.up_two(one - 0.5).float()
        two = (torch.rand(says_two.shape, generator=generator) < says_two.sigmoid()).float()
        return one, two, bits(says, one) + bits(says_two, two)

    def joint(self, x, one, two):
        """How likely bits and row are together."""
        seen = bits(self.down_one(one).float(), x)
        return seen + bits(self.down_two(two).float(), one) + bits(self.prior, two)


def bits(logits, wanted):
    logits = logits.expand_as(wanted)
    return -F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(dim=-1)


def bound(weights):
    """Log of the mean weight of all guesses."""
    return weights.logsumexp(dim=0) - math.log(GUESSES)


@torch.no_grad()
def judged(weights):
    """How much better the bound is by each guess than it were with the others' usual one in its place."""
    usual = (weights.sum(dim=0) - weights) / (GUESSES - 1)
    same = torch.eye(GUESSES).unsqueeze(2)
    instead = torch.where(same > 0, usual.unsqueeze(1), weights.unsqueeze(0))
    without = instead.logsumexp(dim=1) - math.log(GUESSES)
    return bound(weights) - without


def rows(looks, generator):
    """Some of few looks are there; a row shows all of them, and some bits are wrong."""
    there = (torch.rand(BATCH, len(looks), generator=generator) < 0.4).float()
    x = ((there @ looks) > 0).float()
    flips = (torch.rand(x.shape, generator=generator) < 0.05).float()
    return (x - flips).abs()


torch.set_num_threads(1)
torch.manual_seed(1313)
model = Belief()
# model built
back = [p for name, p in model.named_parameters() if name.startswith("up")]
down = [p for name, p in model.named_parameters() if not name.startswith("up")]
optimizer = torch.optim.Adam([{"params": down}, {"params": back, "lr": 5e-3}], lr=2e-2, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=12, power=0.5)
looks = (torch.rand(5, SEEN, generator=torch.Generator().manual_seed(13)) < 0.3).float()
generator = torch.Generator().manual_seed(13113)
for step in range(STEPS):
    x = rows(looks, generator).expand(GUESSES, -1, -1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        one, two, guessed = model.guess(x, generator)
        together = model.joint(x, one, two)
    weights = together - guessed
    found = bound(weights)
    learns = (judged(weights) * guessed).sum(dim=0) + found
    optimizer.zero_grad()
    (-learns.mean()).backward()
    nn.utils.clip_grad_norm_(down, 3.0)
    nn.utils.clip_grad_norm_(back, 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {-found.mean().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
