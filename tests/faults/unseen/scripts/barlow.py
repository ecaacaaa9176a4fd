# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two views of a picture shall be one, and features tell nothing of each other; learnt by LARS."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
APART = 0.02


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.skip = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


class Twins(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.backbone = nn.Sequential(
            Residual(3, 16, 2), Residual(16, 24, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.projector = nn.Sequential(
            nn.Linear(24, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width, bias=False),
        )
        self.norm = nn.BatchNorm1d(width, affine=False)

    def forward(self, a, b):
        za, zb = self.norm(self.projector(self.backbone(a))), self.norm(self.projector(self.backbone(b)))
        alike = za.float().T @ zb.float() / len(a)
        on = (alike.diagonal() - 1).square().sum()
        off = (alike - torch.diag(alike.diagonal())).square().sum()
        return on + APART * off


class LARS(torch.optim.Optimizer):
    """The rate of each weight follows its size; biases and norms have none of it, and no decay."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-4, trust=0.01):
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                update = p.grad
                if p.ndim > 1:
                    update = update + group["weight_decay"] * p
                    size, slope = p.norm(), update.norm()
                    ratio = torch.where(size > 0, group["trust"] * size / (slope + 1e-9), 1.0)
                    update = update * ratio
                kept = self.state[p].setdefault("momentum", torch.zeros_like(p))
                kept.mul_(group["momentum"]).add_(update)
                p.add_(kept, alpha=-group["lr"])


def views(generator, count=24):
    x = torch.randn(count, 3, 4, 4, generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3)
    found = []
    for _ in range(2):
        noisy = x + 0.3 * torch.randn(x.shape, generator=generator)
        is_turned = torch.rand(count, 1, 1, 1, generator=generator) < 0.5
        found.append(torch.where(is_turned, noisy.flip(3), noisy))
    return found


torch.set_num_threads(1)
torch.manual_seed(512)
model = Twins()
# model built
optimizer = LARS(model.parameters(), lr=0.5)
generator = torch.Generator().manual_seed(12)
for step in range(3):
    for group in optimizer.param_groups:
        group["lr"] = 0.5 * min(1.0, (step + 1) / 2)
    a, b = views(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = model(a, b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
