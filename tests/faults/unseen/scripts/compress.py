# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures in few bits: what is kept is as likely as a second, smaller code says; bits against likeness."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDE, CODE, SIDE, BATCH, STEPS, LIKENESS = 12, 6, 16, 6, 4, 20.0


class Divided(nn.Module):
    """Each channel is divided by how lively all are at its place, or multiplied on the way back."""

    def __init__(self, wide, back=False):
        super().__init__()
        self.least = nn.Parameter(torch.ones(wide))
        self.weights = nn.Parameter(0.1 * torch.eye(wide) + 0.01)
        self.back = back

    def forward(self, x):
        x = x.float()
        weights = self.weights.clamp(min=0)[..., None, None]
        lively = F.conv2d(x.square(), weights, self.least.clamp(min=1e-6))
        return x * (torch.sqrt(lively) if self.back else torch.rsqrt(lively))


def down(before, after):
    return nn.Conv2d(before, after, 5, stride=2, padding=2)


def up(before, after):
    return nn.ConvTranspose2d(before, after, 5, stride=2, padding=2, output_padding=1)


def middle(x, generator):
    """What rounding does to the code, as noise."""
    return x.float() + torch.rand(x.shape, generator=generator) - 0.5


def below(x):
    return 0.5 * torch.erfc(-x / math.sqrt(2))


class Compressed(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_code = nn.Sequential(down(3, WIDE), Divided(WIDE), down(WIDE, CODE))
        self.to_picture = nn.Sequential(up(CODE, WIDE), Divided(WIDE, back=True), up(WIDE, 3))
        self.to_small = nn.Sequential(nn.Conv2d(CODE, WIDE, 3, padding=1), nn.LeakyReLU(), down(WIDE, CODE))
        self.to_spread = nn.Sequential(
            up(CODE, WIDE), nn.LeakyReLU(), nn.Conv2d(WIDE, 2 * CODE, 3, padding=1)
        )
        self.slopes, self.shifts = nn.Parameter(torch.ones(CODE)), nn.Parameter(torch.zeros(CODE))

    def small_share(self, z):
        """Of a code that nothing is known of before: a logistic distribution of each channel."""
        slopes, shifts = (p.view(1, -1, 1, 1) for p in (F.softplus(self.slopes), self.shifts))
        return torch.sigmoid(slopes * (z + 0.5) + shifts) - torch.sigmoid(slopes * (z - 0.5) + shifts)

    @staticmethod
    def share(y, mean, spread):
        far = (y - mean).abs()
        return below((0.5 - far) / spread) - below((-0.5 - far) / spread)

    def forward(self, x, generator):
        code = self.to_code(x)
        z = middle(self.to_small(code), generator)
        mean, spread = self.to_spread(z).float().chunk(2, dim=1)
        y = middle(code, generator)
        shares = self.share(y, mean, F.softplus(spread) + 0.1), self.small_share(z)
        return self.to_picture(y).float(), shares


def pictures(generator):
    """Smooth hills of some colours with edges."""
    rough = torch.randn(BATCH, 3, 4, 4, generator=generator)
    hills = F.interpolate(rough, (SIDE, SIDE), mode="bicubic", align_corners=False)
    cut = torch.randn(BATCH, 1, 2, 2, generator=generator)
    return torch.sigmoid(hills + F.interpolate(cut, (SIDE, SIDE), mode="nearest"))


torch.set_num_threads(1)
torch.manual_seed(1010)
model = Compressed()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
generator = torch.Generator().manual_seed(110)
for step in range(STEPS):
    x = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found, shares = model(x, generator)
    bits = sum(-share.clamp(min=1e-9).log2().sum() for share in shares) / (BATCH * SIDE * SIDE)
    loss = bits + LIKENESS * F.mse_loss(found, x)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {bits.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
