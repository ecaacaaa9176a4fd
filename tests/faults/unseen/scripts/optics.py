# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A lens and what reads its pictures learn together: waves through a plate, its blur, and a filter."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, WIDE, BATCH, STEPS, LIGHT, DARK, FLAT = 16, 12, 6, 4, 60.0, 0.02, 1e-3


class Plate(nn.Module):
    """How thick it is at each place; waves through it meet on the film."""

    def __init__(self):
        super().__init__()
        at = torch.linspace(-1, 1, SIDE)
        far = at.square().unsqueeze(1) + at.square()
        self.thick = nn.Parameter(4.0 * far + 0.1 * torch.randn(SIDE, SIDE))
        self.register_buffer("open", (far <= 1).float())

    def forward(self):
        """The blur of one point, which adds up to one and whose middle is at the corner."""
        wave = torch.polar(self.open, self.thick)
        film = torch.fft.fftshift(torch.fft.fft2(wave, norm="ortho"))
        light = film.abs().square()
        return torch.fft.ifftshift(light / light.sum())

    def rough(self):
        return self.thick.diff(dim=0).square().mean() + self.thick.diff(dim=1).square().mean()


class Camera(nn.Module):
    def __init__(self):
        super().__init__()
        self.plate = Plate()
        self.noise = nn.Parameter(torch.tensor(-3.0))
        self.mend = nn.Sequential(
            nn.Conv2d(2, WIDE, 3, padding=1, padding_mode="circular"),
            nn.GELU(),
            nn.Conv2d(WIDE, WIDE, 3, padding=1, padding_mode="circular", groups=WIDE),
            nn.Conv2d(WIDE, 1, 1),
        )

    def forward(self, scene, grain):
        """Light falls through the plate, comes in grains, is sharpened by Wiener's filter, then mended."""
        passes = torch.fft.fft2(self.plate())
        blurred = torch.fft.ifft2(torch.fft.fft2(scene) * passes).real
        film = blurred + grain * (blurred.clamp(min=0) / LIGHT + DARK**2).sqrt()
        sharpens = passes.conj() / (passes.abs().square() + F.softplus(self.noise) + 1e-3)
        sharp = torch.fft.ifft2(torch.fft.fft2(film) * sharpens).real
        both = torch.stack([sharp, film], dim=1)
        return (sharp + self.mend(both).squeeze(1)).float()


def scenes(generator):
    """Boxes of light, and grains of the film."""
    at = torch.arange(SIDE)
    begins = torch.randint(0, SIDE - 4, (BATCH, 3, 2, 1), generator=generator)
    sizes = torch.randint(2, 7, (BATCH, 3, 2, 1), generator=generator)
    inside = ((at >= begins) & (at < begins + sizes)).float()
    boxes = inside[:, :, 0].unsqueeze(3) * inside[:, :, 1].unsqueeze(2)
    bright = torch.rand(BATCH, 3, 1, 1, generator=generator)
    scene = (bright * boxes).sum(dim=1).clamp(max=1.0)
    return scene, torch.randn(BATCH, SIDE, SIDE, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1112)
model = Camera()
# model built
groups = [
    {"params": [model.plate.thick], "lr": 2e-2, "betas": (0.8, 0.9)},
    {"params": [model.noise, *model.mend.parameters()]},
]
optimizer = torch.optim.Adam(groups, lr=4e-3, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=1e-3)
generator = torch.Generator().manual_seed(112)
for step in range(STEPS):
    scene, grain = scenes(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(scene, grain)
    edges = F.l1_loss(found.diff(dim=2), scene.diff(dim=2)) + F.l1_loss(found.diff(dim=1), scene.diff(dim=1))
    loss = F.mse_loss(found, scene) + 0.1 * edges + FLAT * model.plate.rough()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
