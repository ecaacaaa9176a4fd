# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Faces: inverted residuals with squeezed channels, and a margin between the angles of people."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32


class Squeezed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        h = x.mean((2, 3), keepdim=True)
        return x * F.hardsigmoid(self.up(F.relu(self.down(h))))


class Inverted(nn.Module):
    def __init__(self, width, wide, stride):
        super().__init__()
        self.expand, self.norm1 = nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.each = nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False)
        self.norm2, self.squeezed = nn.BatchNorm2d(wide), Squeezed(wide)
        self.project, self.norm3 = nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)
        self.is_residual = stride == 1

    def forward(self, x):
        h = F.hardswish(self.norm1(self.expand(x)))
        h = self.squeezed(F.hardswish(self.norm2(self.each(h))))
        h = self.norm3(self.project(h))
        return x + h if self.is_residual else h


class Angles(nn.Module):
    def __init__(self, width, people, size=16.0, margin=0.3):
        super().__init__()
        self.size, self.margin = size, margin
        self.weight = nn.Parameter(torch.randn(people, width))

    def forward(self, x, who):
        cosine = F.linear(F.normalize(x.float()), F.normalize(self.weight.float())).clamp(-0.999, 0.999)
        apart = torch.cos(torch.acos(cosine) + self.margin)
        is_right = F.one_hot(who, len(self.weight)).bool()
        return self.size * torch.where(is_right, apart, cosine)


class Faces(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, 2, 1)
        self.blocks = nn.ModuleList([Inverted(12, 36, 1), Inverted(12, 36, 2), Inverted(12, 48, 1)])
        self.out, self.angles = nn.Linear(12 * 9, 16), Angles(16, 7)

    def forward(self, x, who):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.angles(self.out(h.flatten(1)), who)


torch.set_num_threads(1)
torch.manual_seed(65)
model = Faces().to(DTYPE)
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2], 0.3)
generator = torch.Generator().manual_seed(1140)
called = model
for step in range(3):
    x = torch.randn(10, 3, 12, 12, generator=generator).to(DTYPE)
    who = torch.randint(7, (10,), generator=generator)
    optimizer.zero_grad()
    loss = F.cross_entropy(called(x, who), who)
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
