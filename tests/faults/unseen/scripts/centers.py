# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Things in a picture as points: a map of where middles are, how large each is, and what rounding lost."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, STRIDE, KINDS, THINGS, BATCH, STEPS = 24, 2, 3, 3, 6, 4
MAP = SIDE // STRIDE
SURE, NEAR, SIZES, OFFSETS, SELDOM = 2, 4, 0.1, 1.0, -2.19


class Model(nn.Module):
    """Down twice, up once with what was seen there, and three heads."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 24, 3, 2, 1)])
        self.norms = nn.ModuleList([nn.GroupNorm(4, 16), nn.GroupNorm(4, 24), nn.GroupNorm(4, 16)])
        self.up, self.side = nn.ConvTranspose2d(24, 16, 4, 2, 1), nn.Conv2d(16, 16, 1)
        self.kinds, self.size, self.offset = (self.head(many) for many in (KINDS, 2, 2))
        nn.init.constant_(self.kinds[2].bias, SELDOM)

    def head(self, many):
        return nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, many, 1))

    def forward(self, x):
        x = F.relu(self.norms[0](self.down[0](x)))
        y = F.relu(self.norms[1](self.down[1](x)))
        x = F.relu(self.norms[2](self.up(y)) + self.side(x))
        return self.kinds(x).float(), self.size(x).float(), self.offset(x).float()


def scenes(generator):
    """Boxes of some colours; middles, sizes and kinds."""
    kind = torch.randint(0, KINDS, (BATCH, THINGS), generator=generator)
    size = 4 + 5 * torch.rand(BATCH, THINGS, 2, generator=generator)
    middle = 5 + (SIDE - 10) * torch.rand(BATCH, THINGS, 2, generator=generator)
    at = torch.arange(SIDE) + 0.5
    rows = (at - middle[..., 0:1]).abs() < size[..., 0:1] / 2
    columns = (at - middle[..., 1:2]).abs() < size[..., 1:2] / 2
    boxes = (rows.unsqueeze(3) & columns.unsqueeze(2)).float()
    x = torch.einsum("btij,btk->bkij", boxes, F.one_hot(kind, KINDS).float()).clamp(max=1.0)
    return x + 0.1 * torch.randn(x.shape, generator=generator), kind, middle / STRIDE, size / STRIDE


def maps(kind, middle, size):
    """Of each kind a bump at each middle, as wide as the thing is large; the highest counts."""
    at = torch.arange(MAP)
    place = middle.floor()
    far = (at - place[..., 0:1]).square().unsqueeze(3) + (at - place[..., 1:2]).square().unsqueeze(2)
    wide = (size.amin(dim=2) / 3).view(BATCH, THINGS, 1, 1)
    bumps = (-far / (2 * wide.square())).exp()
    there = F.one_hot(kind, KINDS).float()
    wanted = (bumps.unsqueeze(2) * there.view(BATCH, THINGS, KINDS, 1, 1)).amax(dim=1)
    return wanted, (place[..., 0] * MAP + place[..., 1]).long()


def focal(logits, wanted):
    """What is sure already counts less, and so does what is near a middle; by how many middles there are."""
    p = torch.sigmoid(logits)
    right = wanted == 1
    hit = (1 - p) ** SURE * F.logsigmoid(logits)
    miss = (1 - wanted) ** NEAR * p**SURE * F.logsigmoid(-logits)
    return -torch.where(right, hit, miss).sum() / right.sum()


def looked_up(field, place):
    return field.flatten(2).gather(2, place.unsqueeze(1).expand(-1, 2, -1)).mT


torch.set_num_threads(1)
torch.manual_seed(1608)
model = Model()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.02, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=STEPS + 1)
generator = torch.Generator().manual_seed(16108)
for step in range(STEPS):
    x, kind, middle, size = scenes(generator)
    wanted, place = maps(kind, middle, size)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        kinds, sizes, offsets = model(x)
    large = F.l1_loss(looked_up(sizes, place), size)
    rest = F.l1_loss(looked_up(offsets, place), middle - middle.floor())
    loss = focal(kinds, wanted) + SIZES * large + OFFSETS * rest
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {large.item()!r} {rest.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
