# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A neural radiance field: points along rays by sines and cosines, and colours added up along each ray."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

BANDS, SAMPLES = 5, 12


def encoded(x, bands):
    scales = 2.0 ** torch.arange(bands)
    angles = (x[..., None] * scales * torch.pi).flatten(-2)
    return torch.cat([x, angles.sin(), angles.cos()], -1)


class Field(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        of_place, of_view = 3 + 6 * BANDS, 3 + 6 * 2
        self.start, self.middle = nn.Linear(of_place, width), nn.Linear(width, width)
        self.again = nn.Linear(width + of_place, width)
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.view, self.colour = nn.Linear(width + of_view, width // 2), nn.Linear(width // 2, 3)

    def forward(self, places, views):
        x = encoded(places, BANDS)
        h = F.relu(self.middle(F.relu(self.start(x))))
        h = F.relu(self.again(torch.cat([h, x], -1)))
        density = F.softplus(self.density(h).squeeze(-1) - 1)
        seen = torch.cat([self.feature(h), encoded(views, 2)], -1)
        return density, torch.sigmoid(self.colour(F.relu(self.view(seen))))


def rendered(density, colour, depths):
    gaps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full((len(depths), 1), 0.2)], 1)
    alpha = 1 - torch.exp(-density * gaps)
    clear = torch.cumprod(1 - alpha + 1e-10, 1)
    clear = torch.cat([torch.ones(len(clear), 1), clear[:, :-1]], 1)
    weights = alpha * clear
    return (weights[..., None] * colour).sum(1) + (1 - weights.sum(1, keepdim=True))


torch.set_num_threads(1)
torch.manual_seed(24)
model = Field()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** (step / 2))
generator = torch.Generator().manual_seed(730)
called = model
for step in range(3):
    origins = torch.randn(20, 3, generator=generator) * 0.2
    views = F.normalize(torch.randn(20, 3, generator=generator), dim=-1)
    depths = torch.linspace(0.5, 2.0, SAMPLES) + torch.rand(20, SAMPLES, generator=generator) * 0.1
    places = origins[:, None] + views[:, None] * depths[..., None]
    wanted = torch.rand(20, 3, generator=generator)
    density, colour = called(places, views[:, None].expand_as(places))
    loss = (rendered(density, colour, depths) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
