# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""FixMatch: what is surely seen in a picture is to be said of it shifted and cut, too; few labels."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, SURE, KEEP, TOTAL, FEW, MANY, WEIGHT = 4, 0.32, 0.9, 8, 6, 18, 1.0


class Wide(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(before, momentum=0.05), nn.BatchNorm2d(after, momentum=0.05)
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        h = F.leaky_relu(self.norm1(x), 0.1)
        return self.short(h) + self.second(F.leaky_relu(self.norm2(self.first(h)), 0.1))


def network():
    body = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), Wide(8, 16, 1), Wide(16, 24, 2), nn.BatchNorm2d(24)]
    head = [nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, KINDS)]
    return nn.Sequential(*body, *head)


def weak(x, g):
    return torch.where(torch.rand(len(x), 1, 1, 1, generator=g) < 0.5, x.flip(-1), x)


def strong(x, g):
    """Shifted by up to three points, of another contrast, and with a square cut out."""
    down, right = torch.randint(-3, 4, (2,), generator=g).tolist()
    x = weak(x, g).roll((down, right), dims=(2, 3))
    x = x * (0.5 + torch.rand(len(x), 1, 1, 1, generator=g))
    y = int(torch.randint(8, (), generator=g))
    x[:, :, y : y + 4, y : y + 4] = 0.0
    return x


def pictures(count, g):
    x = F.avg_pool2d(torch.randn(count, 3, 14, 14, generator=g), 3, 1) * 3
    return x, F.adaptive_avg_pool2d(x.mean(1), 2).flatten(1).argmax(1)


@torch.no_grad()
def follow(slow, fast):
    """Weights by an average; what norms have counted is taken as it is."""
    for ours, theirs in zip(slow.parameters(), fast.parameters()):
        ours.mul_(KEEP).add_(theirs, alpha=1 - KEEP)
    for ours, theirs in zip(slow.buffers(), fast.buffers()):
        ours.copy_(theirs)


torch.set_num_threads(1)
torch.manual_seed(813)
model = network()
average = copy.deepcopy(model).requires_grad_(False)
# model built
groups = [
    {"params": [p for p in model.parameters() if p.ndim > 1]},
    {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
]
optimizer = torch.optim.SGD(groups, lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: math.cos(7 * math.pi * at / (16 * TOTAL)))
generator = torch.Generator().manual_seed(813)
for step in range(3):
    x, wanted = pictures(FEW, generator)
    more, _ = pictures(MANY, generator)
    every = torch.cat([weak(x, generator), weak(more, generator), strong(more, generator)])
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        ours, plain, changed = model(every).float().split([FEW, MANY, MANY])
    sure, guessed = plain.detach().softmax(dim=-1).max(dim=-1)
    unlabelled = (F.cross_entropy(changed, guessed, reduction="none") * (sure >= SURE)).mean()
    loss = F.cross_entropy(ours, wanted) + WEIGHT * unlabelled
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    follow(average, model)
    average.eval()
    with torch.no_grad():
        lost = F.cross_entropy(average(x), wanted)
    print(f"step {step} loss {loss.item()!r} {lost.item()!r}")
every = [*model.parameters(), *average.parameters()]
print("weights", sum(p.detach().double().abs().sum().item() for p in every))
print("buffers", sum(b.double().abs().sum().item() for b in average.buffers()))
