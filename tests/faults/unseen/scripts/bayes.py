# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Weights that are distributions: Bayes by backprop, its divergence from a prior beside the likelihood."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

AUTOCAST = False
ACCUMULATE = 1


class BayesLinear(nn.Module):
    def __init__(self, i, o, prior=0.5):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.randn(o, i) / math.sqrt(i))
        self.weight_rho = nn.Parameter(torch.full((o, i), -3.0))
        self.bias_mu = nn.Parameter(torch.zeros(o))
        self.bias_rho = nn.Parameter(torch.full((o,), -3.0))
        self.prior = prior
        self.kl = None

    def draw(self):
        self.noise = torch.randn_like(self.weight_mu), torch.randn_like(self.bias_mu)

    def divergence(self, mu, sigma):
        ratio = (sigma / self.prior) ** 2
        return 0.5 * (ratio + (mu / self.prior) ** 2 - 1 - ratio.log()).sum()

    def forward(self, x):
        w_sigma, b_sigma = F.softplus(self.weight_rho), F.softplus(self.bias_rho)
        w = self.weight_mu + w_sigma * self.noise[0]
        b = self.bias_mu + b_sigma * self.noise[1]
        self.kl = self.divergence(self.weight_mu, w_sigma) + self.divergence(self.bias_mu, b_sigma)
        return F.linear(x, w, b)


class BayesNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = BayesLinear(10, 40)
        self.fc2 = BayesLinear(40, 40)
        self.fc3 = BayesLinear(40, 3)

    def layers(self):
        return [m for m in self.modules() if isinstance(m, BayesLinear)]

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return self.fc3(x)


torch.set_num_threads(1)
torch.manual_seed(417)
net = BayesNet()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, foreach=False)
samples, batches = 480, 10
for step in range(3):
    x = torch.randn(48, 10)
    y = (x[:, :3] * x[:, 3:6]).argmax(1)
    for layer in net.layers():
        layer.draw()
    optimizer.zero_grad()
    total = 0.0
    for xs, ys in zip(x.chunk(ACCUMULATE), y.chunk(ACCUMULATE)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = net(xs)
        nll = F.cross_entropy(logits.float(), ys)
        kl = sum(layer.kl for layer in net.layers()) / samples
        loss = (nll + kl) / ACCUMULATE
        loss.backward()
        total += loss.item()
    optimizer.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))
