# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Voices apart: an encoder of waves, dilated masks, and a loss that does not ask which voice is which."""

import itertools

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, BASES, VOICES, LONG, KERNEL = 16, 24, 2, 256, 8


class GlobalNorm(nn.Module):
    """Over all channels and all times of each sound."""

    def __init__(self, width):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(width, 1)), nn.Parameter(torch.zeros(width, 1))

    def forward(self, x):
        x = x.float()
        mean = x.mean((1, 2), keepdim=True)
        spread = (x - mean).square().mean((1, 2), keepdim=True)
        return (x - mean) * torch.rsqrt(spread + 1e-8) * self.gain + self.bias


class Block(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.up, self.first = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.PReLU()
        self.norm1, self.norm2 = GlobalNorm(2 * WIDTH), GlobalNorm(2 * WIDTH)
        self.along = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 3, padding=dilation, dilation=dilation, groups=2 * WIDTH)
        self.second = nn.PReLU()
        self.on, self.skip = nn.Conv1d(2 * WIDTH, WIDTH, 1), nn.Conv1d(2 * WIDTH, WIDTH, 1)

    def forward(self, x):
        h = self.norm1(self.first(self.up(x)))
        h = self.norm2(self.second(self.along(h)))
        return x + self.on(h), self.skip(h)


class Separator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv1d(1, BASES, KERNEL, stride=KERNEL // 2, bias=False)
        self.norm, self.lift = GlobalNorm(BASES), nn.Conv1d(BASES, WIDTH, 1)
        self.blocks = nn.ModuleList(Block(2**n) for n in range(3))
        self.act, self.masks = nn.PReLU(), nn.Conv1d(WIDTH, VOICES * BASES, 1)
        self.decode = nn.ConvTranspose1d(BASES, 1, KERNEL, stride=KERNEL // 2, bias=False)

    def forward(self, mixture):
        heard = F.relu(self.encode(mixture.unsqueeze(1)))
        x, skipped = self.lift(self.norm(heard)), 0.0
        for block in self.blocks:
            x, skip = block(x)
            skipped = skipped + skip
        masks = torch.sigmoid(self.masks(self.act(skipped))).unflatten(1, (VOICES, BASES))
        each = (masks * heard.unsqueeze(1)).flatten(0, 1)
        return self.decode(each).view(len(mixture), VOICES, -1)


def si_snr(found, wanted):
    """Decibels, whatever the loudness."""
    found = found - found.mean(-1, keepdim=True)
    wanted = wanted - wanted.mean(-1, keepdim=True)
    along = (found * wanted).sum(-1, keepdim=True) / (wanted.square().sum(-1, keepdim=True) + 1e-8) * wanted
    rest = found - along
    return 10 * torch.log10(along.square().sum(-1) / (rest.square().sum(-1) + 1e-8) + 1e-8)


def best_of(found, wanted):
    """The order of voices that fits best, for each sound."""
    each = si_snr(found.unsqueeze(2), wanted.unsqueeze(1))
    orders = itertools.permutations(range(VOICES))
    totals = [sum(each[:, n, m] for n, m in enumerate(order)) / VOICES for order in orders]
    return -torch.stack(totals, dim=1).amax(dim=1).mean()


torch.set_num_threads(1)
torch.manual_seed(717)
model = Separator()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5, foreach=False)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
generator = torch.Generator().manual_seed(717)
for step in range(3):
    pitch = 0.1 + torch.rand(6, VOICES, 1, generator=generator)
    voices = torch.sin(pitch * torch.arange(LONG)) + 0.1 * torch.randn(6, VOICES, LONG, generator=generator)
    voices = voices * (0.5 + torch.rand(6, VOICES, 1, generator=generator))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(voices.sum(1))
    loss = best_of(found.float(), voices)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step(loss.item())
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
