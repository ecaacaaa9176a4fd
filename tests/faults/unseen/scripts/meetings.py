# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Who meets whom next: each person has a memory of meetings, and sees what his neighbours remember."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PEOPLE, KNOWN, TIMES, SEEN, NEAR, EVENTS, STEPS = 24, 16, 8, 4, 5, 16, 4


class Model(nn.Module):
    """A memory that a GRU cell writes, waves of how long ago it was, and attention to the last neighbours."""

    def __init__(self):
        super().__init__()
        self.often = nn.Parameter(10 ** torch.linspace(0, -2, TIMES))
        self.begins = nn.Parameter(torch.zeros(TIMES))
        self.writes = nn.GRUCell(2 * KNOWN + TIMES + SEEN, KNOWN)
        self.asks = nn.Linear(KNOWN + TIMES, KNOWN)
        self.keys, self.values = (nn.Linear(KNOWN + TIMES + SEEN, KNOWN) for _ in range(2))
        self.both = nn.Linear(2 * KNOWN, KNOWN)
        self.meets = nn.Sequential(nn.Linear(2 * KNOWN, KNOWN), nn.ReLU(), nn.Linear(KNOWN, 1))

    def waves(self, ago):
        return torch.cos(ago.unsqueeze(-1) * self.often + self.begins)

    def remembered(self, memory, last, events):
        """The last meeting of each person is written into his memory; others keep theirs."""
        if events is None:
            return memory, last
        one, two, when, what = events
        who, with_whom = torch.cat([one, two]), torch.cat([two, one])
        when, what = when.repeat(2), what.repeat(2, 1)
        waves = self.waves(when - last[who])
        told = torch.cat([memory[who], memory[with_whom], waves, what], dim=1)
        latest = torch.full((PEOPLE,), -1.0).scatter_reduce(0, who, when, "amax")
        chosen = when == latest[who]
        new = self.writes(told, memory[who]).to(memory.dtype)
        memory = memory.index_copy(0, who[chosen], new[chosen])
        return memory, last.index_copy(0, who[chosen], when[chosen])

    def seen(self, memory, who, now, history):
        """A person by his own memory and those whom he met last."""
        others, when, what, there = (part[who] for part in history)
        ago = self.waves(now.unsqueeze(1) - when)
        near = torch.cat([memory[others], ago, what], dim=2)
        ask = self.asks(torch.cat([memory[who], self.waves(torch.zeros_like(now))], dim=1))
        scores = torch.einsum("bk,bnk->bn", ask, self.keys(near)).float() / KNOWN**0.5
        shares = scores.masked_fill(~there, -1e4).softmax(dim=1) * there
        told = torch.einsum("bn,bnk->bk", shares, self.values(near).float())
        return self.both(torch.cat([told, memory[who]], dim=1))


def stream(generator):
    """People of one of four circles meet mostly each other; times grow."""
    circle = torch.arange(PEOPLE) % 4
    one = torch.randint(0, PEOPLE, (EVENTS * STEPS,), generator=generator)
    alike = (circle[one].unsqueeze(1) == circle).float() + 0.05
    alike[torch.arange(len(one)), one] = 0
    two = torch.multinomial(alike, 1, generator=generator).squeeze(1)
    when = (0.1 + torch.rand(len(one), generator=generator)).cumsum(dim=0)
    return one, two, when, torch.randn(len(one), SEEN, generator=generator) + circle[one].unsqueeze(1) / 2


def noted(history, events):
    """The newest meeting of both comes first, the oldest is forgotten."""
    for one, two, when, what in zip(*events):
        for who, other in ((one, two), (two, one)):
            for part, new in zip(history, (other, when, what, True)):
                part[who] = part[who].roll(1, dims=0)
                part[who, 0] = new


torch.set_num_threads(1)
torch.manual_seed(1613)
model = Model()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01, foreach=False)
generator = torch.Generator().manual_seed(16113)
whole = stream(generator)
history = (
    torch.zeros(PEOPLE, NEAR, dtype=torch.long),
    torch.zeros(PEOPLE, NEAR),
    torch.zeros(PEOPLE, NEAR, SEEN),
    torch.zeros(PEOPLE, NEAR, dtype=torch.bool),
)
memory, last, before = torch.zeros(PEOPLE, KNOWN), torch.zeros(PEOPLE), None
for step in range(STEPS):
    events = tuple(part[step * EVENTS : (step + 1) * EVENTS] for part in whole)
    one, two, when, what = events
    nobody = torch.randint(0, PEOPLE, (EVENTS,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        memory, last = model.remembered(memory, last, before)
        first, second, third = (model.seen(memory, who, when, history) for who in (one, two, nobody))
        met = model.meets(torch.cat([first, second], dim=1)).float().squeeze(1)
        not_met = model.meets(torch.cat([first, third], dim=1)).float().squeeze(1)
    wanted = torch.cat([torch.ones(EVENTS), torch.zeros(EVENTS)])
    loss = F.binary_cross_entropy_with_logits(torch.cat([met, not_met]), wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    memory, before = memory.detach(), events
    noted(history, events)
    print(f"step {step} loss {loss.item()!r} {memory.abs().mean().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
