# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which way points get likelier, without knowing how likely they are: by slopes along random directions."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, BATCH, STEPS, SLICES, NOISE, KEEPS, LOUDER = 4, 32, 48, 4, 3, 0.1, 0.9, 2.0


class Model(nn.Module):
    """One way at each point; what is far is looked at on a smaller scale."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(SEEN))
        self.one, self.two = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE)
        self.three = nn.Linear(WIDE, SEEN)

    def forward(self, x):
        small = x * self.scale.exp() / (1 + x.square().mean(dim=-1, keepdim=True)).sqrt()
        y = F.softplus(self.one(small))
        y = y + F.softplus(self.two(y))
        return self.three(y).float() - x


def sliced(model, x, directions):
    """Along each direction: how the score changes there, and half of the square of the whole score."""
    x = x.expand(SLICES, -1, -1).detach().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        score = model(x)
    along = (score * directions).sum()
    (slope,) = torch.autograd.grad(along, x, create_graph=True)
    curved = (slope * directions).sum(dim=2)
    return (curved + 0.5 * score.square().sum(dim=2)).mean()


class Slow:
    """What gradients have in common over steps is made louder."""

    def __init__(self, params):
        self.params = list(params)
        self.means = None

    @torch.no_grad()
    def louder(self):
        if self.means is None:
            self.means = [p.grad.clone() for p in self.params]
        for p, mean in zip(self.params, self.means):
            mean.mul_(KEEPS).add_(p.grad, alpha=1 - KEEPS)
            p.grad.add_(mean, alpha=LOUDER)


def points(middles, generator):
    """Bumps of several sizes on a few places, and a bent pair of numbers."""
    kinds = torch.randint(0, len(middles), (BATCH,), generator=generator)
    x = middles[kinds] + (0.2 + 0.1 * kinds.unsqueeze(1)) * torch.randn(BATCH, SEEN, generator=generator)
    return torch.cat([x[:, :-1], x[:, -1:] + 0.5 * x[:, :1].square()], dim=1)


torch.set_num_threads(1)
torch.manual_seed(1409)
model = Model()
# model built
slow = Slow(model.parameters())
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3, momentum_decay=1e-2, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
middles = 1.5 * torch.randn(5, SEEN, generator=torch.Generator().manual_seed(9))
generator = torch.Generator().manual_seed(14109)
for step in range(STEPS):
    x = points(middles, generator)
    x = x + NOISE * torch.randn(x.shape, generator=generator)
    directions = torch.randint(0, 2, (SLICES, BATCH, SEEN), generator=generator) * 2.0 - 1
    loss = sliced(model, x, directions)
    optimizer.zero_grad()
    loss.backward()
    slow.louder()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
