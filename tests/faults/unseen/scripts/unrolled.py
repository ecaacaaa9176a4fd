# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Signals of few spikes, seen through few sums: steps of a solver are layers, which learn how to solve."""

import math
import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
LONG, SEEN, LAYERS, BATCH, SPIKES = 40, 20, 5, 24, 0.1


class Step(nn.Module):
    """Goes down the slope of what is not explained, then takes away what is small."""

    def __init__(self, sums):
        super().__init__()
        steep = torch.linalg.matrix_norm(sums, 2).square()
        self.back = nn.Parameter(sums.T / steep)
        self.small = nn.Parameter(torch.tensor(-3.0))
        self.gain = nn.Parameter(torch.ones(LONG))

    def forward(self, x, seen, sums):
        missing = seen - x @ sums.T
        x = x + self.gain * (missing @ self.back.T).float()
        least = F.softplus(self.small)
        return torch.sign(x) * F.relu(x.abs() - least)


class Solver(nn.Module):
    """Each step begins where the last two lead to."""

    def __init__(self, sums):
        super().__init__()
        self.register_buffer("sums", sums)
        self.steps = nn.ModuleList(Step(sums) for _ in range(LAYERS))

    def forward(self, seen):
        x = ahead = seen.new_zeros(len(seen), LONG)
        found, time = [], 1.0
        for step in self.steps:
            after = (1 + math.sqrt(1 + 4 * time**2)) / 2
            new = step(ahead, seen, self.sums)
            ahead = new + (time - 1) / after * (new - x)
            x, time = new, after
            found.append(x)
        return found


def signals(sums, generator):
    spikes = torch.rand(BATCH, LONG, generator=generator) < SPIKES
    x = spikes * torch.randn(BATCH, LONG, generator=generator)
    seen = x @ sums.T
    return x, seen + 0.02 * torch.randn(seen.shape, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1005)
sums = torch.randn(SEEN, LONG, generator=torch.Generator().manual_seed(5)) / math.sqrt(SEEN)
model = Solver(sums)
# model built
small = [p for p in model.parameters() if p.ndim == 0]
rest = [p for p in model.parameters() if p.ndim > 0]
optimizer = torch.optim.Adam([{"params": rest}, {"params": small, "lr": 2e-2}], lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    generator = torch.Generator().manual_seed(10500 + step)
    x, seen = signals(sums, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(seen)
    loss = sum(2.0 ** (1 - after) * F.mse_loss(guess, x) for after, guess in enumerate(found[::-1]))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
