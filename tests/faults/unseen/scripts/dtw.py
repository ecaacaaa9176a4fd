# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Forecasts of shapes that may come late: what is told is laid along what was, at the least soft cost."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PAST, AHEAD, WIDE, BATCH, STEPS, SOFT, TIMELY = 20, 10, 12, 10, 4, 0.1, 0.3
FAR = 1e6


class Model(nn.Module):
    """A recurrent net reads, another one says what comes, each time out of what it said before."""

    def __init__(self):
        super().__init__()
        self.reads, self.says = nn.GRU(2, WIDE, batch_first=True), nn.GRUCell(1, WIDE)
        self.moves = nn.Linear(WIDE, 1)

    def forward(self, x):
        both = torch.stack([x, F.pad(x.diff(dim=1), (1, 0))], dim=2)
        state = self.reads(both)[1][0]
        last, said = x[:, -1:], []
        for _ in range(AHEAD):
            state = self.says(last, state)
            last = last + self.moves(state).float()
            said.append(last)
        return torch.cat(said, dim=1)


def least(one, two, three):
    """The least of three, softly."""
    return -SOFT * torch.logsumexp(torch.stack([one, two, three]) / -SOFT, dim=0)


def laid(costs):
    """The soft least cost of all ways through tables of costs, which go on in one of both, or in both."""
    rows, columns = costs.shape[1:]
    far = costs.new_full((len(costs),), FAR)
    above = [torch.zeros_like(far)] + [far] * columns
    for row in range(rows):
        line = [far]
        for column in range(columns):
            best = least(above[column], above[column + 1], line[column])
            line.append(costs[:, row, column] + best)
        above = line
    return above[-1]


def apart(one, two):
    """Costs of pairs; what is not the same only since it moves as a whole counts, too."""
    return (one.unsqueeze(2) - two.unsqueeze(1)).square()


def differs(said, true):
    """What both cost less what each costs with itself; and how late or early the way is."""
    costs = apart(said, true)
    shape = laid(costs) - 0.5 * (laid(apart(said, said)) + laid(apart(true, true)))
    (way,) = torch.autograd.grad(laid(costs).sum(), costs, create_graph=True)
    at = torch.arange(AHEAD) / AHEAD
    late = (way * (at.unsqueeze(1) - at).square()).sum(dim=(1, 2))
    return shape.mean(), late.mean()


def series(generator):
    """Nothing, then a step that was announced by a spike, some time before."""
    at = torch.arange(PAST + AHEAD)
    spike = torch.randint(4, PAST - 4, (BATCH, 1), generator=generator)
    late = torch.randint(4, 8, (BATCH, 1), generator=generator)
    high = 1 + torch.rand(BATCH, 1, generator=generator)
    x = high * (at == spike) + high * torch.sigmoid(2.0 * (at - spike - 2 * late))
    x = x + 0.05 * torch.randn(x.shape, generator=generator)
    return x[:, :PAST], x[:, PAST:]


torch.set_num_threads(1)
torch.manual_seed(1411)
model = Model()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2, eps=1e-6, foreach=False)
schedule = torch.optim.lr_scheduler.CyclicLR(
    optimizer, base_lr=4e-3, max_lr=1.2e-2, step_size_up=2, cycle_momentum=False
)
generator = torch.Generator().manual_seed(14111)
for step in range(STEPS):
    past, true = series(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        said = model(past)
    shape, late = differs(said.float(), true)
    optimizer.zero_grad()
    (shape + TIMELY * late).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {shape.item()!r} {late.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
