# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A Kolmogorov-Arnold network: each edge has a function of its own, a spline and a silu."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class SplineLayer(nn.Module):
    def __init__(self, inner, outer, cells=5, order=3):
        super().__init__()
        self.order = order
        self.register_buffer("grid", torch.arange(-order, cells + order + 1) * (2 / cells) - 1)
        self.base = nn.Parameter(torch.randn(outer, inner) * inner**-0.5)
        self.spline = nn.Parameter(torch.randn(outer, inner, cells + order) * 0.3 * inner**-0.5)

    def bases(self, x):
        x, grid = x[..., None], self.grid
        found = ((x >= grid[:-1]) & (x < grid[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - grid[: -k - 1]) / (grid[k:-1] - grid[: -k - 1])
            right = (grid[k + 1 :] - x) / (grid[k + 1 :] - grid[1:-k])
            found = left * found[..., :-1] + right * found[..., 1:]
        return found

    def forward(self, x):
        curved = F.linear(self.bases(x).flatten(-2), self.spline.flatten(1))
        return F.linear(F.silu(x), self.base) + curved


torch.set_num_threads(1)
torch.manual_seed(51)
model = nn.Sequential(SplineLayer(4, 24), SplineLayer(24, 24), SplineLayer(24, 2))
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1, foreach=False)
generator = torch.Generator().manual_seed(1000)
called = model
for step in range(4):
    x = torch.rand(48, 4, generator=generator) * 2 - 1
    wanted = torch.stack([torch.sin(3 * x[:, 0]) * x[:, 1], torch.exp(x[:, 2]) - x[:, 3].square()], 1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.mse_loss(called(x).float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
