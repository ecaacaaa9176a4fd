# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process over what a small network makes of points: exact likelihood by Cholesky."""

import math

import torch
from torch import nn

AUTOCAST = False


class DeepKernel(nn.Module):
    def __init__(self, features=2):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(6, 32), nn.Softplus(), nn.Linear(32, 16), nn.Softplus(), nn.Linear(16, features)
        )
        self.log_length = nn.Parameter(torch.zeros(features) + 0.3)
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.log_noise = nn.Parameter(torch.tensor(-1.5))
        self.mean = nn.Parameter(torch.zeros(()))

    def kernel(self, a, b):
        a, b = a / self.log_length.exp(), b / self.log_length.exp()
        squared = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
        return self.log_scale.exp() * torch.exp(-0.5 * squared)

    def covariance(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            z = self.net(x)
        z = z.float()
        return self.kernel(z, z) + self.log_noise.exp() * torch.eye(len(x))


def log_likelihood(model, x, y):
    lower = torch.linalg.cholesky(model.covariance(x))
    residual = (y - model.mean).unsqueeze(-1)
    alpha = torch.cholesky_solve(residual, lower)
    fit = -0.5 * (residual * alpha).sum()
    size = lower.diagonal().log().sum()
    return fit - size - 0.5 * len(x) * math.log(2 * math.pi)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(401)
    x = torch.rand(80, 6) * 4 - 2
    y = torch.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * torch.randn(80)
    model = DeepKernel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, foreach=False)
    for step in range(4):
        optimizer.zero_grad()
        loss = -log_likelihood(model, x, y) / len(x)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()!r}")
    print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
