# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Perceiver: a few learnt latents look at a long input, then at each other, several times."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE, FUSED_ATTENTION = torch.float32, False
WIDTH, HEADS = 32, 4


class Attention(nn.Module):
    def __init__(self, of_keys):
        super().__init__()
        self.norm_query, self.norm_key = nn.LayerNorm(WIDTH), nn.LayerNorm(of_keys)
        self.query, self.key_value = nn.Linear(WIDTH, WIDTH), nn.Linear(of_keys, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, source, outside=None):
        q = self.query(self.norm_query(x)).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        kv = self.key_value(self.norm_key(source)).unflatten(-1, (2, HEADS, -1))
        k, v = kv.permute(2, 0, 3, 1, 4)
        if FUSED_ATTENTION:
            inside = None if outside is None else ~outside[:, None, None]
            h = F.scaled_dot_product_attention(q, k, v, inside)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            if outside is not None:
                scores = scores.masked_fill(outside[:, None, None], torch.finfo(scores.dtype).min)
            h = scores.softmax(-1) @ v
        return x + self.out(h.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention(WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(approximate="tanh"), nn.Linear(64, WIDTH))

    def forward(self, x):
        x = self.attention(x, x)
        return x + self.mlp(self.norm(x))


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(6, WIDTH) * 0.2)
        self.places = nn.Parameter(torch.randn(30, 20) * 0.2)
        self.look = nn.ModuleList(Attention(20) for _ in range(2))
        self.think = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 9)

    def forward(self, x, outside):
        x = x + self.places
        h = self.latents.expand(len(x), -1, -1)
        for look, think in zip(self.look, self.think):
            h = think(look(h, x, outside))
        return self.head(h.mean(1))


torch.set_num_threads(1)
torch.manual_seed(39)
model = Perceiver().to(DTYPE)
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(880)
called = model
for step in range(3):
    signal = torch.randn(6, 30, 20, generator=generator).to(DTYPE)
    lengths = torch.randint(10, 31, (6,), generator=generator)
    outside = torch.arange(30) >= lengths[:, None]
    wanted = torch.randint(9, (6,), generator=generator)
    loss = F.cross_entropy(called(signal, outside).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
