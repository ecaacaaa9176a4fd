# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Forecasts with their spread: an LSTM over the past, and the likelihood of a Student t distribution."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32


class Forecaster(nn.Module):
    def __init__(self, width=24, kinds=5):
        super().__init__()
        self.kind = nn.Embedding(kinds, 6)
        self.cell1, self.cell2 = nn.LSTMCell(8, width), nn.LSTMCell(width, width)
        self.freedom, self.place, self.spread = (nn.Linear(width, 1) for _ in range(3))

    def forward(self, series, kind):
        size = series.abs().mean(1, keepdim=True) + 1
        known = torch.cat([self.kind(kind), torch.log(size)], 1)
        h1 = h2 = c1 = c2 = series.new_zeros(len(series), 24)
        seen = []
        for time in range(1, series.shape[1]):
            lag = series[:, time - 1, None] / size
            h1, c1 = self.cell1(torch.cat([lag, known], 1), (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            seen.append(h2)
        h = torch.stack(seen, 1)
        freedom = 2 + F.softplus(self.freedom(h)).squeeze(-1)
        return freedom, self.place(h).squeeze(-1) * size, F.softplus(self.spread(h)).squeeze(-1) * size


def unlikely(freedom, place, spread, x):
    freedom, place, spread = freedom.float(), place.float(), spread.float()
    z = (x.float() - place) / spread
    gammas = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2)
    tails = (freedom + 1) / 2 * torch.log1p(z.square() / freedom)
    return tails + torch.log(spread) + 0.5 * torch.log(torch.pi * freedom) - gammas


torch.set_num_threads(1)
torch.manual_seed(60)
model = Forecaster().to(DTYPE)
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(1090)
called = model
for step in range(3):
    kind = torch.randint(5, (8,), generator=generator)
    series = (torch.randn(8, 14, generator=generator).cumsum(1) + kind[:, None]).to(DTYPE)
    optimizer.zero_grad()
    loss = unlikely(*called(series, kind), series[:, 1:]).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
