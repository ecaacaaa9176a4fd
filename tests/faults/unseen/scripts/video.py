# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Video: convolutions in three dimensions, down and up again, with batch norms and dropped channels."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class Unit(nn.Module):
    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.space = nn.Conv3d(inner, outer, (1, 3, 3), (1, stride, stride), padding=(0, 1, 1), bias=False)
        self.time = nn.Conv3d(outer, outer, (3, 1, 1), padding=(1, 0, 0), bias=False)
        self.norm = nn.BatchNorm3d(outer)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.time(self.space(x))), 0.1)


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Unit(2, 8), Unit(8, 16, 2)
        self.excite = nn.Linear(16, 16)
        self.up = nn.ConvTranspose3d(16, 8, (1, 2, 2), (1, 2, 2))
        self.merge, self.head = Unit(16, 8), nn.Conv3d(8, 2, 1)

    def forward(self, x):
        fine = self.first(x)
        coarse = self.second(fine)
        coarse = coarse * torch.sigmoid(self.excite(coarse.mean((2, 3, 4))))[:, :, None, None, None]
        return self.head(self.merge(torch.cat([self.up(coarse), fine], 1)))


torch.set_num_threads(1)
torch.manual_seed(37)
model = Video()
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(860)
called = model
for step in range(3):
    frames = torch.randn(2, 2, 5, 12, 12, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        shown = called(frames[:, :, :-1])
    loss = F.l1_loss(shown.float(), frames[:, :, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
