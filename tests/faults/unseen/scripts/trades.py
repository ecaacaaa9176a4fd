# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures changed to mislead: the worst near each is looked for, and shall be seen as the picture is."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, WIDE, SIDE, FAR, NEAR, TRIES, WEIGHT, STEPS = 4, 8, 12, 0.1, 0.04, 3, 4.0, 3


class Block(nn.Module):
    """Norm, then what is not negative, then the kernel."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(before), nn.BatchNorm2d(after)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.norm1(x))
        return self.short(h) + self.conv2(F.relu(self.norm2(self.conv1(h))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDE, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(Block(WIDE, WIDE, 1), Block(WIDE, 2 * WIDE, 2))
        self.norm, self.out = nn.BatchNorm2d(2 * WIDE), nn.Linear(2 * WIDE, KINDS)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            h = F.relu(self.norm(self.blocks(self.stem(x))))
            return self.out(h.mean((2, 3))).float()


def apart(found, wanted):
    """How much is lost where the one is said and the other is so."""
    return F.kl_div(found.log_softmax(dim=-1), wanted.softmax(dim=-1), reduction="batchmean")


def misleading(model, x, noise):
    """Steps uphill, never far from the picture and always a picture; norms rest meanwhile."""
    model.eval()
    with torch.no_grad():
        wanted = model(x)
    bad = x + 0.01 * noise
    for _ in range(TRIES):
        bad.requires_grad_()
        uphill = torch.autograd.grad(apart(model(bad), wanted), bad)[0]
        bad = bad.detach() + NEAR * uphill.sign()
        bad = torch.minimum(torch.maximum(bad, x - FAR), x + FAR).clamp(0, 1)
    model.train()
    return bad


def pictures(generator):
    """Stripes of four directions."""
    kinds = torch.randint(KINDS, (16,), generator=generator)
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    turn = kinds.view(-1, 1, 1) * torch.pi / KINDS
    waves = torch.sin(turn.cos() * x + turn.sin() * y + 6 * torch.rand(16, 1, 1, generator=generator))
    colour = torch.rand(16, 3, 1, 1, generator=generator)
    x = 0.5 + 0.4 * waves.unsqueeze(1) * colour + 0.05 * torch.randn(16, 3, SIDE, SIDE, generator=generator)
    return x.clamp(0, 1), kinds


torch.set_num_threads(1)
torch.manual_seed(913)
model = Net()
# model built
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, dampening=0.1, foreach=False
)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2], gamma=0.4)
generator = torch.Generator().manual_seed(103)
for step in range(STEPS):
    x, kinds = pictures(generator)
    bad = misleading(model, x, torch.randn(x.shape, generator=generator))
    plain = model(x)
    loss = F.cross_entropy(plain, kinds) + WEIGHT * apart(model(bad), plain)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
