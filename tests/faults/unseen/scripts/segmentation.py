# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Segmentation: dilated convolutions with batch norms at several rates, and a loss of overlaps."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

STEPS, SAVE_AFTER, RESUME = 3, 1, ""


def unit(inner, outer, stride=1, rate=1, size=3):
    padding = rate * (size // 2)
    conv = nn.Conv2d(inner, outer, size, stride, padding=padding, dilation=rate, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer), nn.ReLU(inplace=True))


class Pyramid(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.rates = nn.ModuleList(
            [unit(inner, outer, size=1), *(unit(inner, outer, rate=r) for r in (2, 3))]
        )
        self.whole = nn.Conv2d(inner, outer, 1)
        self.merge = unit(4 * outer, outer, size=1)

    def forward(self, x):
        whole = F.relu(self.whole(F.adaptive_avg_pool2d(x, 1))).expand(-1, -1, *x.shape[2:])
        return self.merge(torch.cat([*(rate(x) for rate in self.rates), whole], 1))


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.low = unit(3, 12, 2), unit(12, 16)
        self.deep = nn.Sequential(unit(16, 24, 2), unit(24, 24, rate=2))
        self.pyramid = Pyramid(24, 16)
        self.head = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        low = self.low(self.stem(x))
        deep = self.pyramid(self.deep(low))
        deep = F.interpolate(deep, size=low.shape[2:], mode="bilinear", align_corners=False)
        logits = self.head(torch.cat([deep, low], 1))
        return F.interpolate(logits, size=x.shape[2:], mode="bilinear", align_corners=False)


def overlap_loss(logits, wanted):
    shares = logits.softmax(1)
    truth = F.one_hot(wanted, 4).permute(0, 3, 1, 2).to(shares.dtype)
    both = (shares * truth).sum((0, 2, 3))
    return 1 - (2 * both / (shares.sum((0, 2, 3)) + truth.sum((0, 2, 3)) + 1e-6)).mean()


torch.set_num_threads(1)
torch.manual_seed(17)
model = Segmenter()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, 10, 0.9)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    begin = saved["step"]
called = model
for step in range(begin, STEPS):
    generator = torch.Generator().manual_seed(300 + step)
    pictures = torch.randn(4, 3, 32, 32, generator=generator)
    wanted = torch.randint(4, (4, 32, 32), generator=generator)
    logits = called(pictures)
    loss = F.cross_entropy(logits, wanted) + overlap_loss(logits, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step == SAVE_AFTER and "SAVE_TO" in os.environ:
        kept = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **kept}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
