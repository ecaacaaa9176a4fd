# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures by style: kernels are scaled for each picture; a critic with a lazy penalty, and an average."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LATENT, STYLE, WIDTH, EVERY, GAMMA = 12, 16, 16, 2, 0.5


class Modulated(nn.Module):
    def __init__(self, before, after, size=3, demodulate=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before, size, size))
        self.scale, self.demodulate, self.padding = (before * size**2) ** -0.5, demodulate, size // 2
        self.style = nn.Linear(STYLE, before)
        nn.init.ones_(self.style.bias)

    def forward(self, x, w):
        style = self.style(w).float()
        weight = self.scale * self.weight * style[:, None, :, None, None]
        if self.demodulate:
            weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        y = x.reshape(1, -1, *x.shape[2:])
        y = F.conv2d(y, weight.flatten(0, 1), padding=self.padding, groups=len(x))
        return y.view(len(x), -1, *x.shape[2:])


class Layer(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv = Modulated(before, after)
        self.strength = nn.Parameter(torch.tensor(0.1))
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, x, w, noise):
        y = self.conv(x, w) + self.strength * noise + self.bias[:, None, None]
        return 2**0.5 * F.leaky_relu(y, 0.2)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.mapping = nn.Sequential(
            nn.Linear(LATENT, STYLE), nn.LeakyReLU(0.2), nn.Linear(STYLE, STYLE), nn.LeakyReLU(0.2)
        )
        self.begin = nn.Parameter(torch.randn(1, WIDTH, 4, 4))
        self.first, self.second = Layer(WIDTH, WIDTH), Layer(WIDTH, 8)
        self.small, self.large = Modulated(WIDTH, 3, 1, False), Modulated(8, 3, 1, False)

    def forward(self, z, noises):
        w = self.mapping(z * (z.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt())
        x = self.first(self.begin.expand(len(z), -1, -1, -1), w, noises[0])
        picture = self.small(x, w)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        picture = F.interpolate(picture, scale_factor=2, mode="bilinear", align_corners=False)
        return picture + self.large(self.second(x, w, noises[1]), w)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.Conv2d(3, 8, 3, padding=1)
        self.down, self.skip = nn.Conv2d(8, WIDTH, 3, 2, 1), nn.Conv2d(8, WIDTH, 1, 2)
        self.conv, self.out = nn.Conv2d(WIDTH + 1, WIDTH, 3, padding=1), nn.Linear(16 * WIDTH, 1)

    def forward(self, x):
        x = F.leaky_relu(self.begin(x), 0.2)
        x = (F.leaky_relu(self.down(x), 0.2) + self.skip(x)) * 0.5**0.5
        spread = (x.float().var(dim=0, unbiased=False) + 1e-8).sqrt().mean()
        x = torch.cat([x, spread.to(x.dtype).expand(len(x), 1, 4, 4)], dim=1)
        return self.out(F.leaky_relu(self.conv(x), 0.2).flatten(1)).squeeze(1).float()


def slopes(critic, real):
    """How steep the critic is at true pictures."""
    real = real.clone().requires_grad_()
    (slope,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return slope.square().sum((1, 2, 3)).mean()


def drawn(generator):
    shapes = ((8, LATENT), (8, 1, 4, 4), (8, 1, 8, 8))
    z, *noises = (torch.randn(shape, generator=generator) for shape in shapes)
    return z, noises


torch.set_num_threads(1)
torch.manual_seed(612)
painter, critic = Generator(), Critic()
average = copy.deepcopy(painter).requires_grad_(False)
# model built
lazy = EVERY / (EVERY + 1)
of_painter = torch.optim.Adam(painter.parameters(), lr=2e-3, betas=(0.0, 0.99), eps=1e-8, foreach=False)
of_critic = torch.optim.Adam(
    critic.parameters(), lr=2e-3 * lazy, betas=(0.0, 0.99**lazy), eps=1e-8, foreach=False
)
generator = torch.Generator().manual_seed(72)
for step in range(3):
    real = F.avg_pool2d(torch.randn(8, 3, 10, 10, generator=generator), 3, 1) * 2
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        fake = painter(*drawn(generator))
        answers = critic(fake.detach().float()), critic(real)
    of_fakes = F.softplus(answers[0]).mean() + F.softplus(-answers[1]).mean()
    penalty = GAMMA / 2 * EVERY * slopes(critic, real) if step % EVERY == 0 else 0.0
    of_critic.zero_grad()
    (of_fakes + penalty).backward()
    of_critic.step()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        answer = critic(painter(*drawn(generator)).float())
    of_painting = F.softplus(-answer).mean()
    of_painter.zero_grad()
    of_painting.backward()
    of_painter.step()
    with torch.no_grad():
        for kept, p in zip(average.parameters(), painter.parameters()):
            kept.copy_(p.lerp(kept, 0.8))
    print(f"step {step} loss {of_fakes.item()!r} {of_painting.item()!r}")
networks = (painter, critic, average)
print("weights", *(sum(p.detach().double().abs().sum().item() for p in m.parameters()) for m in networks))
