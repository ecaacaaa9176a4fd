# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A detector: a pyramid of features, focal loss of classes, and boxes against anchors."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
CLASSES, GAMMA, ALPHA = 4, 2.0, 0.25


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 2, padding=1), nn.GroupNorm(3, 12), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(12, 24, 3, 2, padding=1), nn.GroupNorm(4, 24), nn.ReLU())
        self.side1, self.side2 = nn.Conv2d(12, 16, 1), nn.Conv2d(24, 16, 1)
        self.smooth = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x):
        fine = self.stem(x)
        coarse = self.side2(self.deep(fine))
        fine = self.side1(fine) + F.interpolate(coarse, scale_factor=2, mode="nearest")
        return self.smooth(fine), coarse


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.tower = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.classes, self.boxes = nn.Conv2d(16, CLASSES, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)
        nn.init.constant_(self.classes.bias, -2.0)

    def forward(self, x):
        classes, boxes = [], []
        for level in self.backbone(x):
            h = self.tower(level)
            classes.append(self.classes(h).flatten(2))
            boxes.append(self.boxes(h).flatten(2))
        return torch.cat(classes, 2).transpose(1, 2), torch.cat(boxes, 2).transpose(1, 2)


def focal(logits, truth):
    shares = torch.sigmoid(logits)
    right = shares * truth + (1 - shares) * (1 - truth)
    weight = ALPHA * truth + (1 - ALPHA) * (1 - truth)
    plain = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    return (weight * (1 - right) ** GAMMA * plain).sum()


torch.set_num_threads(1)
torch.manual_seed(36)
model = Detector()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3, foreach=False)
generator = torch.Generator().manual_seed(850)
called = model
for step in range(3):
    pictures = torch.randn(4, 3, 16, 16, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, boxes = called(pictures)
    logits, boxes = logits.float(), boxes.float()
    labels = torch.randint(-12, CLASSES, logits.shape[:2], generator=generator)
    truth = F.one_hot(labels.clamp(min=-1) + 1, CLASSES + 1)[..., 1:].float()
    wanted = torch.randn(boxes.shape, generator=generator)
    found = labels >= 0
    count = found.sum().clamp(min=1)
    of_boxes = F.smooth_l1_loss(boxes[found], wanted[found], reduction="sum", beta=0.11)
    loss = (focal(logits, truth) + of_boxes) / count
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
