# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reversible blocks: what the backward pass needs is computed back from the result, nothing is kept."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

BF16 = False
KEEP = False


class Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, f, g, *weights):
        ctx.f, ctx.g, ctx.weights = f, g, weights
        with torch.no_grad():
            x1, x2 = x.chunk(2, dim=1)
            y1 = x1 + f(x2)
            y2 = x2 + g(y1)
        y = torch.cat([y1, y2], dim=1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        y1, y2 = y.chunk(2, dim=1)
        dy1, dy2 = dy.chunk(2, dim=1)
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            gy1 = ctx.g(y1)
        own = tuple(ctx.g.parameters())
        d, *dg = torch.autograd.grad(gy1, (y1, *own), dy2)
        dx1 = dy1 + d
        with torch.no_grad():
            x2 = y2 - gy1
        with torch.enable_grad():
            x2 = x2.detach().requires_grad_()
            fx2 = ctx.f(x2)
        own = tuple(ctx.f.parameters())
        d, *df = torch.autograd.grad(fx2, (x2, *own), dx1)
        dx2 = dy2 + d
        return torch.cat([dx1, dx2], dim=1), None, None, *df, *dg


class Residual(nn.Sequential):
    def __init__(self, c):
        super().__init__(
            nn.GroupNorm(4, c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.GroupNorm(4, c)
        )


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f, self.g = Residual(c // 2), Residual(c // 2)

    def forward(self, x):
        if KEEP:
            x1, x2 = x.chunk(2, dim=1)
            y1 = x1 + self.f(x2)
            return torch.cat([y1, x2 + self.g(y1)], dim=1)
        return Reversible.apply(x, self.f, self.g, *self.f.parameters(), *self.g.parameters())


class RevNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.stage1 = nn.Sequential(Block(16), Block(16))
        self.down = nn.Conv2d(16, 32, 2, stride=2)
        self.stage2 = nn.Sequential(Block(32), Block(32))
        self.fc = nn.Linear(32, classes)

    def forward(self, x):
        x = self.stage1(self.stem(x))
        x = self.stage2(self.down(x))
        return self.fc(F.relu(x).mean((2, 3)))


torch.set_num_threads(1)
torch.manual_seed(412)
net = RevNet()
if BF16:
    net = net.bfloat16()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, foreach=False)
for step in range(3):
    torch.manual_seed(step)
    label = torch.arange(10) % 5
    images = torch.randn(10, 3, 10, 10) + label.view(-1, 1, 1, 1) * torch.linspace(0, 0.5, 10)
    loss = F.cross_entropy(net(images.bfloat16() if BF16 else images).float(), label, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))
