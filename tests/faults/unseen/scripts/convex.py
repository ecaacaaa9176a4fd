# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How to carry one cloud of points to another at the least cost: slopes of networks that are convex."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDE, LAYERS, BATCH, INNER, ROUNDS, HOLD = 24, 3, 48, 2, 3, 0.5


class Convex(nn.Module):
    """Convex in x: what comes from hidden units is weighed by nothing below zero."""

    def __init__(self):
        super().__init__()
        self.sees = nn.ModuleList(nn.Linear(2, WIDE) for _ in range(LAYERS))
        self.hands_on = nn.ModuleList(nn.Linear(WIDE, WIDE, bias=False) for _ in range(LAYERS - 1))
        self.out = nn.Linear(WIDE, 1, bias=False)
        for layer in (*self.hands_on, self.out):
            nn.init.uniform_(layer.weight, 0.0, 2.0 / WIDE)

    def forward(self, x):
        hidden = bent(self.sees[0](x))
        for sees, hands_on in zip(self.sees[1:], self.hands_on):
            hidden = bent(hands_on(hidden) + sees(x))
        return self.out(hidden).squeeze(1).float() + 0.5 * x.square().sum(dim=1)

    def weighed(self):
        return [layer.weight for layer in (*self.hands_on, self.out)]


def bent(x):
    x = x.float()
    return 0.5 * F.relu(x).square()


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.there, self.back = Convex(), Convex()


def slope(potential, x):
    """Where the potential carries x."""
    x = x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        (found,) = torch.autograd.grad(potential(x).sum(), x, create_graph=True)
    return found


def worth(model, y, moved):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        return ((y * moved).sum(dim=1) - model.there(moved)).mean()


def clouds(generator):
    """A ring, and four spots."""
    angle = 6.2832 * torch.rand(BATCH, generator=generator)
    ring = torch.stack([angle.cos(), angle.sin()], dim=1)
    spots = torch.randint(0, 2, (BATCH, 2), generator=generator) * 2.0 - 1
    noise = 0.1 * torch.randn(2, BATCH, 2, generator=generator)
    return ring + noise[0], 1.5 * spots + noise[1]


torch.set_num_threads(1)
torch.manual_seed(1101)
model = Pair()
# model built
there = torch.optim.Adam(model.there.parameters(), lr=3e-3, betas=(0.5, 0.9), foreach=False)
back = torch.optim.Adam(model.back.parameters(), lr=3e-3, betas=(0.5, 0.9), foreach=False)
generator = torch.Generator().manual_seed(111)
for turn in range(ROUNDS):
    x, y = clouds(generator)
    moved = slope(model.back, y).detach()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = model.there(x).mean()
    loss = loss + worth(model, y, moved)
    there.zero_grad()
    loss.backward()
    there.step()
    with torch.no_grad():
        for p in model.there.weighed():
            p.clamp_(min=0)
    for _ in range(INNER):
        x, y = clouds(generator)
        below = sum(F.relu(-p).square().sum() for p in model.back.weighed())
        missing = HOLD * below - worth(model, y, slope(model.back, y))
        back.zero_grad()
        missing.backward()
        nn.utils.clip_grad_norm_(model.back.parameters(), 4.0)
        back.step()
    print(f"step {turn} loss {loss.item()!r} {missing.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
