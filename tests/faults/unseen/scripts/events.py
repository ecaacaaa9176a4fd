# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""When what happens next: a state fades between events, and its integral says how unlikely a silence is."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, WIDE, LONG, BATCH, POINTS, STEPS = 5, 16, 12, 10, 8, 4


class Fades(nn.Module):
    """A cell that goes, as time passes, from what it is to what it rests at."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(KINDS, WIDE)
        self.gates = nn.Linear(2 * WIDE, 6 * WIDE)
        self.rate = nn.Linear(2 * WIDE, WIDE)
        self.out = nn.Linear(WIDE, KINDS)
        self.scale = nn.Parameter(torch.zeros(KINDS))

    def begin(self, rows):
        zeros = torch.zeros(rows, WIDE)
        return zeros, zeros, torch.ones(rows, WIDE)

    def event(self, kind, hidden, cell, rest):
        both = torch.cat([self.kinds(kind), hidden], dim=-1)
        take, keep, show, take_rest, keep_rest, new = self.gates(both).float().chunk(6, dim=-1)
        new = torch.tanh(new)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * new
        rest = torch.sigmoid(keep_rest) * rest + torch.sigmoid(take_rest) * new
        return cell, rest, torch.sigmoid(show), F.softplus(self.rate(both).float())

    @staticmethod
    def after(gap, cell, rest, rate):
        return rest + (cell - rest) * torch.exp(-rate * gap)

    def intensity(self, hidden):
        """How often each kind happens in a unit of time."""
        scale = self.scale.exp()
        return scale * F.softplus(self.out(hidden).float() / scale)


def unlikely(model, gaps, kinds, there):
    """The integral of how often anything happens, less the logarithms of how often what happened does."""
    cell, rest, rate = model.begin(len(gaps))
    show, silences, logs = torch.ones_like(cell), [], []
    shares = torch.linspace(0, 1, POINTS).view(-1, 1, 1)
    for at in range(LONG):
        gap = gaps[:, at : at + 1]
        between = show * torch.tanh(model.after(shares * gap, cell, rest, rate))
        often = model.intensity(between)
        silences.append(torch.trapezoid(often.sum(-1), dx=1 / (POINTS - 1), dim=0) * gap.squeeze(1))
        logs.append(often[-1].gather(1, kinds[:, at : at + 1]).squeeze(1).log())
        cell = model.after(gap, cell, rest, rate)
        cell, rest, show, rate = model.event(kinds[:, at], between[-1], cell, rest)
    silences, logs = torch.stack(silences, dim=1), torch.stack(logs, dim=1)
    return ((silences - logs) * there).sum() / there.sum()


def events(generator):
    """Kinds go round, and each has a pace of its own; sequences end at several lengths."""
    begin, by = (torch.randint(1, KINDS, (BATCH, 1), generator=generator) for _ in range(2))
    kinds = (begin + by * torch.arange(LONG)) % KINDS
    pace = 0.3 + 0.3 * kinds.roll(1, dims=1)
    gaps = -pace * torch.rand(BATCH, LONG, generator=generator).clamp(min=1e-3).log()
    sizes = torch.randint(LONG // 2, LONG + 1, (BATCH, 1), generator=generator)
    there = torch.arange(LONG) < sizes
    return gaps.masked_fill(~there, 0.0), kinds.masked_fill(~there, 0), there


torch.set_num_threads(1)
torch.manual_seed(1006)
model = Fades()
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.95, momentum=0.5, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
generator = torch.Generator().manual_seed(106)
for step in range(STEPS):
    gaps, kinds, there = events(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = unlikely(model, gaps, kinds, there)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
