# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A mixture density network: the inverse of a function that has several answers for each question."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

dtype = torch.float32


class MDN(nn.Module):
    def __init__(self, d_in=1, d_out=1, hidden=48, k=5):
        super().__init__()
        self.k, self.d_out = k, d_out
        self.body = nn.Sequential(nn.Linear(d_in, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, k)
        self.mu = nn.Linear(hidden, k * d_out)
        self.sigma = nn.Linear(hidden, k * d_out)

    def forward(self, x):
        h = self.body(x)
        mu = self.mu(h).view(-1, self.k, self.d_out)
        sigma = F.softplus(self.sigma(h)).view(-1, self.k, self.d_out) + 1e-3
        return self.pi(h), mu, sigma


def nll(pi, mu, sigma, y):
    z = (y.unsqueeze(1) - mu) / sigma
    each = (-0.5 * z**2 - sigma.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
    return -torch.logsumexp(F.log_softmax(pi, dim=-1) + each, dim=-1).mean()


torch.set_num_threads(1)
torch.manual_seed(402)
t = torch.rand(256, 1)
question = t + 0.3 * torch.sin(2 * math.pi * t) + 0.05 * torch.randn(256, 1)
question = (question - question.mean()) / question.std()
loader = DataLoader(TensorDataset(question, t), batch_size=64, shuffle=True)
model = MDN().to(dtype)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
run = model
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad(set_to_none=True)
    pi, mu, sigma = (part.float() for part in run(x.to(dtype)))
    loss = nll(pi, mu, sigma, y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
