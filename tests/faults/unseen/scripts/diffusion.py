# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A diffusion model: a U-Net with group norms and attention learns to see the noise in small pictures."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

WIDTH, STEPS = 16, 3


class Residual(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inner), nn.GroupNorm(4, outer)
        self.conv1, self.conv2 = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.time = nn.Linear(4 * WIDTH, outer)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).flatten(2).chunk(3, 1)
        weights = torch.softmax(q.transpose(1, 2) @ k * q.shape[1] ** -0.5, -1)
        return x + self.out((v @ weights.transpose(1, 2)).view_as(x))


class TimeEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, 4 * WIDTH)

    def forward(self, t):
        half = WIDTH // 2
        frequencies = torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
        angles = t[:, None].float() * frequencies
        return self.out(F.silu(self.up(torch.cat([angles.sin(), angles.cos()], 1))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = TimeEmbedding()
        self.stem = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down1 = Residual(WIDTH, WIDTH)
        self.pool = nn.Conv2d(WIDTH, WIDTH, 3, 2, padding=1)
        self.down2 = Residual(WIDTH, 2 * WIDTH)
        self.attention = Attention(2 * WIDTH)
        self.middle = Residual(2 * WIDTH, 2 * WIDTH)
        self.up = Residual(3 * WIDTH, WIDTH)
        self.norm, self.head = nn.GroupNorm(4, WIDTH), nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x, t):
        time = self.time(t)
        first = self.down1(self.stem(x), time)
        h = self.middle(self.attention(self.down2(self.pool(first), time)), time)
        h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        return self.head(F.silu(self.norm(self.up(torch.cat([h, first], 1), time))))


torch.set_num_threads(1)
torch.manual_seed(3)
model = UNet()
ema = {name: value.detach().clone() for name, value in model.named_parameters()}
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
generator = torch.Generator().manual_seed(11)
called = model
for step in range(STEPS):
    pictures = torch.randn(4, 3, 16, 16, generator=generator).clamp(-1, 1)
    noise = torch.randn(4, 3, 16, 16, generator=generator)
    t = torch.randint(1, 100, (4,), generator=generator)
    share = alpha_bar[t][:, None, None, None]
    noised = share.sqrt() * pictures + (1 - share).sqrt() * noise
    loss = F.mse_loss(called(noised, t), noise)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for name, value in model.named_parameters():
            ema[name].lerp_(value, 0.1)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
