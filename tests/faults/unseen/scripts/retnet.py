# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""RetNet: retention with a decay of each head, turned positions, group norms of heads, and gates."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
WORDS, WIDTH, HEADS = 64, 32, 4


def turned(x):
    half = x.shape[-1] // 2
    rates = 10000.0 ** -(torch.arange(half).float() / half)
    angles = torch.arange(x.shape[-2])[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Retention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.gate, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.GroupNorm(HEADS, WIDTH)
        self.register_buffer("decay", torch.log(1 - 2.0 ** (-3 - torch.arange(HEADS).float())))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        places = torch.arange(x.shape[1])
        apart = (places[:, None] - places).float()
        kept = torch.exp(apart * self.decay.float()[:, None, None]).masked_fill(apart < 0, 0.0)
        kept = kept / kept.sum(-1, keepdim=True).sqrt()
        k = k * (WIDTH // HEADS) ** -0.5
        scores = turned(q) @ turned(k).transpose(-2, -1) * kept.to(x.dtype)
        scores = scores / scores.detach().float().sum(-1, keepdim=True).abs().clamp(min=1).to(x.dtype)
        h = (scores @ v).transpose(1, 2).flatten(2)
        h = self.norm(h.flatten(0, 1)).view_as(h)
        return self.out(F.silu(self.gate(x)) * h)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.retention = Retention()
        self.up, self.gate, self.down = (
            nn.Linear(WIDTH, 48, bias=False),
            nn.Linear(WIDTH, 48, bias=False),
            nn.Linear(48, WIDTH, bias=False),
        )

    def forward(self, x):
        x = x + self.retention(self.norm1(x))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class RetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


torch.set_num_threads(1)
torch.manual_seed(34)
model = RetNet().to(DTYPE)
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
generator = torch.Generator().manual_seed(830)
for step in range(3):
    ids = torch.randint(WORDS, (4, 21), generator=generator)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
