# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Poses: hourglasses one after the other give maps of where joints are; what is hidden is not counted."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
JOINTS, WIDTH, SIDE, SPREAD = 4, 12, 16, 1.2


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.norm1, self.norm2 = nn.GroupNorm(3, WIDTH), nn.GroupNorm(3, WIDTH)

    def forward(self, x):
        return x + self.second(F.relu(self.norm2(self.first(F.relu(self.norm1(x))))))


class Hourglass(nn.Module):
    """Down and up again; what each size had is added on the way back."""

    def __init__(self, depth):
        super().__init__()
        self.beside, self.down, self.up = Residual(), Residual(), Residual()
        self.inner = Hourglass(depth - 1) if depth > 1 else Residual()

    def forward(self, x):
        low = self.up(self.inner(self.down(F.max_pool2d(x, 2))))
        return self.beside(x) + F.interpolate(low, scale_factor=2, mode="nearest")


class Poses(nn.Module):
    def __init__(self, stacks=2):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 5, padding=2)
        self.glasses = nn.ModuleList(Hourglass(2) for _ in range(stacks))
        self.maps = nn.ModuleList(nn.Conv2d(WIDTH, JOINTS, 1) for _ in range(stacks))
        self.back = nn.ModuleList(nn.Conv2d(JOINTS, WIDTH, 1) for _ in range(stacks - 1))

    def forward(self, x):
        x, found = self.stem(x), []
        for n, (glass, to_maps) in enumerate(zip(self.glasses, self.maps)):
            y = glass(x)
            found.append(to_maps(y))
            if n < len(self.back):
                x = x + y + self.back[n](found[-1])
        return torch.stack(found, dim=1)


def heat(joints):
    """A hill at each joint, of height 1."""
    places = torch.arange(SIDE + 0.0)
    x = (places - joints[..., 0:1]).square()
    y = (places - joints[..., 1:2]).square()
    return torch.exp(-(x.unsqueeze(-2) + y.unsqueeze(-1)) / (2 * SPREAD**2))


def batch_of(generator):
    joints = torch.randint(2, SIDE - 2, (6, JOINTS, 2), generator=generator).float()
    seen = torch.rand(6, JOINTS, generator=generator) < 0.8
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    shown = torch.einsum("njyx,jc->ncyx", heat(joints) * seen[:, :, None, None], colours)
    return shown + 0.1 * torch.randn(shown.shape, generator=generator), heat(joints), seen


torch.set_num_threads(1)
torch.manual_seed(714)
model = Poses()
# model built
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, amsgrad=True, foreach=False)
generator = torch.Generator().manual_seed(714)
for step in range(3):
    x, wanted, seen = batch_of(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    lost = (found.float() - wanted.unsqueeze(1)).square().mean((3, 4))
    loss = (lost * seen.unsqueeze(1)).sum() / seen.sum()
    optimizer.zero_grad()
    (100 * loss).backward()
    optimizer.step()
    with torch.no_grad():
        for kept, p in zip(average.parameters(), model.parameters()):
            kept.lerp_(p, 1 / (step + 2))
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
with torch.no_grad():
    print(f"step 3 loss {(average(x)[:, -1] - wanted).square().mean().item()!r}")
