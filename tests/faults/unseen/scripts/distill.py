# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Distillation: a small network learns from the soft answers and from a layer of a frozen large one."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
TEMPERATURE, SHARE = 3.0, 0.7


class Unit(nn.Module):
    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outer)

    def forward(self, x):
        return F.hardswish(self.norm(self.conv(x)))


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.third = Unit(3, width), Unit(width, width, 2), Unit(width, 2 * width, 2)
        self.head = nn.Linear(2 * width, 8)

    def forward(self, x):
        middle = self.second(self.first(x))
        return self.head(self.third(middle).mean((2, 3))), middle


torch.set_num_threads(1)
torch.manual_seed(35)
teacher = Network(24).to(DTYPE).eval().requires_grad_(False)
student, adapter = Network(8).to(DTYPE), nn.Conv2d(8, 24, 1).to(DTYPE)
# model built
trained = [*student.parameters(), *adapter.parameters()]
optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9, weight_decay=5e-4, foreach=False)
generator = torch.Generator().manual_seed(840)
for step in range(3):
    pictures = torch.randn(8, 3, 16, 16, generator=generator).to(DTYPE)
    wanted = torch.randint(8, (8,), generator=generator)
    with torch.no_grad():
        soft, deep = teacher(pictures)
    logits, middle = student(pictures)
    log_shares = F.log_softmax(logits.float() / TEMPERATURE, -1)
    alike = F.kl_div(log_shares, F.softmax(soft.float() / TEMPERATURE, -1), reduction="batchmean")
    loss = SHARE * TEMPERATURE**2 * alike + (1 - SHARE) * F.cross_entropy(logits.float(), wanted)
    loss = loss + 0.1 * F.mse_loss(adapter(middle).float(), deep.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in trained))
print("buffers", sum(b.double().abs().sum().item() for b in [*student.buffers(), *teacher.buffers()]))
