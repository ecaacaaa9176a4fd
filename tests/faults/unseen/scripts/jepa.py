# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is behind a block of a picture, told not in colours but as a slower network would see it."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, PATCH, WIDE, NARROW, HEADS, BATCH, STEPS, TOTAL = 24, 4, 32, 24, 4, 6, 4, 12
GRID = SIDE // PATCH


def places(wide):
    """Waves over rows for one half, over columns for the other."""
    rates = 1 / 100 ** (torch.arange(wide // 4) / (wide // 4))
    down, right = torch.arange(GRID).repeat_interleave(GRID), torch.arange(GRID).repeat(GRID)
    waves = [at.unsqueeze(1) * rates for at in (down, right)]
    return torch.cat([f(wave) for wave in waves for f in (torch.sin, torch.cos)], dim=1)


class Block(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.before, self.between = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.back = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 2 * wide), nn.Linear(2 * wide, wide)

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v)
        x = x + self.back(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Sees(nn.Module):
    """Of all patches, or of those that are shown."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDE, PATCH, stride=PATCH)
        self.register_buffer("where", places(WIDE))
        self.blocks, self.norm = nn.Sequential(Block(WIDE), Block(WIDE)), nn.LayerNorm(WIDE)

    def forward(self, x, shown=None):
        x = self.patches(x).flatten(2).mT + self.where
        if shown is not None:
            x = x[:, shown]
        return self.norm(self.blocks(x))


class Tells(nn.Module):
    """What hidden patches are like, from the shown ones."""

    def __init__(self):
        super().__init__()
        self.narrow, self.asks = nn.Linear(WIDE, NARROW), nn.Parameter(0.02 * torch.randn(NARROW))
        self.register_buffer("where", places(NARROW))
        self.block, self.norm = Block(NARROW), nn.LayerNorm(NARROW)
        self.wide = nn.Linear(NARROW, WIDE)

    def forward(self, x, shown, hidden):
        x = self.narrow(x) + self.where[shown]
        asks = (self.asks + self.where[hidden]).expand(len(x), -1, -1)
        x = self.norm(self.block(torch.cat([x, asks], dim=1)))
        return self.wide(x[:, -len(hidden) :])


def blocks(generator):
    """Which patches are hidden: a rectangle; and which are shown: most of the others."""
    high, wide = torch.randint(2, 4, (2,), generator=generator).tolist()
    down = torch.randint(0, GRID - high + 1, (1,), generator=generator).item()
    right = torch.randint(0, GRID - wide + 1, (1,), generator=generator).item()
    inside = torch.zeros(GRID, GRID, dtype=torch.bool)
    inside[down : down + high, right : right + wide] = True
    kept = torch.rand(GRID, GRID, generator=generator) < 0.8
    return (~inside & kept).flatten().nonzero().squeeze(1), inside.flatten().nonzero().squeeze(1)


def pictures(generator):
    """Waves that go some way, whose colours change."""
    turn = 2 * math.pi * torch.rand(BATCH, 1, 1, generator=generator)
    at = torch.arange(SIDE) / 4
    wave = turn.cos() * at + turn.sin() * at.unsqueeze(1)
    colours = torch.randn(BATCH, 3, 1, 1, generator=generator)
    x = colours * torch.sin(wave + 3 * torch.rand(BATCH, 1, 1, generator=generator)).unsqueeze(1)
    return x + 0.2 * torch.randn(x.shape, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1217)
model = nn.ModuleDict({"sees": Sees(), "tells": Tells()})
# model built
slow = copy.deepcopy(model["sees"]).requires_grad_(False)
decayed = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "grows": True}, {"params": rest, "weight_decay": 0.0, "grows": False}],
    lr=2e-3, betas=(0.9, 0.95), foreach=False,
)  # fmt: skip
generator = torch.Generator().manual_seed(12117)
for step in range(STEPS):
    done = step / TOTAL
    for group in optimizer.param_groups:
        group["lr"] = 2e-3 * (1 + math.cos(math.pi * done)) / 2
        if group["grows"]:
            group["weight_decay"] = 0.4 - 0.36 * (1 + math.cos(math.pi * done)) / 2
    x = pictures(generator)
    shown, hidden = blocks(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        with torch.no_grad():
            wanted = F.layer_norm(slow(x).float(), (WIDE,))[:, hidden]
        told = model["tells"](model["sees"](x, shown), shown, hidden)
    loss = F.smooth_l1_loss(told.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    keeps = 0.9 + 0.1 * done
    with torch.no_grad():
        for p, new in zip(slow.parameters(), model["sees"].parameters()):
            p.mul_(keeps).add_(new, alpha=1 - keeps)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.double().abs().sum().item() for p in [*model.parameters(), *slow.parameters()]))
