# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Forecasts with what is known before: columns are chosen, gates skip what helps not, quantiles come out."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
WIDTH, HEADS, PAST, FUTURE = 16, 2, 12, 4
QUANTILES = torch.tensor([0.1, 0.5, 0.9])


class Gated(nn.Module):
    """A residual layer with a gate, and a context where there is one."""

    def __init__(self, before, after=WIDTH):
        super().__init__()
        self.up, self.down, self.gate = (
            nn.Linear(before, WIDTH),
            nn.Linear(WIDTH, after),
            nn.Linear(after, 2 * after),
        )
        self.context = nn.Linear(WIDTH, WIDTH, bias=False)
        self.skip = nn.Linear(before, after) if before != after else nn.Identity()
        self.norm = nn.LayerNorm(after)

    def forward(self, x, context=None):
        h = self.up(x)
        if context is not None:
            h = h + self.context(context)
        value, gate = self.gate(self.down(F.elu(h))).chunk(2, dim=-1)
        return self.norm(self.skip(x) + value * torch.sigmoid(gate))


class Choice(nn.Module):
    """Which columns matter, for each place and each series."""

    def __init__(self, columns):
        super().__init__()
        self.lifts = nn.ModuleList(nn.Linear(1, WIDTH) for _ in range(columns))
        self.each = nn.ModuleList(Gated(WIDTH) for _ in range(columns))
        self.shares = Gated(columns * WIDTH, columns)

    def forward(self, x, context):
        columns = [lift(x[..., n : n + 1]) for n, lift in enumerate(self.lifts)]
        shares = self.shares(torch.cat(columns, dim=-1), context).softmax(dim=-1)
        made = torch.stack([part(column) for part, column in zip(self.each, columns)], dim=-1)
        return (made * shares.unsqueeze(-2)).sum(dim=-1)


class TemporalFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(6, WIDTH)
        self.of_choice, self.of_state, self.of_cell = Gated(WIDTH), Gated(WIDTH), Gated(WIDTH)
        self.past, self.future = Choice(3), Choice(2)
        self.encoder, self.decoder = (nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(2))
        self.gate, self.norm = nn.Linear(WIDTH, 2 * WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.last, self.out = Gated(WIDTH), nn.Linear(WIDTH, len(QUANTILES))

    def forward(self, kinds, past, future):
        static = self.kinds(kinds)
        context = self.of_choice(static).unsqueeze(1)
        before, after = self.past(past, context), self.future(future, context)
        begin = self.of_state(static).unsqueeze(0), self.of_cell(static).unsqueeze(0)
        seen, state = self.encoder(before, begin)
        told, _ = self.decoder(after, state)
        x = torch.cat([before, after], dim=1)
        x = self.norm(x + F.glu(self.gate(torch.cat([seen, told], dim=1)), dim=-1))
        mask = torch.ones(PAST + FUTURE, PAST + FUTURE, dtype=torch.bool).triu(1)[PAST:]
        h, _ = self.attention(x[:, PAST:], x, x, attn_mask=mask, need_weights=False)
        return self.out(self.last(x[:, PAST:] + h)).float()


def quantile_loss(ahead, wanted):
    gap = wanted.unsqueeze(-1) - ahead
    return torch.maximum(QUANTILES * gap, (QUANTILES - 1) * gap).sum(-1).mean()


def batch_of(step):
    g = torch.Generator().manual_seed(7500 + step)
    kinds = torch.randint(6, (8,), generator=g)
    times = torch.arange(PAST + FUTURE) + torch.randint(24, (8, 1), generator=g)
    known = torch.stack([(times / 4).sin(), (times % 7 == 0).float()], dim=-1)
    series = (
        known[..., 0] * (1 + kinds[:, None]) / 3
        + known[..., 1]
        + 0.2 * torch.randn(8, PAST + FUTURE, generator=g)
    )
    past = torch.cat([series[:, :PAST, None], known[:, :PAST]], dim=-1)
    return kinds, past, known[:, PAST:], series[:, PAST:]


torch.set_num_threads(1)
torch.manual_seed(615)
model = TemporalFusion()
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    for name, part in parts.items():
        part.load_state_dict(saved[name])
for step in range(first, TOTAL):
    kinds, past, future, wanted = batch_of(step)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        ahead = model(kinds, past, future)
    loss = quantile_loss(ahead, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
