# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Diffusion of words: a text is hidden word by word as time goes on, and is found again from any time."""

import torch
from torch import nn

AUTOCAST = False
VOCAB, MASK, LONG, BATCH, WIDE, HEADS, STEPS = 40, 0, 16, 16, 32, 4, 4
LEAST = 1e-3


class Block(nn.Module):
    """How much is hidden moves and scales what the norms give."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDE, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(WIDE, elementwise_affine=False)
        self.look = nn.MultiheadAttention(WIDE, HEADS, batch_first=True)
        self.think = nn.Sequential(nn.Linear(WIDE, 64), nn.GELU(approximate="tanh"), nn.Linear(64, WIDE))
        self.changes = nn.Linear(WIDE, 6 * WIDE)

    def forward(self, x, time):
        move1, scale1, gate1, move2, scale2, gate2 = self.changes(time).unsqueeze(1).chunk(6, dim=-1)
        h = self.norm1(x) * (1 + scale1) + move1
        x = x + gate1 * self.look(h, h, h, need_weights=False)[0]
        return x + gate2 * self.think(self.norm2(x) * (1 + scale2) + move2)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDE), nn.Embedding(LONG, WIDE)
        self.time = nn.Sequential(nn.Linear(8, WIDE), nn.SiLU(), nn.Linear(WIDE, WIDE), nn.SiLU())
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, VOCAB)

    def forward(self, ids, t):
        pitch = 2.0 ** torch.arange(4) * t.unsqueeze(1)
        time = self.time(torch.cat([pitch.sin(), pitch.cos()], dim=-1))
        x = self.words(ids) + self.places.weight
        for block in self.blocks:
            x = block(x, time)
        return self.out(self.norm(x)).float()


def texts(generator):
    begin, by = (torch.randint(1, 7, (BATCH, 1), generator=generator) for _ in range(2))
    ids = (begin + by * torch.arange(LONG)) % (VOCAB - 1) + 1
    wrong = torch.randint(1, VOCAB, ids.shape, generator=generator)
    return torch.where(torch.rand(ids.shape, generator=generator) < 0.1, wrong, ids)


def times(generator):
    """Spread evenly over the batch, from one that is drawn."""
    t = (torch.rand((), generator=generator) + torch.arange(BATCH) / BATCH) % 1
    return t * (1 - LEAST) + LEAST


def likely(logits, ids):
    """No word is hidden after it was found, and what is hidden stays a word."""
    logits[..., MASK] = -1e9
    return logits.log_softmax(dim=-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


torch.set_num_threads(1)
torch.manual_seed(912)
model = Denoiser()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), amsgrad=True, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=2e-4)
generator = torch.Generator().manual_seed(102)
for step in range(STEPS):
    ids, t = texts(generator), times(generator)
    hidden = torch.rand(ids.shape, generator=generator) < t[:, None]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids.masked_fill(hidden, MASK), t)
    lost = -likely(logits, ids) * hidden / t[:, None]
    loss = lost.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
