# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A rectified flow by a diffusion transformer: time and class modulate each block; an average is kept."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

AUTOCAST, RECOMPUTE = False, False
WIDTH, HEADS, PATCH, CLASSES = 32, 4, 2, 5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(approximate="tanh"), nn.Linear(64, WIDTH))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))
        nn.init.normal_(self.modulation[1].weight, std=0.05)

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).flatten(2))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c).unsqueeze(1).chunk(6, dim=-1)
        x = x + gate1 * self.attend(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    def __init__(self, size=8, channels=3):
        super().__init__()
        self.patches = nn.Conv2d(channels, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(torch.randn(1, (size // PATCH) ** 2, WIDTH) * 0.02)
        self.time = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.classes = nn.Embedding(CLASSES + 1, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, PATCH * PATCH * channels)

    @staticmethod
    def waves(t):
        rates = torch.exp(-math.log(10000) * torch.arange(WIDTH // 2) / (WIDTH // 2))
        phase = 1000 * t[:, None] * rates
        return torch.cat([phase.cos(), phase.sin()], dim=-1)

    def forward(self, x, t, label):
        c = self.time(self.waves(t)) + self.classes(label)
        h = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            h = checkpoint(block, h, c, use_reentrant=False) if RECOMPUTE else block(h, c)
        h = self.out(self.norm(h)).transpose(1, 2)
        side = x.shape[-1] // PATCH
        return F.pixel_shuffle(h.unflatten(2, (side, side)), PATCH)


torch.set_num_threads(1)
torch.manual_seed(502)
net = DiT()
# model built
average = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, foreach=False)
generator = torch.Generator().manual_seed(2)
for step in range(3):
    images = torch.randn(6, 3, 8, 8, generator=generator).cumsum(-1) * 0.3
    label = torch.randint(CLASSES, (6,), generator=generator)
    label = label.masked_fill(torch.rand(6, generator=generator) < 0.2, CLASSES)
    noise = torch.randn(images.shape, generator=generator)
    t = torch.sigmoid(torch.randn(6, generator=generator))
    mixed = torch.lerp(images, noise, t.view(-1, 1, 1, 1))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        velocity = net(mixed, t, label)
    loss = F.mse_loss(velocity.float(), noise - images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for kept, now in zip(average.parameters(), net.parameters()):
            kept.lerp_(now, 1 - 0.9)
    print(f"step {step} loss {loss.item()!r}")
both = (net, average)
print("weights", *(sum(p.detach().double().abs().sum().item() for p in m.parameters()) for m in both))
