# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures with a message that nobody sees, and that is still there when fine waves are gone."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, BLOCK, BITS, WIDE, BATCH, STEPS, SEEN, LEAK = 16, 8, 6, 16, 8, 4, 4.0, 0.1
KEPT = (20, 9)


class Block(nn.Sequential):
    def __init__(self, comes, goes):
        super().__init__(
            nn.Conv2d(comes, goes, 3, padding=1, bias=False), nn.GroupNorm(4, goes), nn.LeakyReLU(LEAK)
        )


class Hides(nn.Module):
    """Every place is told the whole message, and the picture again in the end."""

    def __init__(self):
        super().__init__()
        self.sees = nn.Sequential(Block(3, WIDE), Block(WIDE, WIDE))
        self.joins, self.paints = Block(WIDE + BITS + 3, WIDE), nn.Conv2d(WIDE, 3, 1)

    def forward(self, x, bits):
        spread = (2 * bits - 1).view(BATCH, BITS, 1, 1).expand(-1, -1, SIDE, SIDE)
        seen = self.joins(torch.cat([self.sees(x), spread, x], dim=1))
        return x + self.paints(seen).float()


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.sees = nn.Sequential(Block(3, WIDE), Block(WIDE, WIDE), Block(WIDE, BITS * 4))
        self.says = nn.Linear(BITS * 4, BITS)

    def forward(self, x):
        return self.says(self.sees(x).mean(dim=(2, 3))).float()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hides, self.reads = Hides(), Reads()
        self.register_buffer("waves", cosines())
        self.register_buffer("bright", torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1))

    def blurred(self, x):
        """Of each block and each colour the longest waves stay; of brightness more than of colour."""
        bright = (x * self.bright).sum(dim=1, keepdim=True)
        return kept(bright, self.waves, KEPT[0]) + kept(x - bright, self.waves, KEPT[1])

    def forward(self, x, bits, generator):
        marked = self.hides(x, bits)
        swapped = torch.rand(BATCH, 1, SIDE, SIDE, generator=generator) < 0.2
        found = self.reads(self.blurred(torch.where(swapped, x, marked)))
        return marked, found


def cosines():
    """Rows are waves, at right angles to each other, of length one."""
    at = torch.arange(BLOCK)
    waves = torch.cos(math.pi / BLOCK * (at + 0.5) * at.unsqueeze(1)) * (2 / BLOCK) ** 0.5
    waves[0] /= 2**0.5
    return waves


def kept(x, waves, many):
    """To waves, without the shortest, and back."""
    blocks = x.unflatten(2, (-1, BLOCK)).unflatten(4, (-1, BLOCK))
    found = torch.einsum("ui,vj,bcyixj->bcyuxv", waves, waves, blocks)
    order = (torch.arange(BLOCK) + torch.arange(BLOCK).unsqueeze(1)).flatten().argsort(stable=True)
    stays = torch.zeros(BLOCK * BLOCK).index_fill(0, order[:many], 1.0).view(BLOCK, 1, BLOCK)
    return torch.einsum("ui,vj,bcyuxv->bcyixj", waves, waves, found * stays).flatten(4, 5).flatten(2, 3)


def pictures(generator):
    """Smooth colours, and what is to be hidden in each."""
    x = F.interpolate(torch.randn(BATCH, 3, 4, 4, generator=generator), size=(SIDE, SIDE), mode="bicubic")
    x = (x + 0.1 * torch.randn(x.shape, generator=generator)).clamp(-2, 2)
    return x, (torch.rand(BATCH, BITS, generator=generator) < 0.5).float()


torch.set_num_threads(1)
torch.manual_seed(1511)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.5, 0.99), amsgrad=True, foreach=False)
generator = torch.Generator().manual_seed(15111)
for step in range(STEPS):
    x, bits = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        marked, found = model(x, bits, generator)
    missed = F.binary_cross_entropy_with_logits(found, bits)
    visible = F.mse_loss(marked, x)
    share = SEEN * min(1.0, (step + 1) / 3)
    optimizer.zero_grad()
    (missed + share * visible).backward()
    nn.utils.clip_grad_norm_(model.hides.parameters(), 0.5)
    nn.utils.clip_grad_norm_(model.reads.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {missed.item()!r} {visible.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
