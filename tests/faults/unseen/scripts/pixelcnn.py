# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures, point by point: kernels that see what is above and left, gates, mixtures of logistic steps."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

AUTOCAST = False
WIDTH, LEVELS, PARTS, SIDE, KEEP = 16, 16, 3, 8, 0.9


class MaskedConv(nn.Conv2d):
    """Of the point itself only what is known already: nothing in the first layer."""

    def __init__(self, before, after, size, sees_itself):
        super().__init__(before, after, size, padding=size // 2)
        mask = torch.ones(size, size)
        mask[size // 2, size // 2 + int(sees_itself) :] = 0
        mask[size // 2 + 1 :] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = MaskedConv(WIDTH, 2 * WIDTH, 3, sees_itself=True)
        self.mix = weight_norm(nn.Conv2d(WIDTH, WIDTH, 1))

    def forward(self, x):
        value, gate = self.conv(F.elu(x)).chunk(2, dim=1)
        return x + self.mix(torch.tanh(value) * torch.sigmoid(gate))


class PixelCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = MaskedConv(1, WIDTH, 5, sees_itself=False)
        self.blocks = nn.Sequential(Gated(), Gated())
        self.out = nn.Conv2d(WIDTH, 3 * PARTS, 1)

    def forward(self, x):
        return self.out(F.elu(self.blocks(self.first(x))))


def lost(found, x):
    """Of a mixture of logistic distributions between half a level below and above; the ends are open."""
    shares, means, log_sizes = found.float().chunk(3, dim=1)
    inverse = torch.exp(-log_sizes.clamp(min=-5.0))
    half = 1 / (LEVELS - 1)
    above = torch.sigmoid((x - means + half) * inverse)
    below = torch.sigmoid((x - means - half) * inverse)
    above = torch.where(x > 0.999, torch.ones_like(above), above)
    below = torch.where(x < -0.999, torch.zeros_like(below), below)
    logs = torch.log((above - below).clamp(min=1e-10))
    return -torch.logsumexp(shares.log_softmax(dim=1) + logs, dim=1).mean()


def pictures(generator):
    x = F.avg_pool2d(torch.randn(12, 1, SIDE + 2, SIDE + 2, generator=generator), 3, 1) * 3
    return 2 * ((x.sigmoid() * LEVELS).floor().clamp(max=LEVELS - 1) / (LEVELS - 1)) - 1


torch.set_num_threads(1)
torch.manual_seed(810)
model = PixelCNN()
average = copy.deepcopy(model).requires_grad_(False)
# model built
optimizer = torch.optim.NAdam(model.parameters(), lr=4e-3, foreach=False)
generator = torch.Generator().manual_seed(810)
for step in range(4):
    x = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = lost(found, x)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters()):
            slow.mul_(KEEP).add_(fast, alpha=1 - KEEP)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            found = average(x)
    print(f"step {step} loss {loss.item()!r} {lost(found, x).item()!r}")
every = [*model.parameters(), *average.parameters()]
print("weights", sum(p.detach().double().abs().sum().item() for p in every))
