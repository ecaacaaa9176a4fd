# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Holes in pictures are filled: kernels that count only what is there, and holes that get smaller."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, SIDE, IN_HOLES, SMOOTH = 12, 16, 6.0, 0.1


class PartialConv(nn.Module):
    """What is seen through few points counts for more; a place is there if any point below it is."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(after, 1, 1))
        self.stride = stride
        nn.init.kaiming_normal_(self.conv.weight, a=0.2)

    def forward(self, x, there):
        with torch.no_grad():
            count = F.conv2d(there, torch.ones(1, 1, 3, 3), stride=self.stride, padding=1)
            scale = 9 / count.clamp(min=1.0)
            after = (count > 0).float()
        return (self.conv(x * there) * scale + self.bias) * after, after


class Filler(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(3, WIDTH, 1), (WIDTH, 2 * WIDTH, 2), (2 * WIDTH, 2 * WIDTH, 2)]
        self.down = nn.ModuleList(PartialConv(*size) for size in sizes)
        self.norms = nn.ModuleList(nn.GroupNorm(4, size[1]) for size in sizes)
        self.up = nn.ModuleList([PartialConv(4 * WIDTH, WIDTH, 1), PartialConv(2 * WIDTH, WIDTH, 1)])
        self.out = PartialConv(WIDTH + 3, 3, 1)

    def forward(self, x, there):
        kept = [(x, there)]
        for conv, norm in zip(self.down, self.norms):
            x, there = conv(x, there)
            x = F.relu(norm(x))
            kept.append((x, there))
        for conv, before in zip(self.up, reversed(kept[1:-1])):
            x, there = conv(*self.joined(x, there, *before))
            x = F.leaky_relu(x, 0.2)
        x = torch.cat([x, kept[0][0] * kept[0][1]], dim=1)
        return self.out(x, torch.maximum(there, kept[0][1]))[0].float()

    @staticmethod
    def joined(x, there, before, was_there):
        """Twice as large, beside what was there before."""
        x, there = F.interpolate(x, scale_factor=2.0), F.interpolate(there, scale_factor=2.0)
        return torch.cat([x, before], dim=1), torch.maximum(there, was_there)


def rough(x, there):
    """Steps between neighbours, in holes and one point around them."""
    near = F.max_pool2d(1 - there, 3, 1, 1)
    along = (x.diff(dim=3).abs() * near[..., 1:] * near[..., :-1]).mean()
    return along + (x.diff(dim=2).abs() * near[..., 1:, :] * near[..., :-1, :]).mean()


def batch_of(generator):
    x = F.avg_pool2d(torch.randn(8, 3, SIDE + 4, SIDE + 4, generator=generator), 5, 1) * 4
    there = torch.ones(8, 1, SIDE, SIDE)
    for n in range(8):
        y, z, size = torch.randint(2, 9, (3,), generator=generator).tolist()
        there[n, :, y : y + size, z : z + size] = 0.0
    return x, there


torch.set_num_threads(1)
torch.manual_seed(814)
model = Filler()
# model built
optimizer = torch.optim.RAdam(
    model.parameters(), lr=4e-3, weight_decay=1e-2, decoupled_weight_decay=True, foreach=False
)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 3], gamma=0.5)
generator = torch.Generator().manual_seed(814)
for step in range(4):
    x, there = batch_of(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x * there, there)
    off = (found - x).abs()
    filled = there * x + (1 - there) * found
    loss = (off * there).mean() + IN_HOLES * (off * (1 - there)).mean() + SMOOTH * rough(filled, there)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
