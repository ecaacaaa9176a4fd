# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A picture out of soft ellipses, each before or behind the others, that learn from several views."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
SIDE, COUNT, LEAST = 14, 20, 0.02


class Splats(nn.Module):
    def __init__(self):
        super().__init__()
        self.means = nn.Parameter(torch.rand(COUNT, 2) * 1.6 - 0.8)
        self.scales = nn.Parameter(torch.randn(COUNT, 2) * 0.3 - 1.2)
        self.angles = nn.Parameter(torch.rand(COUNT) * math.pi)
        self.opacities = nn.Parameter(torch.randn(COUNT))
        self.colours = nn.Parameter(torch.randn(COUNT, 3))
        self.depths = nn.Parameter(torch.rand(COUNT), requires_grad=False)

    def spreads(self):
        cos, sin = self.angles.cos(), self.angles.sin()
        turn = torch.stack([cos, -sin, sin, cos], dim=-1).view(-1, 2, 2)
        longer = turn @ torch.diag_embed(self.scales.exp())
        return longer @ longer.mT

    def forward(self, places, view, behind):
        """Of the nearest first, each is seen by what those before it let through."""
        spread = view @ self.spreads() @ view.mT + LEAST * torch.eye(2)
        apart = places[:, None] - self.means @ view.mT
        far = torch.einsum("pni,nij,pnj->pn", apart, torch.linalg.inv(spread), apart)
        alpha = (torch.sigmoid(self.opacities) * torch.exp(-0.5 * far)).clamp(max=0.99)
        order = self.depths.argsort()
        alpha, colours = alpha[:, order], torch.sigmoid(self.colours)[order]
        through = torch.cumprod(torch.cat([torch.ones(len(places), 1), 1 - alpha], dim=1), dim=1)
        weights = alpha * through[:, :-1]
        return weights @ colours + through[:, -1:] * behind


def alike(a, b):
    """How alike small windows are, by means, spreads and what they share."""
    a, b = (x.view(SIDE, SIDE, 3).permute(2, 0, 1).unsqueeze(0) for x in (a, b))
    mean_a, mean_b = F.avg_pool2d(a, 5, 1), F.avg_pool2d(b, 5, 1)
    var_a = F.avg_pool2d(a * a, 5, 1) - mean_a.square()
    var_b = F.avg_pool2d(b * b, 5, 1) - mean_b.square()
    both = F.avg_pool2d(a * b, 5, 1) - mean_a * mean_b
    light = (2 * mean_a * mean_b + 1e-4) / (mean_a.square() + mean_b.square() + 1e-4)
    return (light * (2 * both + 9e-4) / (var_a + var_b + 9e-4)).mean()


torch.set_default_dtype(DTYPE)
torch.set_num_threads(1)
torch.manual_seed(616)
truth, model = Splats().requires_grad_(False), Splats()
# model built
rates = {"means": 5e-3, "scales": 1e-2, "angles": 1e-2, "opacities": 5e-2, "colours": 2e-2}
groups = [{"params": [getattr(model, name)], "lr": rate} for name, rate in rates.items()]
optimizer = torch.optim.Adam(groups, eps=1e-15, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, [lambda n: 0.9**n if n else 1.0] + [lambda n: 1.0] * (len(groups) - 1)
)
generator = torch.Generator().manual_seed(76)
line = torch.linspace(-1, 1, SIDE)
places = torch.cartesian_prod(line, line)
for step in range(3):
    turned, nearer = (torch.rand(2, generator=generator) - 0.5).tolist()
    cos, sin, size = math.cos(turned), math.sin(turned), 1 + 0.4 * nearer
    view = size * torch.tensor([[cos, -sin], [sin, cos]])
    behind = torch.rand(3, generator=generator)
    with torch.no_grad():
        wanted = truth(places, view, behind)
    seen = model(places, view, behind)
    loss = 0.8 * F.l1_loss(seen, wanted) + 0.2 * (1 - alike(seen, wanted)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
