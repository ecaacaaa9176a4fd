# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A diagonal state space: long convolutions by Fourier transforms, with kernels of complex states."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, STATES, LENGTH = 16, 8, 48


class Kernel(nn.Module):
    """What each channel remembers of an input that many places ago."""

    def __init__(self):
        super().__init__()
        low, high = math.log(0.01), math.log(0.2)
        self.log_step = nn.Parameter(torch.rand(WIDTH) * (high - low) + low)
        self.log_real = nn.Parameter(torch.full((WIDTH, STATES), math.log(0.5)))
        self.imaginary = nn.Parameter(math.pi * torch.arange(STATES).repeat(WIDTH, 1))
        self.out = nn.Parameter(torch.randn(WIDTH, STATES, 2) * 0.5**0.5)

    def discrete(self):
        """States and what is read of them, held from place to place."""
        a = torch.complex(-self.log_real.exp(), self.imaginary)
        moved = a * self.log_step.exp()[:, None]
        return moved, torch.view_as_complex(self.out) * (moved.exp() - 1) / a

    def forward(self, length):
        moved, read = self.discrete()
        powers = torch.exp(moved.unsqueeze(-1) * torch.arange(length))
        return 2 * torch.einsum("hn,hnl->hl", read, powers).real


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.kernel = Kernel()
        self.skip = nn.Parameter(torch.randn(WIDTH))
        self.out = nn.Linear(WIDTH, 2 * WIDTH)

    def convolved(self, u):
        length = u.shape[-1]
        kernel = torch.fft.rfft(self.kernel(length), n=2 * length)
        return torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * kernel, n=2 * length)[..., :length]

    def forward(self, x):
        u = self.norm(x).float().transpose(1, 2)
        y = self.convolved(u) + u * self.skip[:, None]
        return x + F.glu(self.out(F.gelu(y).transpose(1, 2)), dim=-1)


class S4D(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(2, WIDTH)
        self.layers = nn.Sequential(Layer(), Layer())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.lift(x))).mean(dim=1))


def batch(generator):
    """A wave, and where it is to be remembered; the answer is how high it was there."""
    x = torch.randn(16, LENGTH, generator=generator).cumsum(1) / 4
    at = torch.randint(LENGTH, (16,), generator=generator)
    marks = F.one_hot(at, LENGTH).float()
    return torch.stack([x, marks], -1), torch.bucketize((x * marks).sum(1), torch.tensor([-0.7, 0.0, 0.7]))


torch.set_num_threads(1)
torch.manual_seed(610)
model = S4D()
# model built
slow = [p for name, p in model.named_parameters() if "log_" in name or "imaginary" in name]
rest = [p for name, p in model.named_parameters() if "log_" not in name and "imaginary" not in name]
groups = [{"params": rest, "weight_decay": 0.05}, {"params": slow, "lr": 1e-3, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=4e-3, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
generator = torch.Generator().manual_seed(70)
for step in range(3):
    x, wanted = batch(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
