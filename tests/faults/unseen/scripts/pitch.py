# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How high a sound is, without labels: two windows of one spectrum differ by how they were shifted."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
BINS, SEEN, MOST, OCTAVE, BATCH, STEPS = 48, 32, 16, 12, 12, 4
BEND, AGAIN, SURE, PER_BIN = 0.01, 2.0, 0.2, 1 / 40


class Model(nn.Module):
    """A pitch from 0 to 1, how sure it is, and the window again, from the pitch alone."""

    def __init__(self):
        super().__init__()
        wide = (1, 12, 16, 24)
        self.layers = nn.ModuleList(
            nn.Conv1d(comes, goes, 3, padding=1, bias=False) for comes, goes in zip(wide, wide[1:])
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(goes) for goes in wide[1:])
        self.pitch = nn.Sequential(nn.Linear(96, 24), nn.ReLU(), nn.Linear(24, 1))
        self.sure = nn.Sequential(nn.Linear(96, 24), nn.ReLU(), nn.Linear(24, 1))
        self.draws = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, SEEN))

    def forward(self, x):
        x = x.unsqueeze(1)
        for layer, norm in zip(self.layers, self.norms):
            x = F.max_pool1d(F.relu(norm(layer(x))), 2)
        x = x.flatten(1)
        pitch, sure = torch.sigmoid(self.pitch(x).float()), torch.sigmoid(self.sure(x.detach()).float())
        return pitch.squeeze(1), sure.squeeze(1), F.softplus(self.draws(pitch).float())


def spectra(generator):
    """Harmonics on a scale of half tones, each weaker than the one before; some sounds are mostly hiss."""
    tone = 4 + 20 * torch.rand(BATCH, 1, generator=generator)
    at = torch.arange(BINS)
    x = torch.zeros(BATCH, BINS)
    for harmonic in range(1, 4):
        place = tone + OCTAVE * torch.tensor(float(harmonic)).log2()
        x = x + (-(at - place).square() / 1.5).exp() * 0.6 ** (harmonic - 1)
    hiss = torch.rand(BATCH, 1, generator=generator) ** 3
    return (1 - hiss) * x + hiss * 0.5 * torch.rand(BATCH, BINS, generator=generator)


def window(x, shift):
    """As much of each spectrum as is seen, from a place of its own on."""
    return x.gather(1, shift.unsqueeze(1) + torch.arange(SEEN))


torch.set_num_threads(1)
torch.manual_seed(1607)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.9, 0.98), eps=1e-7, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.6)
generator = torch.Generator().manual_seed(16107)
for step in range(STEPS):
    x = spectra(generator)
    one = torch.randint(0, MOST, (BATCH,), generator=generator)
    two = torch.randint(0, MOST, (BATCH,), generator=generator)
    windows = torch.cat([window(x, one), window(x, two)])
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        pitch, sure, drawn = model(windows)
    first, second = pitch.chunk(2)
    off = (first - second) - PER_BIN * (two - one)
    moved = F.huber_loss(off, torch.zeros(BATCH), reduction="none", delta=BEND) / BEND
    again = (drawn - windows).square().mean(dim=1)
    known = (off.detach().abs() / (PER_BIN * MOST)).clamp(max=1.0)
    known = (1 - known).repeat(2)
    loss = moved.mean() + AGAIN * again.mean() + SURE * (sure - known).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {moved.mean().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
