# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Detection as a set: queries find boxes, each true one is given to one of them, at the least cost of all."""

import itertools

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
CLASSES, QUERIES, WIDTH = 4, 5, 32


def corners(box):
    cx, cy, w, h = box.unbind(-1)
    return torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=-1)


def giou(a, b):
    """Of all pairs, (n, m)."""
    a, b = corners(a)[:, None], corners(b)[None]
    inner = (torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    outer = (torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    area_a, area_b = (a[..., 2:] - a[..., :2]).prod(-1), (b[..., 2:] - b[..., :2]).prod(-1)
    union = area_a + area_b - inner
    return inner / union - (outer - union) / outer


def assigned(cost):
    """The query of each true box: all are tried, as there are few."""
    every = torch.tensor(list(itertools.permutations(range(cost.shape[0]), cost.shape[1])))
    return every[cost[every, torch.arange(cost.shape[1])].sum(1).argmin()]


class DETR(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.Conv2d(16, WIDTH, 3, 2, 1),
            nn.ReLU(),
        )
        self.places = nn.Parameter(torch.randn(1, 16, WIDTH) * 0.1)
        self.queries = nn.Parameter(torch.randn(1, QUERIES, WIDTH))
        self.transformer = nn.Transformer(WIDTH, 4, 1, 2, 64, dropout=0.0, batch_first=True)
        self.label = nn.Linear(WIDTH, CLASSES + 1)
        self.box = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def forward(self, images):
        memory = self.backbone(images).flatten(2).transpose(1, 2) + self.places
        h = self.transformer(memory, self.queries.expand(len(images), -1, -1))
        return self.label(h).float(), self.box(h).float().sigmoid()


class Criterion(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.ones(CLASSES + 1)
        weight[-1] = 0.1
        self.register_buffer("weight", weight)

    def forward(self, logits, boxes, targets):
        wanted = torch.full(logits.shape[:2], CLASSES)
        distance, overlap = torch.zeros(()), torch.zeros(())
        for n, (labels, truth) in enumerate(targets):
            with torch.no_grad():
                cost = 5 * torch.cdist(boxes[n], truth, p=1) - 2 * giou(boxes[n], truth)
                cost = cost - logits[n].softmax(-1)[:, labels]
            rows = assigned(cost)
            wanted[n, rows] = labels
            distance = distance + (boxes[n, rows] - truth).abs().sum()
            overlap = overlap + (1 - giou(boxes[n, rows], truth).diagonal()).sum()
        count = sum(len(labels) for labels, _ in targets)
        classes = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), self.weight)
        return classes + 5 * distance / count + 2 * overlap / count


torch.set_num_threads(1)
torch.manual_seed(504)
model, criterion = DETR(), Criterion()
# model built
rest = [p for name, p in model.named_parameters() if not name.startswith("backbone")]
groups = [{"params": list(model.backbone.parameters()), "lr": 1e-4}, {"params": rest}]
optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=1e-4, foreach=False)
generator = torch.Generator().manual_seed(4)
for step in range(3):
    images = torch.randn(4, 3, 16, 16, generator=generator)
    targets = []
    for count in (2, 3, 1, 2):
        sizes = torch.rand(count, 4, generator=generator) * 0.4 + 0.2
        targets.append((torch.randint(CLASSES, (count,), generator=generator), sizes))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, boxes = model(images)
    loss = criterion(logits, boxes, targets)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
