# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Answers in order: each is seen beside all others of its question, pairs count by what a swap would cost."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
FEATURES, WIDTH, LONGEST, GRADES = 10, 32, 9, 4


class Ranker(nn.Module):
    """A deep set: what all answers are together goes to each."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.all = nn.Linear(2 * WIDTH, WIDTH)
        self.score = nn.Sequential(
            nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1)
        )

    def forward(self, x, inside):
        h = self.each(torch.log1p(x.abs()) * x.sign())
        weights = inside.unsqueeze(-1).to(h.dtype)
        mean = (h * weights).sum(1) / weights.sum(1)
        top = h.masked_fill(~inside.unsqueeze(-1), -1e4).amax(1)
        together = F.gelu(self.all(torch.cat([mean, top], dim=-1)))
        together = together.unsqueeze(1).expand(-1, x.shape[1], -1)
        return self.score(torch.cat([h, together], dim=-1)).squeeze(-1).float()


def ranks_of(x):
    """Zero is the highest."""
    return x.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def lambda_loss(scores, grades, inside):
    with torch.no_grad():
        gains = (2.0**grades - 1) * inside
        ranks = ranks_of(scores.masked_fill(~inside, -1e9))
        discounts = 1 / torch.log2(ranks + 2.0)
        best = 1 / torch.log2(ranks_of(gains) + 2.0)
        ideal = (gains * best).sum(-1).clamp(min=1e-6)
        swapped = (gains[:, :, None] - gains[:, None]) * (discounts[:, :, None] - discounts[:, None])
        weights = swapped.abs() / ideal[:, None, None]
        is_better = (grades[:, :, None] > grades[:, None]) & inside[:, :, None] & inside[:, None]
    apart = scores[:, :, None] - scores[:, None]
    return (F.softplus(-apart) * weights * is_better).sum((1, 2)).mean()


def questions(generator):
    x = 3 * torch.randn(12, LONGEST, FEATURES, generator=generator)
    inside = torch.arange(LONGEST) < torch.randint(4, LONGEST + 1, (12, 1), generator=generator)
    wanted = x[..., :3].sum(-1) - x.mean(1)[:, :1]
    grades = torch.bucketize(wanted, torch.tensor([-4.0, 0.0, 4.0])).clamp(max=GRADES - 1)
    return x * inside.unsqueeze(-1), inside, grades


torch.set_num_threads(1)
torch.manual_seed(614)
model = Ranker()
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, lr_decay=0.01, eps=1e-8, foreach=False)
generator = torch.Generator().manual_seed(74)
for step in range(3):
    x, inside, grades = questions(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        scores = model(x, inside)
    loss = lambda_loss(scores, grades, inside) + 1e-3 * scores[inside].square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
