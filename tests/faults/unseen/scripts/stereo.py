# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far by two eyes: each place of one picture is compared with places further left in the other."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
HIGH, LONG, SHIFTS, WIDE, STEPS = 12, 24, 6, 8, 3


class Eye(nn.Module):
    """Both eyes are one network."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, WIDE, 3, padding=1, bias=False)
        self.second = nn.Conv2d(WIDE, WIDE, 3, padding=2, dilation=2, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(2, WIDE), nn.GroupNorm(2, WIDE)

    def forward(self, x):
        x = F.leaky_relu(self.norm1(self.first(x)), 0.1)
        return x + self.norm2(self.second(x))


class Regular(nn.Module):
    """Costs of neighbours, and of shifts that are nearly the same, belong together."""

    def __init__(self, before):
        super().__init__()
        self.first = nn.Conv3d(before, WIDE, 3, padding=1)
        self.second = nn.Conv3d(WIDE, WIDE, 3, padding=1)
        self.out = nn.Conv3d(WIDE, 1, 1)

    def forward(self, x):
        h = F.leaky_relu(self.first(x), 0.1)
        h = F.leaky_relu(h + self.second(h), 0.1)
        return h, self.out(h).float().squeeze(1)


class Stereo(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye, self.rough, self.fine = Eye(), Regular(WIDE), Regular(WIDE)

    def forward(self, left, right):
        """How far places moved, as two stages see it."""
        left, right = self.eye(left), self.eye(right)
        costs = left.new_zeros(len(left), WIDE, SHIFTS, HIGH, LONG)
        for shift in range(SHIFTS):
            costs[:, :, shift, :, shift:] = left[..., shift:] * right[..., : LONG - shift]
        h, rough = self.rough(costs)
        _, change = self.fine(h)
        return expected(rough), expected(rough + change)


def expected(costs):
    """A mean of all shifts, those of low cost above all."""
    likely = (-costs).softmax(dim=1)
    return (likely * torch.arange(SHIFTS).view(1, -1, 1, 1)).sum(1)


def eyes(generator):
    """What is near is moved further; where what is moved comes from outside, nothing is known."""
    right = torch.randn(4, 1, HIGH, LONG, generator=generator)
    right = F.avg_pool2d(right, 3, 1, 1) * 3
    near = torch.rand(4, HIGH // 4, LONG // 6, generator=generator) * (SHIFTS - 1)
    moved = near.repeat_interleave(4, dim=1).repeat_interleave(6, dim=2).round()
    source = torch.arange(LONG) - moved.long()
    left = right.squeeze(1).gather(2, source.clamp(min=0)).unsqueeze(1)
    return left + 0.05 * torch.randn(left.shape, generator=generator), right, moved, source >= 0


torch.set_num_threads(1)
torch.manual_seed(909)
model = Stereo()
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.2, total_iters=4)
generator = torch.Generator().manual_seed(99)
for step in range(STEPS):
    left, right, moved, known = eyes(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        rough, fine = model(left, right)
    each = 0.5 * F.smooth_l1_loss(rough, moved, reduction="none") + F.smooth_l1_loss(
        fine, moved, reduction="none"
    )
    loss = (each * known).sum() / known.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
