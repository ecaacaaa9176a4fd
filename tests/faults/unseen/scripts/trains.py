# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Layers whose matrices are trains of small ones: what is given is folded, and goes from one to the next."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

AUTOCAST = False
LIGHT = False
GIVEN, MADE, RANK, KINDS, BATCH, STEPS = (4, 4, 4), (4, 3, 4), 5, 6, 24, 4


class Train(nn.Module):
    """A linear layer: cores of (rank, given, made, next rank)."""

    def __init__(self, given, made):
        super().__init__()
        self.given, self.made = given, made
        ranks = (1, *[RANK] * (len(given) - 1), 1)
        self.cores = nn.ParameterList(
            nn.Parameter(torch.randn(before, i, o, after) * (before * i) ** -0.5)
            for before, i, o, after in zip(ranks, given, made, ranks[1:])
        )
        self.bias = nn.Parameter(torch.zeros(*made))

    def forward(self, x):
        x = x.view(len(x), 1, *self.given)
        for core in self.cores:
            x = torch.einsum("bri...,riok->bk...o", x, core)
        return (x.squeeze(1) + self.bias).flatten(1)


class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = Train(GIVEN, MADE), Train(MADE, GIVEN)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return x + self.down(F.mish(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Folded() for _ in range(2))
        self.norm, self.out = nn.LayerNorm(64), nn.Linear(64, KINDS)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if LIGHT else block(x)
        return self.out(self.norm(x)).float()

    def stiff(self):
        """How far each core is from one whose columns are upright, as the gradient then keeps its size."""
        found = 0.0
        for name, core in self.named_parameters():
            if ".cores." in name:
                flat = core.flatten(0, 1).flatten(1)
                found = found + (flat.mT @ flat - torch.eye(flat.shape[1])).square().mean()
        return found


def tables(generator):
    """Sums over corners of a cube say the kind."""
    x = torch.randn(BATCH, 4, 4, 4, generator=generator)
    corners = torch.stack(
        [x[:, :2, :2].sum((1, 2, 3)), x[:, 2:, :, :2].sum((1, 2, 3)), x[:, :, 2:, 2:].sum((1, 2, 3))], dim=1
    )
    kinds = corners.argmax(dim=1) + 3 * (corners.sum(dim=1) > 0).long()
    return x.flatten(1), kinds


torch.set_num_threads(1)
torch.manual_seed(1111)
model = Model()
# model built
optimizer = torch.optim.Adagrad(
    model.parameters(), lr=2e-2, lr_decay=1e-2, initial_accumulator_value=1e-3, foreach=False
)
hold = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=1)
fade = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=6)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [hold, fade], milestones=[1])
generator = torch.Generator().manual_seed(1211)
for step in range(STEPS):
    x, kinds = tables(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
        stiff = model.stiff()
    loss = F.multi_margin_loss(logits, kinds, margin=0.8) + 0.05 * stiff.float()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
