# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A set transformer: elements of sets of several sizes look at learned points, and these back at them."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

DTYPE = torch.float32
RECOMPUTE = False


class Look(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ELU(), nn.Linear(2 * width, width))

    def forward(self, x, y, outside=None):
        h = self.norm1(x + self.attend(x, y, y, key_padding_mask=outside, need_weights=False)[0])
        return self.norm2(h + self.mlp(h))


class Induced(nn.Module):
    def __init__(self, width=24, points=5):
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, width) * 0.5)
        self.inwards, self.outwards = Look(width), Look(width)

    def forward(self, x, outside):
        h = self.inwards(self.points.expand(len(x), -1, -1), x, outside)
        return self.outwards(x, h)


class Sets(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.start = nn.Linear(3, width)
        self.blocks = nn.ModuleList(Induced() for _ in range(2))
        self.head = nn.Linear(width, 4)

    def forward(self, x, outside):
        h = self.start(x)
        for block in self.blocks:
            h = checkpoint(block, h, outside, use_reentrant=False) if RECOMPUTE else block(h, outside)
        inside = (~outside)[..., None].to(h.dtype)
        return self.head((h * inside).sum(1) / inside.sum(1))


torch.set_num_threads(1)
torch.manual_seed(56)
model = Sets().to(DTYPE)
# model built
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(1050)
called = model
for step in range(3):
    sizes = torch.randint(4, 13, (6,), generator=generator)
    x = torch.randn(6, 12, 3, generator=generator).to(DTYPE)
    outside = torch.arange(12) >= sizes[:, None]
    wanted = torch.randint(4, (6,), generator=generator)
    optimizer.zero_grad()
    loss = F.cross_entropy(called(x, outside).float(), wanted)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
