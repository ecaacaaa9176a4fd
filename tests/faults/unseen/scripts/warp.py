# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Optical flow without labels: where each pixel of a picture went, such that the other, moved back, is it."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
RANGE = 2


def moved(x, flow):
    """What lies where the flow, in pixels, leads."""
    height, width = x.shape[-2:]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    at = torch.stack([columns, rows]).to(flow) + flow
    size = torch.tensor([width - 1, height - 1]).to(flow).view(1, 2, 1, 1)
    grid = (2 * at / size - 1).permute(0, 2, 3, 1)
    return F.grid_sample(x.float(), grid, padding_mode="border", align_corners=True)


def correlation(a, b):
    """How alike each pixel is to those around it in the other picture."""
    height, width = a.shape[-2:]
    padded = F.pad(b, (RANGE, RANGE, RANGE, RANGE))
    found = []
    for row in range(2 * RANGE + 1):
        for column in range(2 * RANGE + 1):
            found.append((a * padded[:, :, row : row + height, column : column + width]).mean(1))
    return torch.stack(found, 1)


def level(before, after):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(after, after, 3, 1, 1)
    )


class FlowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine, self.coarse = level(1, 12), level(12, 16)
        costs = (2 * RANGE + 1) ** 2
        self.read_coarse = nn.Sequential(
            nn.Conv2d(costs, 16, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(16, 2, 3, 1, 1)
        )
        self.read_fine = nn.Sequential(
            nn.Conv2d(costs + 14, 16, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(16, 2, 3, 1, 1)
        )

    @staticmethod
    def larger(flow):
        return 2 * F.interpolate(flow, scale_factor=2, mode="bilinear", align_corners=False)

    def forward(self, first, second):
        fine1, fine2 = self.fine(first), self.fine(second)
        coarse1, coarse2 = self.coarse(F.leaky_relu(fine1, 0.1)), self.coarse(F.leaky_relu(fine2, 0.1))
        flow = self.larger(self.read_coarse(correlation(coarse1, coarse2)).float())
        back = moved(fine2, flow).to(fine1.dtype)
        known = torch.cat([correlation(fine1, back), fine1, flow.to(fine1.dtype)], dim=1)
        return self.larger(flow + self.read_fine(known).float())


def charbonnier(x):
    return (x.square() + 1e-3**2).sqrt().mean()


def objective(net, first, second):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        flow = net(first, second)
    across, along = flow.diff(dim=3), flow.diff(dim=2)
    return charbonnier(moved(second, flow) - first) + 0.1 * (charbonnier(across) + charbonnier(along))


torch.set_num_threads(1)
torch.manual_seed(516)
net = FlowNet()
# model built
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, amsgrad=True, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=12)
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    begin = saved["step"]
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(begin, TOTAL):
    g = torch.Generator().manual_seed(1600 + step)
    scene = F.avg_pool2d(torch.randn(4, 1, 20, 20, generator=g), 3, 1, 1) * 3
    first, second = scene[:, :, 2:18, 2:18], scene[:, :, 1:17, 3:19]
    loss = objective(net, first, second)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"net": net, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))
