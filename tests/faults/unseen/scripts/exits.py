# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Early exits: each stage of a network of thin bottlenecks gives an answer, and learns from the last one."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, HEAT, STEPS = 8, 3.0, 4


class Bottleneck(nn.Module):
    """Wide inside, thin outside; what is added goes without an activation."""

    def __init__(self, before, after, stride):
        super().__init__()
        wide = 3 * before
        self.expand = nn.Sequential(nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6())
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()
        )
        self.thin = nn.Sequential(nn.Conv2d(wide, after, 1, bias=False), nn.BatchNorm2d(after))
        self.is_same = before == after and stride == 1

    def forward(self, x):
        y = self.thin(self.depth(self.expand(x)))
        return x + y if self.is_same else y


class Exits(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.stages = nn.ModuleList(
            [
                nn.Sequential(Bottleneck(8, 8, 1), Bottleneck(8, 12, 2)),
                nn.Sequential(Bottleneck(12, 12, 1), Bottleneck(12, 16, 2)),
                nn.Sequential(Bottleneck(16, 16, 1), Bottleneck(16, 24, 1)),
            ]
        )
        self.heads = nn.ModuleList(nn.Linear(size, KINDS) for size in (12, 16, 24))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x):
        x, answers = self.stem(x), []
        for stage, head in zip(self.stages, self.heads):
            x = stage(x)
            answers.append(head(x.mean((2, 3))))
        return answers


def agreement(ours, theirs):
    """What an early answer has to learn from the last, which does not move towards it."""
    soft = (theirs.detach() / HEAT).softmax(dim=-1)
    return F.kl_div((ours / HEAT).log_softmax(dim=-1), soft, reduction="batchmean") * HEAT**2


torch.set_num_threads(1)
torch.manual_seed(713)
model = Exits()
# model built
optimizer = torch.optim.RMSprop(
    model.parameters(), lr=2e-3, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=1e-5, foreach=False
)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
generator = torch.Generator().manual_seed(713)
for step in range(STEPS):
    x = F.avg_pool2d(torch.randn(10, 3, 14, 14, generator=generator), 3, 1) * 3
    wanted = (F.adaptive_avg_pool2d(x, 2).sum(1).flatten(1).argmax(1) * 2 + (x.mean((1, 2, 3)) > 0)).long()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        answers = [answer.float() for answer in model(x)]
    right = sum((n + 1) / len(answers) * F.cross_entropy(answer, wanted) for n, answer in enumerate(answers))
    alike = sum(agreement(answer, answers[-1]) for answer in answers[:-1])
    loss = right + 0.3 * alike
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
