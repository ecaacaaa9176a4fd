# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Points whose numbers are told one after the other: masks by degrees say who sees whom; several orders."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NUMBERS, WIDE, FLOWS, BATCH, STEPS, MOST = 6, 32, 3, 48, 4, 3.0


class Masked(nn.Linear):
    """A line whose weights are only there where degrees allow it."""

    def __init__(self, comes, goes, strict):
        super().__init__(len(comes), len(goes))
        allowed = goes.unsqueeze(1) > comes if strict else goes.unsqueeze(1) >= comes
        self.register_buffer("mask", allowed.float())

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)


class Flow(nn.Module):
    """Each number is moved and scaled as those before it say."""

    def __init__(self):
        super().__init__()
        inputs, hidden = torch.arange(NUMBERS), torch.arange(WIDE) % (NUMBERS - 1)
        self.one, self.two = Masked(inputs, hidden, strict=False), Masked(hidden, hidden, strict=False)
        self.says = Masked(hidden, inputs.repeat(2), strict=True)
        nn.init.normal_(self.says.weight, std=0.05)

    def forward(self, x):
        y = F.elu(self.one(x))
        y = y + F.elu(self.two(y))
        shift, log = self.says(y).float().chunk(2, dim=1)
        log = MOST * torch.tanh(log / MOST)
        return (x - shift) * torch.exp(-log), -log.sum(dim=1)


class Norm(nn.Module):
    """Numbers of a batch are made even, which counts as a scale, too."""

    def __init__(self):
        super().__init__()
        self.log, self.shift = nn.Parameter(torch.zeros(NUMBERS)), nn.Parameter(torch.zeros(NUMBERS))
        self.register_buffer("mean", torch.zeros(NUMBERS))
        self.register_buffer("var", torch.ones(NUMBERS))

    def forward(self, x):
        mean, var = x.mean(dim=0), x.var(dim=0, unbiased=False) + 1e-4
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
            self.var.lerp_(var, 0.1)
        return (x - mean) / var.sqrt() * self.log.exp() + self.shift, (self.log - 0.5 * var.log()).sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.flows = nn.ModuleList(Flow() for _ in range(FLOWS))
        self.norms = nn.ModuleList(Norm() for _ in range(FLOWS))

    def forward(self, x):
        logs = torch.zeros(len(x))
        for flow, norm in zip(self.flows, self.norms):
            x, log = flow(x)
            x, also = norm(x.flip(1))
            logs = logs + log + also
        return x, logs


def points(generator):
    """Each number bends with those before it."""
    x = [torch.randn(BATCH, generator=generator)]
    for at in range(1, NUMBERS):
        noise = 0.3 * torch.randn(BATCH, generator=generator)
        x.append(torch.sin(1.5 * x[-1]) + 0.5 * x[at // 2].square().clamp(max=3) + (0.5 + 0.2 * at) * noise)
    return torch.stack(x, dim=1)


torch.set_num_threads(1)
torch.manual_seed(1612)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS + 1, eta_min=1e-3)
generator = torch.Generator().manual_seed(16112)
for step in range(STEPS):
    x = points(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        z, logs = model(x)
    likely = -0.5 * (z.square() + math.log(2 * math.pi)).sum(dim=1) + logs
    loss = -likely.mean() / (NUMBERS * math.log(2))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
