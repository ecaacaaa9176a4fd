# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer: patches of pictures, mixed along places and along features in turn."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SMOOTHING = 0.1


class Mlp(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.along_places, self.along_features = Mlp(places, 2 * places), Mlp(width, 3 * width)

    def forward(self, x):
        x = x + self.along_places(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along_features(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.blocks = nn.Sequential(*(Block(16, 32) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 7)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


torch.set_num_threads(1)
torch.manual_seed(25)
model = Mixer()
# model built
decayed = [p for p in model.parameters() if p.ndim > 1]
others = [p for p in model.parameters() if p.ndim <= 1]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3, foreach=False)
generator = torch.Generator().manual_seed(740)
called = model
for step in range(3):
    pictures = torch.randn(8, 3, 16, 16, generator=generator)
    wanted = torch.randint(7, (8,), generator=generator)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.cross_entropy(called(pictures).float(), wanted, label_smoothing=SMOOTHING)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
