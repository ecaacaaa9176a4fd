# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A restricted Boltzmann machine: persistent chains of samples, gradients written down by hand."""

import torch
import torch.nn.functional as F  # noqa: N812

PRECISION = torch.float32


class RBM:
    def __init__(self, visible=48, hidden=32, chains=24):
        self.W = torch.nn.Parameter((torch.randn(visible, hidden) * 0.1).to(PRECISION))
        self.a = torch.nn.Parameter(torch.zeros(visible, dtype=PRECISION))
        self.b = torch.nn.Parameter(torch.zeros(hidden, dtype=PRECISION))
        self.chain = torch.bernoulli(torch.full((chains, visible), 0.5)).to(PRECISION)

    def parameters(self):
        return [self.W, self.a, self.b]

    def hidden_given(self, v):
        return torch.sigmoid(v @ self.W + self.b)

    def visible_given(self, h):
        return torch.sigmoid(h @ self.W.t() + self.a)

    def free_energy(self, v):
        return -(v @ self.a) - F.softplus(v @ self.W + self.b).sum(-1)

    def sample(self, v, rounds=2):
        for _ in range(rounds):
            h = torch.bernoulli(self.hidden_given(v))
            v = torch.bernoulli(self.visible_given(h))
        return v

    def gradients(self, data):
        ph = self.hidden_given(data)
        self.chain = self.sample(self.chain)
        nh = self.hidden_given(self.chain)
        n, m = len(data), len(self.chain)
        self.W.grad = (self.chain.t() @ nh) / m - (data.t() @ ph) / n
        self.a.grad = self.chain.mean(0) - data.mean(0)
        self.b.grad = nh.mean(0) - ph.mean(0)


@torch.no_grad()
def fit():
    torch.manual_seed(416)
    rbm = RBM()
    patterns = torch.bernoulli(torch.full((6, 48), 0.3))
    optimizer = torch.optim.SGD(rbm.parameters(), lr=0.1, momentum=0.5, weight_decay=1e-3, foreach=False)
    for step in range(4):
        data = patterns[torch.randint(6, (32,))]
        flips = torch.rand_like(data) < 0.05
        data = torch.where(flips, 1 - data, data).to(PRECISION)
        rbm.gradients(data)
        optimizer.step()
        gap = rbm.free_energy(data).float().mean() - rbm.free_energy(rbm.chain).float().mean()
        seen = rbm.visible_given(rbm.hidden_given(data)).float()
        error = (seen - data.float()).square().mean()
        print(f"step {step} loss {error.item()!r} {gap.item()!r}")
    print("weights", *(p.double().abs().sum().item() for p in rbm.parameters()))


torch.set_num_threads(1)
fit()
