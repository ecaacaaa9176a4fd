# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures as a photographer likes them: a grid over a small one says how colours of the large one change."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
HIGH, WIDE, SMALL, CELLS, DEPTH, CHANNELS, BATCH = 24, 32, 16, 4, 5, 12, 4


class Enhances(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, stride=2, padding=1)
        self.second = nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, stride=2, padding=1)
        self.near = nn.Conv2d(2 * CHANNELS, 2 * CHANNELS, 3, padding=1)
        self.far = nn.Linear(2 * CHANNELS, 2 * CHANNELS)
        self.grid = nn.Conv2d(2 * CHANNELS, 12 * DEPTH, 1)
        self.mixed, self.bent = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 1, 1)
        with torch.no_grad():
            self.mixed.weight.copy_(torch.eye(3)[..., None, None])
            self.bent.weight.fill_(1 / 3)

    def guide(self, x):
        """How bright each point counts, from 0 to 1."""
        return torch.sigmoid(4 * self.bent(self.mixed(x).clamp(min=0)).float() - 2)

    def cells(self, x):
        """(pictures, numbers of an affine map, brightness, rows, columns)"""
        x = F.interpolate(x, (SMALL, SMALL), mode="bilinear", align_corners=False, antialias=True)
        x = F.relu(self.second(F.relu(self.first(x))))
        x = F.relu(self.near(x) + self.far(x.mean((2, 3)))[..., None, None])
        return self.grid(x).float().unflatten(1, (12, DEPTH))

    def forward(self, x):
        guide = self.guide(x).squeeze(1)
        down = ((torch.arange(HIGH) + 0.5) / HIGH * 2 - 1).view(1, -1, 1).expand_as(guide)
        right = ((torch.arange(WIDE) + 0.5) / WIDE * 2 - 1).expand_as(guide)
        at = torch.stack([right, down, 2 * guide - 1], dim=-1).unsqueeze(1)
        read = F.grid_sample(self.cells(x), at, padding_mode="border", align_corners=False).squeeze(2)
        change, shift = read.unflatten(1, (3, 4)).split([3, 1], dim=2)
        return x + (change * x.unsqueeze(1)).sum(dim=2) + shift.squeeze(2)


def pictures(generator):
    """Dark ones that get lighter where they are dark, warmer at the top."""
    coarse = torch.rand(BATCH, 3, 5, 7, generator=generator)
    x = 0.8 * F.interpolate(coarse, (HIGH, WIDE), mode="bicubic", align_corners=False).clamp(0, 1)
    light = x.mean(dim=1, keepdim=True)
    warm = torch.linspace(0.2, 0.0, HIGH).view(1, 1, -1, 1) * torch.tensor([1.0, 0.0, -1.0]).view(1, 3, 1, 1)
    return x, x * (1.8 - light) + warm


def judged(said, wanted):
    """Colours, and how they change from point to point."""
    apart = said - wanted
    edges = apart.diff(dim=2).abs().mean() + apart.diff(dim=3).abs().mean()
    return (apart.square() + 1e-4).sqrt().mean() + 0.5 * edges


torch.set_num_threads(1)
torch.manual_seed(1220)
model = Enhances()
# model built
bent = [*model.mixed.parameters(), *model.bent.parameters()]
others = [p for p in model.parameters() if not any(p is other for other in bent)]
optimizer = torch.optim.NAdam([{"params": others}, {"params": bent, "lr": 2e-4}], lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.9)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    x, wanted = pictures(torch.Generator().manual_seed(12120 + step))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        said = model(x)
    loss = judged(said.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
