# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A Kalman filter whose observations, and how far each is trusted, a network reads out of what is seen."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
STATE, SEEN, PIXELS = 4, 2, 16


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(PIXELS, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())
        self.mean, self.log_variance = nn.Linear(32, SEEN), nn.Linear(32, SEEN)

    def forward(self, pictures):
        h = self.body(pictures)
        return self.mean(h).float(), self.log_variance(h).float() - 1


class KalmanNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.reader = Reader()
        turn = torch.eye(STATE) + torch.diag(torch.full((STATE - 1,), 0.1), 1)
        self.moves = nn.Parameter(turn)
        self.sees = nn.Parameter(torch.randn(SEEN, STATE) * 0.5)
        self.log_process = nn.Parameter(torch.full((STATE,), -2.0))
        self.decoder = nn.Sequential(nn.Linear(STATE, 32), nn.SiLU(), nn.Linear(32, PIXELS))

    def update(self, mean, cov, y, noise):
        """What is known of the state after y, and how likely y was."""
        innovation = y - mean @ self.sees.mT
        spread = self.sees @ cov @ self.sees.mT + noise
        gain = torch.linalg.solve(spread, self.sees @ cov).mT
        lower = torch.linalg.cholesky(spread)
        white = torch.linalg.solve_triangular(lower, innovation.unsqueeze(-1), upper=False).squeeze(-1)
        likely = -0.5 * white.square().sum(-1) - lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        mean = mean + (gain @ innovation.unsqueeze(-1)).squeeze(-1)
        cov = cov - gain @ self.sees @ cov
        return mean, cov, likely - 0.5 * SEEN * math.log(2 * math.pi)

    def forward(self, pictures):
        y, log_variance = self.reader(pictures)
        noise = torch.diag_embed(torch.exp(log_variance) + 1e-3)
        process = torch.diag(self.log_process.exp())
        mean, cov = torch.zeros(len(pictures), STATE), torch.eye(STATE).expand(len(pictures), -1, -1)
        means, total = [], torch.zeros(len(pictures))
        for time in range(pictures.shape[1]):
            mean, cov, likely = self.update(mean, cov, y[:, time], noise[:, time])
            means.append(mean)
            total = total + likely
            mean, cov = mean @ self.moves.mT, self.moves @ cov @ self.moves.mT + process
        return self.decoder(torch.stack(means, 1)).float(), total / pictures.shape[1]


torch.set_num_threads(1)
torch.manual_seed(510)
model = KalmanNet()
# model built
dynamics = [model.moves, model.sees, model.log_process]
names = {id(p) for p in dynamics}
groups = [{"params": dynamics, "lr": 1e-3}, {"params": [p for p in model.parameters() if id(p) not in names]}]
optimizer = torch.optim.Adamax(groups, lr=4e-3, foreach=False)
generator = torch.Generator().manual_seed(10)
for step in range(3):
    phase = torch.rand(6, 1, 1, generator=generator) * 6
    time, place = torch.arange(7).view(1, -1, 1), torch.arange(PIXELS).view(1, 1, -1)
    pictures = torch.sin(phase + 0.5 * time + 0.4 * place) + 0.1 * torch.randn(
        6, 7, PIXELS, generator=generator
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        shown, likely = model(pictures)
    loss = F.mse_loss(shown, pictures) - 0.1 * likely.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
