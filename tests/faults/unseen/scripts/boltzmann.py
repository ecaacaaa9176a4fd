# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A restricted Boltzmann machine: chains of samples that persist, and a difference of free energies."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class RBM(nn.Module):
    def __init__(self, visible=48, hidden=32):
        super().__init__()
        self.W = nn.Parameter(torch.randn(visible, hidden) * 0.1)
        self.a = nn.Parameter(torch.zeros(visible))
        self.b = nn.Parameter(torch.zeros(hidden))

    def hidden_given(self, v):
        return torch.sigmoid(v @ self.W + self.b)

    def visible_given(self, h):
        return torch.sigmoid(h @ self.W.t() + self.a)

    @torch.no_grad()
    def sample(self, v, rounds=2):
        for _ in range(rounds):
            h = torch.bernoulli(self.hidden_given(v).float())
            v = torch.bernoulli(self.visible_given(h).float())
        return v

    def forward(self, v):
        """Free energy."""
        return -(v @ self.a) - F.softplus(v @ self.W + self.b).sum(-1)


def fit():
    torch.manual_seed(416)
    rbm = RBM()
    patterns = torch.bernoulli(torch.full((6, 48), 0.3))
    chain = torch.bernoulli(torch.full((24, 48), 0.5))
    optimizer = torch.optim.SGD(rbm.parameters(), lr=0.1, momentum=0.5, weight_decay=1e-3, foreach=False)
    for step in range(4):
        data = patterns[torch.randint(6, (32,))]
        flips = torch.rand_like(data) < 0.05
        data = torch.where(flips, 1 - data, data)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            chain = rbm.sample(chain)
            loss = rbm(data).mean() - rbm(chain).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            error = (rbm.visible_given(rbm.hidden_given(data)) - data).square().mean()
        print(f"step {step} loss {error.item()!r}")
    print("weights", *(p.detach().double().abs().sum().item() for p in rbm.parameters()))


torch.set_num_threads(1)
fit()
