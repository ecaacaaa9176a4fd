# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A Conformer: half a step, attention, convolution, half a step; parts of time and of pitch are hidden."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

AUTOCAST = False
RECOMPUTE = False
BANDS, WIDTH, HEADS, SOUNDS, FRAMES, WARM = 16, 32, 4, 9, 48, 4


def half():
    return nn.Sequential(
        nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH)
    )


def called(part, x):
    return checkpoint(part, x, use_reentrant=False) if RECOMPUTE else part(x)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.along = nn.Conv1d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.batch, self.down = nn.BatchNorm1d(WIDTH), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x, outside):
        h = F.glu(self.up(self.norm(x).mT), dim=1).masked_fill(outside.unsqueeze(1), 0.0)
        return self.down(F.silu(self.batch(self.along(h)))).mT


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after, self.convolution = half(), half(), Convolution()
        self.heard = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, outside):
        x = x + 0.5 * called(self.before, x)
        h = self.heard(x)
        x = x + self.attention(h, h, h, key_padding_mask=outside, need_weights=False)[0]
        x = x + self.convolution(x, outside)
        return self.norm(x + 0.5 * called(self.after, x))


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fewer = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.lift = nn.Linear(4 * BANDS // 2, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.out = nn.Linear(WIDTH, SOUNDS)

    def forward(self, sound, sizes):
        x = self.lift(F.relu(self.fewer(sound.unsqueeze(1))).transpose(1, 2).flatten(2))
        outside = torch.arange(x.shape[1]) >= ((sizes + 1) // 2).unsqueeze(1)
        for block in self.blocks:
            x = block(x, outside)
        return self.out(x), outside


def hidden(sound, generator):
    """One stretch of time and one of bands, of each."""
    times, bands = torch.arange(FRAMES), torch.arange(BANDS)
    begins = torch.randint(FRAMES - 6, (len(sound), 1), generator=generator)
    lows = torch.randint(BANDS - 3, (len(sound), 1), generator=generator)
    in_time = (times >= begins) & (times < begins + 6)
    in_band = (bands >= lows) & (bands < lows + 3)
    return sound.masked_fill(in_time.unsqueeze(2) | in_band.unsqueeze(1), 0.0)


torch.set_num_threads(1)
torch.manual_seed(710)
model = Conformer()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, betas=(0.9, 0.98), eps=1e-9, foreach=False)
noam = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: WARM**0.5 * min((step + 1) ** -0.5, (step + 1) * WARM**-1.5)
)
generator = torch.Generator().manual_seed(710)
for step in range(3):
    wanted = torch.randint(SOUNDS, (6, FRAMES // 2), generator=generator)
    pitch = torch.arange(BANDS) - wanted.repeat_interleave(2, dim=1).unsqueeze(-1) * 1.6
    sound = torch.exp(-(pitch**2) / 6) + 0.3 * torch.randn(6, FRAMES, BANDS, generator=generator)
    sizes = torch.randint(FRAMES // 2, FRAMES + 1, (6,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, outside = model(hidden(sound, generator), sizes)
    wanted = wanted.masked_fill(outside, -100)
    loss = F.cross_entropy(logits.float().mT, wanted, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    noam.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
