# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Slots: a few vectors compete for the places of a picture, and each paints its part of it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIZE, SLOTS, WIDTH, ROUNDS = 10, 4, 24, 3
EPS = 1e-6


class Places(nn.Module):
    """How far each place is from each of the four borders."""

    def __init__(self):
        super().__init__()
        line = torch.linspace(0, 1, SIZE)
        rows, columns = torch.meshgrid(line, line, indexing="ij")
        self.register_buffer("grid", torch.stack([rows, columns, 1 - rows, 1 - columns], -1))
        self.lift = nn.Linear(4, WIDTH)

    def forward(self, x):
        return x + self.lift(self.grid)


class SlotAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.5)
        self.log_spread = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.norm_x, self.norm_slots, self.norm_mlp = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, drawn):
        x = self.norm_x(x)
        keys, values = self.k(x), self.v(x)
        slots = self.mean + self.log_spread.exp() * drawn
        for _ in range(ROUNDS):
            queries = self.q(self.norm_slots(slots))
            scores = torch.einsum("bsd,bnd->bsn", queries, keys).float() * WIDTH**-0.5
            shares = scores.softmax(dim=1) + EPS
            shares = shares / shares.sum(dim=2, keepdim=True)
            found = torch.einsum("bsn,bnd->bsd", shares.to(values.dtype), values)
            slots = self.cell(found.flatten(0, 1).float(), slots.flatten(0, 1)).view_as(slots)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, WIDTH, 5, padding=2), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 5, padding=2), nn.ReLU()
        )
        self.seen, self.painted = Places(), Places()
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.slots = SlotAttention()
        self.decoder = nn.Sequential(
            nn.Conv2d(WIDTH, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1)
        )

    def forward(self, pictures, drawn):
        x = self.seen(self.encoder(pictures).permute(0, 2, 3, 1)).flatten(1, 2)
        slots = self.slots(self.mlp(x), drawn)
        spread = slots.flatten(0, 1)[:, None, None].expand(-1, SIZE, SIZE, -1)
        out = self.decoder(self.painted(spread).permute(0, 3, 1, 2)).unflatten(0, (-1, SLOTS))
        colours, masks = out.float().split([3, 1], dim=2)
        return (colours * masks.softmax(dim=1)).sum(dim=1)


def scenes(generator):
    """Two squares of other colours."""
    pictures = torch.zeros(8, 3, SIZE, SIZE)
    for picture in pictures:
        for _ in range(2):
            row, column = torch.randint(SIZE - 3, (2,), generator=generator).tolist()
            picture[:, row : row + 4, column : column + 4] = torch.rand(3, 1, 1, generator=generator)
    return pictures


torch.set_num_threads(1)
torch.manual_seed(605)
model = Pictures()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.3, total_iters=2)
decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
generator = torch.Generator().manual_seed(65)
for step in range(3):
    pictures = scenes(generator)
    drawn = torch.randn(len(pictures), SLOTS, WIDTH, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        painted = model(pictures, drawn)
    loss = F.mse_loss(painted, pictures)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
