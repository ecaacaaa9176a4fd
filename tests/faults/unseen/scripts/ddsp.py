# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sounds of an instrument from how high and loud it is: harmonics and filtered noise, heard by spectra."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
RATE, FRAMES, HOP, TONES, BANDS, WIDE, BATCH, STEPS = 1600, 16, 32, 8, 9, 20, 4, 3


class Controls(nn.Module):
    """From frame to frame: how loud, which harmonics, which noise."""

    def __init__(self):
        super().__init__()
        self.high, self.loud = nn.Linear(1, WIDE), nn.Linear(1, WIDE)
        self.remembers = nn.GRU(2 * WIDE, WIDE, batch_first=True)
        self.after = nn.Sequential(nn.Linear(WIDE, WIDE), nn.LayerNorm(WIDE), nn.LeakyReLU())
        self.out = nn.Linear(WIDE, 1 + TONES + BANDS)

    def forward(self, pitch, loud):
        x = torch.cat([self.high(pitch.log2() / 10), self.loud(loud)], dim=-1)
        found = self.out(self.after(self.remembers(x)[0])).float()
        found = 2 * found.sigmoid() ** math.log(10) + 1e-7
        return found.split([1, TONES, BANDS], dim=-1)


def stretched(x):
    """From frames to samples, by lines between."""
    return F.interpolate(x.mT, scale_factor=HOP, mode="linear", align_corners=False).mT


def harmonics(pitch, whole, shares):
    """Sines of multiples of the pitch, none of which is too high to be heard."""
    high = pitch * torch.arange(1, TONES + 1)
    shares = shares * (high < RATE / 2)
    shares = whole * shares / shares.sum(dim=-1, keepdim=True)
    phase = 2 * math.pi * (stretched(pitch) / RATE).cumsum(dim=1)
    return (stretched(shares) * torch.sin(phase * torch.arange(1, TONES + 1))).sum(dim=-1)


def hiss(bands, noise):
    """Each frame of noise goes through a filter of its own."""
    taps = torch.fft.irfft(bands).roll(BANDS - 1, dims=-1) * torch.hann_window(2 * BANDS - 2)
    size = HOP + taps.shape[-1] - 1
    heard = torch.fft.irfft(torch.fft.rfft(noise, size) * torch.fft.rfft(taps, size), size)
    return F.fold(
        heard.mT, (1, (FRAMES - 1) * HOP + size), (1, size), stride=(1, HOP)
    ).flatten(1)[:, : FRAMES * HOP]  # fmt: skip


def apart(said, wanted):
    """Of short and long windows, as they are and as they are heard."""
    total = 0.0
    for size in (32, 64, 128):
        window = torch.hann_window(size)
        one, other = (
            torch.stft(x, size, size // 4, window=window, return_complex=True).abs() for x in (said, wanted)
        )
        total = total + F.l1_loss(one, other) + F.l1_loss((one + 1e-3).log(), (other + 1e-3).log())
    return total / 3


def tunes(generator):
    """A pitch that goes up or down, and a reed: odd harmonics that fade."""
    begin = 90 * 2 ** torch.rand(BATCH, 1, 1, generator=generator)
    bend = 0.5 * torch.rand(BATCH, 1, 1, generator=generator)
    pitch = begin * (1 + bend * torch.linspace(0, 1, FRAMES).view(1, -1, 1))
    loud = torch.rand(BATCH, FRAMES, 1, generator=generator).cumsum(dim=1) / FRAMES
    odd = (torch.arange(TONES) % 2 == 0) / torch.arange(1, TONES + 1)
    wanted = harmonics(pitch, loud, odd.expand(BATCH, FRAMES, -1))
    noise = 2 * torch.rand(BATCH, FRAMES, HOP, generator=generator) - 1
    return pitch, loud, noise, wanted + 0.02 * torch.randn(wanted.shape, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1214)
model = Controls()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.5, 0.9), eps=1e-6, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
generator = torch.Generator().manual_seed(12114)
for step in range(STEPS):
    pitch, loud, noise, wanted = tunes(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        whole, shares, bands = model(pitch, loud)
    said = harmonics(pitch, whole, shares) + 0.1 * hiss(bands, noise)
    loss = apart(said, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
