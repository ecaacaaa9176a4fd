# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A picture turned is seen turned: kernels of four quarter turns, which change places with it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDE, KINDS, SIDE, BATCH, STEPS = 6, 5, 13, 12, 3


class Lifts(nn.Module):
    """A plane to four, one of each turn of the kernels."""

    def __init__(self, before, after):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before, 3, 3) / (9 * before) ** 0.5)

    def forward(self, x):
        found = [F.conv2d(x, torch.rot90(self.weight, turn, (2, 3)), padding=1) for turn in range(4)]
        return torch.stack(found, dim=2)


class Turns(nn.Module):
    """Four planes to four: kernels are turned, and the planes that they look at go round."""

    def __init__(self, before, after):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before, 4, 3, 3) / (36 * before) ** 0.5)

    def forward(self, x):
        found = []
        for turn in range(4):
            weight = torch.rot90(self.weight.roll(turn, dims=2), turn, (3, 4))
            found.append(F.conv2d(x.flatten(1, 2), weight.flatten(1, 2), padding=1))
        return torch.stack(found, dim=2)


class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.lifts, self.turns = Lifts(1, WIDE), nn.ModuleList(Turns(WIDE, WIDE) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm3d(WIDE, momentum=0.2) for _ in range(3))
        self.out = nn.Linear(WIDE, KINDS)

    def forward(self, x):
        x = F.relu(self.norms[0](self.lifts(x)))
        for turns, norm in zip(self.turns, self.norms[1:]):
            x = x + F.relu(norm(turns(x)))
            x = F.max_pool3d(x, (1, 2, 2), ceil_mode=True)
        return self.out(x.amax(dim=2).mean((2, 3))).float()


def pictures(generator):
    """Spirals with several arms and winding, turned somehow."""
    kinds = torch.randint(KINDS, (BATCH,), generator=generator)
    y, x = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    angle, far = torch.atan2(y, x), (x.square() + y.square()).sqrt()
    arms, winding = (1 + kinds % 3).view(-1, 1, 1), (kinds - 2.0).view(-1, 1, 1)
    begin = 6.3 * torch.rand(BATCH, 1, 1, generator=generator)
    spirals = torch.cos(arms * angle + 4 * winding * far + begin).unsqueeze(1)
    return spirals + 0.3 * torch.randn(BATCH, 1, SIDE, SIDE, generator=generator), kinds


torch.set_num_threads(1)
torch.manual_seed(1014)
model = Seen()
# model built
flat = [p for p in model.parameters() if p.ndim == 1]
rest = [p for p in model.parameters() if p.ndim > 1]
groups = [{"params": rest, "weight_decay": 5e-2}, {"params": flat, "weight_decay": 0.0}]
optimizer = torch.optim.SGD(groups, lr=0.004, momentum=0.9, nesterov=True, foreach=False)
schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.004, 0.02, step_size_up=2, cycle_momentum=False)
generator = torch.Generator().manual_seed(114)
for step in range(STEPS):
    x, kinds = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.multi_margin_loss(logits, kinds, p=2, margin=1.0)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
