# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Spiking neurons: they leak, fire at a threshold and are set back; gradients go by a smooth stand-in."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class Fired(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient / (1 + 5 * x.abs()).square()


class Neurons(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)
        self.leak = nn.Parameter(torch.full((outer,), 1.5))

    def forward(self, spikes):
        charge, fired = torch.zeros(()), []
        for now in spikes:
            charge = torch.sigmoid(self.leak) * charge + self.linear(now)
            spike = Fired.apply(charge - 1)
            charge = charge - spike.detach()
            fired.append(spike)
        return torch.stack(fired)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden1, self.hidden2 = Neurons(20, 48), Neurons(48, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, spikes):
        return self.head(self.hidden2(self.hidden1(spikes))).mean(0)


torch.set_num_threads(1)
torch.manual_seed(67)
model = Net()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(1160)
called = model
for step in range(3):
    spikes = (torch.rand(8, 10, 20, generator=generator) < 0.5).float() * 2
    wanted = torch.randint(4, (10,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.cross_entropy(called(spikes).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
