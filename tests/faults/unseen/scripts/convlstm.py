# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What comes next in a film: cells of an LSTM that are convolutions; later frames are its own guesses."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

DTYPE = torch.float32


class ConvLSTMCell(nn.Module):
    def __init__(self, in_channels, hidden, kernel=3):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(in_channels + hidden, 4 * hidden, kernel, padding=kernel // 2)
        with torch.no_grad():
            self.conv.bias[hidden : 2 * hidden] += 1.0

    def forward(self, x, state):
        h, c = state
        gates = self.conv(torch.cat([x, h], dim=1))
        i, f, o, g = torch.split(gates, self.hidden, dim=1)
        i, f, o, g = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)
        c = f * c + i * g
        h = o * torch.tanh(c)
        return h, c

    def init(self, b, size, like):
        return tuple(like.new_zeros(b, self.hidden, *size) for _ in range(2))


class Seq2Seq(nn.Module):
    def __init__(self, hidden=12, layers=2, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.cells = nn.ModuleList(ConvLSTMCell(1 if n == 0 else hidden, hidden) for n in range(layers))
        self.to_frame = nn.Conv2d(hidden, 1, 1)

    def step(self, x, states):
        new = []
        for cell, state in zip(self.cells, states):
            state = checkpoint(cell, x, state, use_reentrant=False) if self.recompute else cell(x, state)
            new.append(state)
            x = state[0]
        return torch.sigmoid(self.to_frame(x)), new

    def forward(self, frames, ahead, teacher=None):
        b, t = frames.shape[:2]
        states = [cell.init(b, frames.shape[-2:], frames) for cell in self.cells]
        for n in range(t):
            y, states = self.step(frames[:, n], states)
        out = [y]
        for n in range(ahead - 1):
            given = (
                y if teacher is None else torch.where(teacher[1][n].view(-1, 1, 1, 1), teacher[0][:, n], y)
            )
            y, states = self.step(given, states)
            out.append(y)
        return torch.stack(out, dim=1)


def films(generator, b=6, t=7, size=12):
    start = torch.randint(0, size, (b, 2), generator=generator)
    speed = torch.randint(-1, 2, (b, 2), generator=generator)
    film = torch.zeros(b, t, 1, size, size)
    for n in range(t):
        at = (start + n * speed) % size
        for k in range(b):
            y, x = at[k].tolist()
            rows, columns = (torch.arange(5) + y) % size, (torch.arange(4) + x) % size
            film[k, n, 0, rows[:, None], columns] = 1.0
    return film


torch.set_num_threads(1)
torch.manual_seed(415)
model = Seq2Seq().to(DTYPE)
optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3, foreach=False)
generator = torch.Generator().manual_seed(4150)
for step in range(3):
    film = films(generator).to(DTYPE)
    past, future = film[:, :4], film[:, 4:]
    coins = torch.rand(2, len(film), generator=generator) < 0.6
    guess = model(past, 3, teacher=(future, coins))
    loss = nn.functional.binary_cross_entropy(guess.float(), future.float())
    loss = loss + 0.5 * (guess.float() - future.float()).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
