# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Groups that nobody named: what is seen belongs to middles by a Student t, and shall do so more surely."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, CODE, GROUPS, ROWS, BATCH, STEPS, EVERY, SHARE, FREE = 16, 24, 4, 5, 96, 48, 4, 2, 1.0, 1.5


class Model(nn.Module):
    """There and back again, with middles of groups amid it."""

    def __init__(self):
        super().__init__()
        self.into = nn.Sequential(nn.Linear(SEEN, WIDE), nn.LeakyReLU(0.1), nn.Linear(WIDE, CODE))
        self.back = nn.Sequential(nn.Linear(CODE, WIDE), nn.LeakyReLU(0.1), nn.Linear(WIDE, SEEN))
        nn.init.normal_(self.into[2].weight, std=0.8)
        self.middles = nn.Parameter(torch.zeros(GROUPS, CODE))

    def forward(self, x):
        code = self.into(x)
        return code.float(), self.back(code).float()

    def belongs(self, code):
        """Shares of groups, by how far their middles are."""
        far = (code.unsqueeze(1) - self.middles).square().sum(dim=2)
        near = (1 + far / FREE) ** (-(FREE + 1) / 2)
        return near / near.sum(dim=1, keepdim=True)


@torch.no_grad()
def surer(shares):
    """Squares of shares, of which large groups have less; again as shares."""
    square = shares.square() / shares.sum(dim=0)
    return square / square.sum(dim=1, keepdim=True)


@torch.no_grad()
def spread(code):
    """First middles: each is what is farthest from all that are chosen."""
    chosen = [code.mean(dim=0)]
    while len(chosen) < GROUPS:
        far = torch.cdist(code, torch.stack(chosen)).amin(dim=1)
        chosen.append(code[far.argmax()])
    return torch.stack(chosen)


def rows(generator):
    """Bumps, bent and put into more numbers."""
    kinds = torch.arange(ROWS) % GROUPS
    few = 2 * torch.randn(GROUPS, 3, generator=generator)[kinds] + 0.5 * torch.randn(
        ROWS, 3, generator=generator
    )
    x = torch.tanh(few @ torch.randn(3, SEEN, generator=generator) / 2)
    return x + 0.1 * torch.randn(ROWS, SEEN, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1413)
model = Model()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.7)
x = rows(torch.Generator().manual_seed(14113))
generator = torch.Generator().manual_seed(13)
order = torch.randperm(ROWS, generator=generator)
with torch.no_grad():
    model.middles.copy_(spread(model(x)[0]))
for step in range(STEPS):
    if step % EVERY == 0:
        with torch.no_grad():
            wanted = surer(model.belongs(model(x)[0]))
    mine = order.roll(-step * BATCH)[:BATCH]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        code, again = model(x[mine])
    shares = model.belongs(code)
    parts = F.kl_div(shares.log(), wanted[mine], reduction="batchmean")
    wrong = F.mse_loss(again, x[mine])
    optimizer.zero_grad()
    (wrong + SHARE * parts).backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {wrong.item()!r} {parts.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
