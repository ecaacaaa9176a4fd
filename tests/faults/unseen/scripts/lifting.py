# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Waves that are learnt by lifting: even numbers tell odd ones, and are mended by what was left over."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
LONG, LEVELS, BATCH, SPARSE, SMALL, WIDE = 64, 3, 16, 0.05, 0.1, 8


class Step(nn.Module):
    """A small filter of neighbours, whose picture ends by mirrors."""

    def __init__(self, size):
        super().__init__()
        self.near = nn.Conv1d(1, WIDE, size, padding=size // 2, padding_mode="reflect")
        self.back = nn.Conv1d(WIDE, 1, 1)
        nn.init.normal_(self.back.weight, std=0.3)

    def forward(self, x):
        return self.back(F.softsign(self.near(x)))


class Level(nn.Module):
    def __init__(self):
        super().__init__()
        self.tells, self.mends = Step(3), Step(3)
        self.scale = nn.Parameter(torch.tensor(0.2))

    def forward(self, x):
        even, odd = x[..., ::2], x[..., 1::2]
        fine = odd - self.tells(even)
        rough = even + self.mends(fine)
        return rough * self.scale.exp(), fine * (-self.scale).exp()

    def inverse(self, rough, fine):
        rough, fine = rough * (-self.scale).exp(), fine * self.scale.exp()
        even = rough - self.mends(fine)
        odd = fine + self.tells(even)
        return torch.stack([even, odd], dim=-1).flatten(-2)


class Model(nn.Module):
    """What is fine and small is thrown away; what the rest makes of it is compared."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(Level() for _ in range(LEVELS))

    def forward(self, x):
        fines = []
        for level in self.levels:
            x, fine = level(x)
            fines.append(fine)
        kept = [F.softshrink(fine.float(), SMALL) for fine in fines]
        for level, fine in zip(reversed(self.levels), reversed(kept)):
            x = level.inverse(x, fine)
        return x.float(), [fine.float() for fine in fines]


def sounds(generator):
    """Waves, and steps at some places."""
    at = torch.arange(LONG) / LONG
    rate, begin = 3 * torch.rand(2, BATCH, 1, generator=generator)
    x = torch.sin(6.28 * rate * at + begin)
    where = torch.randint(8, LONG - 8, (BATCH, 1), generator=generator)
    x = x + torch.randn(BATCH, 1, generator=generator) * (torch.arange(LONG) > where)
    return (x + 0.02 * torch.randn(BATCH, LONG, generator=generator)).unsqueeze(1)


torch.set_num_threads(1)
torch.manual_seed(1307)
model = Model()
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2, betas=(0.8, 0.9), weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.95 if step % 2 else 0.8)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=False)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    x = sounds(torch.Generator().manual_seed(13107 + step))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        again, fines = model(x)
    wrong = (again - x).square().mean()
    many = sum(fine.abs().mean() * 2**-depth for depth, fine in enumerate(fines))
    optimizer.zero_grad()
    (wrong + SPARSE * many).backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {wrong.item()!r} {many.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
