# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A Fourier neural operator: complex weights of the lowest waves, beside convolutions of width one."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
STEPS, SAVE_AFTER, RESUME = 4, 1, ""


class Waves(nn.Module):
    def __init__(self, width, waves):
        super().__init__()
        self.waves = waves
        self.weight = nn.Parameter(torch.randn(width, width, waves, 2) / width)

    def forward(self, x):
        found = torch.fft.rfft(x.float())
        kept = torch.einsum("bix,iox->box", found[..., : self.waves], torch.view_as_complex(self.weight))
        kept = F.pad(kept, (0, found.shape[-1] - self.waves))
        return torch.fft.irfft(kept, n=x.shape[-1])


class Operator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.lift = nn.Conv1d(2, width, 1)
        self.waves = nn.ModuleList(Waves(width, 6) for _ in range(3))
        self.beside = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))
        self.head = nn.Sequential(nn.Conv1d(width, 24, 1), nn.GELU(), nn.Conv1d(24, 1, 1))

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[-1]).expand(len(x), 1, -1)
        h = self.lift(torch.cat([x, grid], 1))
        for waves, beside in zip(self.waves, self.beside):
            h = F.gelu(waves(h) + beside(h))
        return self.head(h)


torch.set_num_threads(1)
torch.manual_seed(54)
model = Operator()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    begin = saved["step"]
called = model
for step in range(begin, STEPS):
    generator = torch.Generator().manual_seed(1030 + step)
    x = torch.randn(6, 1, 32, generator=generator).cumsum(-1) * 0.3
    wanted = x.roll(3, -1) - 0.2 * x.square()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        y = called(x).float()
        loss = ((y - wanted).flatten(1).norm(dim=1) / wanted.flatten(1).norm(dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
