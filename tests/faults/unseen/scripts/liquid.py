# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Signals that are read now and then, for ever: cells whose state relaxes as long as nothing is read."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, UNITS, CHUNK, BATCH, STEPS, WORSE = 3, 24, 16, 10, 8, 4, 0.5


class Cell(nn.Module):
    """In closed form: from one thing to another, as fast as what is read says."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(SEEN + UNITS, WIDE)
        self.soon, self.late = nn.Linear(WIDE, UNITS), nn.Linear(WIDE, UNITS)
        self.speed, self.shift = nn.Linear(WIDE, UNITS), nn.Linear(WIDE, UNITS)

    def forward(self, x, state, gap):
        z = 1.7159 * torch.tanh(0.666 * self.trunk(torch.cat([x, state], dim=1)))
        soon, late = torch.tanh(self.soon(z)).float(), torch.tanh(self.late(z)).float()
        when = torch.sigmoid(self.speed(z).float() * gap + self.shift(z).float())
        return soon * (1 - when) + when * late


class Model(nn.Module):
    """Reads a chunk, from the state that the last one left, and tells what comes next, and how uncertain."""

    def __init__(self):
        super().__init__()
        self.cell, self.says = Cell(), nn.Linear(UNITS, 1)

    def forward(self, x, gaps, state, ends):
        told = []
        for at in range(CHUNK):
            state = state * (1 - ends[:, at : at + 1])
            state = self.cell(x[:, at], state, gaps[:, at : at + 1])
            told.append(self.says(state).float())
        return torch.cat(told, dim=1), state


class Stream:
    """Two waves that drift, at times that nobody chose; now and then another signal begins."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.time = torch.zeros(BATCH, 1)
        self.turn = torch.rand(BATCH, 2, generator=self.generator)

    def chunk(self):
        gaps = 0.1 + torch.rand(BATCH, CHUNK + 1, generator=self.generator)
        ends = (torch.rand(BATCH, CHUNK, generator=self.generator) < 0.05).float()
        times = self.time + gaps.cumsum(dim=1)
        self.time = times[:, CHUNK - 1 : CHUNK]
        slow, fast = (torch.sin((1 + self.turn[:, i : i + 1]) * (1 + 2 * i) * times) for i in (0, 1))
        y = slow + 0.5 * fast + 0.05 * torch.randn(times.shape, generator=self.generator)
        x = torch.stack([y[:, :-1], gaps[:, :-1], gaps[:, 1:]], dim=2)
        return x, gaps[:, :-1], ends, y[:, 1:]


torch.set_num_threads(1)
torch.manual_seed(1506)
model = Model()
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=1e-2, weight_decay=1e-3, foreach=False)
stream = Stream(15106)
state = torch.zeros(BATCH, UNITS)
for step in range(STEPS):
    x, gaps, ends, true = stream.chunk()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told, state = model(x, gaps, state, ends)
    state = state.detach()
    loss = F.huber_loss(told, true, delta=WORSE)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
