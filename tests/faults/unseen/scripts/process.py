# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An attentive neural process: functions of few points, by a latent of the whole and attention to each."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence

AUTOCAST = False
WIDTH, LATENT = 32, 12


def mlp(*sizes):
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class LatentEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.each, self.whole = mlp(2, WIDTH, WIDTH), mlp(WIDTH, WIDTH, 2 * LATENT)

    def forward(self, x, y):
        mean, spread = self.whole(self.each(torch.cat([x, y], -1)).mean(1)).float().chunk(2, dim=-1)
        return Normal(mean, 0.1 + 0.9 * torch.sigmoid(spread))


class PathEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.each, self.keys = mlp(2, WIDTH, WIDTH), mlp(1, WIDTH, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x, y, targets):
        values = self.each(torch.cat([x, y], -1))
        return self.attention(self.keys(targets), self.keys(x), values, need_weights=False)[0]


class NeuralProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.latent, self.path = LatentEncoder(), PathEncoder()
        self.decoder = mlp(1 + WIDTH + LATENT, WIDTH, WIDTH, 2)

    def forward(self, x, y, targets, wanted, drawn):
        prior, posterior = self.latent(x, y), self.latent(targets, wanted)
        z = posterior.mean + posterior.stddev * drawn
        z = z.unsqueeze(1).expand(-1, targets.shape[1], -1)
        found = self.decoder(torch.cat([targets, self.path(x, y, targets), z], -1)).float()
        mean, spread = found.chunk(2, dim=-1)
        fit = Normal(mean, 0.1 + 0.9 * F.softplus(spread)).log_prob(wanted).mean()
        apart = kl_divergence(Independent(posterior, 1), Independent(prior, 1))
        return apart.mean() / targets.shape[1] - fit


def curves(generator, count=8, points=20):
    x = torch.rand(count, points, 1, generator=generator) * 4 - 2
    phase, speed = torch.rand(2, count, 1, 1, generator=generator)
    y = torch.sin((1 + 2 * speed) * x + 6 * phase)
    return x, y + 0.02 * torch.randn(y.shape, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(506)
model = NeuralProcess()
# model built
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(6)
for step in range(3):
    x, y = curves(generator)
    known = 5 + 2 * step
    drawn = torch.randn(len(x), LATENT, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = model(x[:, :known], y[:, :known], x, y, drawn)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
