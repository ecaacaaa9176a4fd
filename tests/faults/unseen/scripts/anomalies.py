# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is unusual in a series: the past is squeezed, and a mixture says how likely it is and what is lost."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LONG, SERIES, WIDE, CODE, BUMPS, BATCH, STEPS = 24, 3, 16, 2, 3, 24, 4
UNLIKELY, THIN, FLOOR = 0.1, 5e-3, 1e-3


class Past(nn.Module):
    """What was, at some distance; nothing that comes."""

    def __init__(self, comes, goes, apart):
        super().__init__()
        self.conv, self.reach = nn.Conv1d(comes, goes, 3, dilation=apart), 2 * apart
        self.same = nn.Conv1d(comes, goes, 1)

    def forward(self, x):
        return F.gelu(self.conv(F.pad(x, (self.reach, 0)))) + self.same(x)


class Model(nn.Module):
    """A code of the last moment, the series from it again, and which bump it is of."""

    def __init__(self):
        super().__init__()
        self.past = nn.Sequential(Past(SERIES, WIDE, 1), Past(WIDE, WIDE, 2), Past(WIDE, WIDE, 4))
        self.code = nn.Linear(WIDE, CODE)
        self.draws = nn.Sequential(nn.Linear(CODE, WIDE), nn.Tanh(), nn.Linear(WIDE, SERIES * LONG))
        self.bump = nn.Sequential(nn.Linear(CODE + 2, 12), nn.Tanh(), nn.Linear(12, BUMPS))

    def forward(self, x):
        code = self.code(self.past(x)[:, :, -1])
        again = self.draws(code).float().unflatten(1, (SERIES, LONG))
        far = (x - again).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)
        alike = F.cosine_similarity(x.flatten(1), again.flatten(1), dim=1)
        known = torch.cat([code.float(), far.unsqueeze(1), alike.unsqueeze(1)], dim=1)
        return again, known, self.bump(known).float().softmax(dim=1)


def unlikely(known, shares):
    """Bumps as the batch shares itself out to them; how unlikely all is, and how thin bumps are."""
    sums = shares.sum(dim=0)
    middles = (shares.T @ known) / sums.unsqueeze(1)
    off = known.unsqueeze(1) - middles
    spread = torch.einsum("nk,nki,nkj->kij", shares, off, off) / sums.view(-1, 1, 1)
    spread = spread + FLOOR * torch.eye(known.shape[1])
    root = torch.linalg.cholesky(spread)
    solved = torch.linalg.solve_triangular(root, off.permute(1, 2, 0), upper=False)
    solved = solved.square().sum(dim=1)
    log_size = 2 * root.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    logs = (sums / len(known)).log() - 0.5 * (log_size + known.shape[1] * math.log(2 * math.pi))
    energy = -torch.logsumexp(logs.unsqueeze(1) - 0.5 * solved, dim=0)
    thin = (1 / spread.diagonal(dim1=1, dim2=2)).sum()
    return energy.mean(), thin / BUMPS


def series(generator):
    """Waves that belong together; a few rows break off somewhere."""
    at = torch.arange(LONG)
    begin = 6.28 * torch.rand(BATCH, 1, generator=generator)
    speed = 0.3 + 0.2 * torch.randint(0, 3, (BATCH, 1), generator=generator)
    x = torch.stack([torch.sin(speed * at + begin + part) for part in range(SERIES)], dim=1)
    breaks = torch.rand(BATCH, 1, 1, generator=generator) < 0.1
    x = torch.where(breaks & (at > LONG // 2), 0.2 * x.flip(2), x)
    return x + 0.1 * torch.randn(x.shape, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1615)
model = Model()
# model built
optimizer = torch.optim.NAdam(
    model.parameters(), lr=6e-3, weight_decay=0.01, decoupled_weight_decay=True, foreach=False
)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
generator = torch.Generator().manual_seed(16115)
for step in range(STEPS):
    x = series(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        again, known, shares = model(x)
    energy, thin = unlikely(known, shares)
    off = (again - x).square().sum(dim=(1, 2)).mean() / LONG
    loss = off + UNLIKELY * energy + THIN * thin
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {energy.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
