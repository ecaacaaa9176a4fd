# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Swin: attention in windows that are shifted by half in every second block, with biases of distance."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

AUTOCAST, RECOMPUTE = False, False
SIDE, WINDOW, HEADS = 8, 4, 2


class WindowAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.scale = (width // HEADS) ** -0.5
        self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, HEADS) * 0.2)
        at = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None] + WINDOW - 1
        self.register_buffer("index", apart[0] * (2 * WINDOW - 1) + apart[1])

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index].permute(2, 0, 1)
        scores = q * self.scale @ k.transpose(-2, -1) + bias
        if mask is not None:
            scores = (scores.unflatten(0, (-1, len(mask))) + mask[:, None]).flatten(0, 1)
        h = F.softmax(scores, -1) @ v
        return self.out(h.transpose(1, 2).flatten(2))


def windows_of(x):
    b, h, w, c = x.shape
    x = x.view(b, h // WINDOW, WINDOW, w // WINDOW, WINDOW, c)
    return x.transpose(2, 3).reshape(-1, WINDOW * WINDOW, c)


def whole_of(x):
    parts = SIDE // WINDOW
    x = x.view(-1, parts, parts, WINDOW, WINDOW, x.shape[-1])
    return x.transpose(2, 3).reshape(-1, SIDE, SIDE, x.shape[-1])


class Block(nn.Module):
    def __init__(self, width, shift):
        super().__init__()
        self.shift = shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        mask = None
        if shift:
            region = torch.zeros(1, SIDE, SIDE, 1)
            region[:, -shift:] += 1
            region[:, :, -shift:] += 2
            at = windows_of(region).squeeze(-1)
            mask = (at[:, None] != at[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask)

    def forward(self, x):
        h = self.norm1(x)
        if self.shift:
            h = torch.roll(h, (-self.shift, -self.shift), (1, 2))
        h = whole_of(self.attention(windows_of(h), self.mask))
        if self.shift:
            h = torch.roll(h, (self.shift, self.shift), (1, 2))
        x = x + h
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 2, 2), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, shift) for shift in (0, WINDOW // 2, 0, WINDOW // 2))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 5)

    def forward(self, x):
        x = self.norm(self.stem(x).permute(0, 2, 3, 1))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if RECOMPUTE else block(x)
        return self.head(self.last(x).mean((1, 2)))


torch.set_num_threads(1)
torch.manual_seed(27)
model = Swin()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, foreach=False)
generator = torch.Generator().manual_seed(760)
for step in range(3):
    pictures = torch.randn(4, 3, 16, 16, generator=generator)
    wanted = torch.randint(5, (4,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.cross_entropy(model(pictures).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
