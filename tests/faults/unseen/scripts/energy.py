# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An energy model: Langevin walks go downhill, the energy of their ends rises, that of data falls."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

use_amp = False


class Energy(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.conv1 = nn.Conv2d(1, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, 2 * c, 4, stride=2, padding=1)
        self.conv3 = nn.Conv2d(2 * c, 2 * c, 4, stride=2, padding=1)
        self.fc = nn.Linear(2 * c, 1)

    def forward(self, x):
        x = F.silu(self.conv1(x))
        x = F.silu(self.conv2(x))
        x = F.silu(self.conv3(x))
        return self.fc(x.sum((2, 3))).squeeze(-1)


def langevin(model, x, steps=5, step_size=2.0, noise=0.01):
    for p in model.parameters():
        p.requires_grad_(False)
    x = x.clone().requires_grad_(True)
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=use_amp):
            e = model(x).float().sum()
        (grad,) = torch.autograd.grad(e, x)
        with torch.no_grad():
            x.sub_(grad.clamp(-0.05, 0.05), alpha=step_size)
            x.add_(torch.randn_like(x), alpha=noise)
            x.clamp_(-1, 1)
    for p in model.parameters():
        p.requires_grad_(True)
    return x.detach()


@torch.no_grad()
def update_ema(ema, model, decay=0.95):
    for ours, theirs in zip(ema.parameters(), model.parameters()):
        ours.mul_(decay).add_(theirs, alpha=1 - decay)


torch.manual_seed(406)
torch.set_num_threads(1)
model = Energy()
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.0, 0.999), foreach=False)
buffer = torch.rand(64, 1, 8, 8) * 2 - 1
yy, xx = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij")
for step in range(4):
    place = torch.rand(16, 2, 1, 1) - 0.5
    real = torch.exp(-4 * ((xx - place[:, :1]) ** 2 + (yy - place[:, 1:]) ** 2)) * 2 - 1
    real = real + 0.03 * torch.randn_like(real)
    chosen = torch.randperm(len(buffer))[:16]
    start = buffer[chosen]
    fresh = torch.rand(16) < 0.05
    start[fresh] = torch.rand(int(fresh.sum()), 1, 8, 8) * 2 - 1
    fake = langevin(model, start)
    buffer[chosen] = fake
    with torch.autocast("cpu", torch.bfloat16, enabled=use_amp):
        e_real, e_fake = model(real), model(fake)
    e_real, e_fake = e_real.float(), e_fake.float()
    loss = (e_real - e_fake).mean() + 0.1 * (e_real**2 + e_fake**2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_ema(ema, model)
    print(f"step {step} loss {e_real.mean().item()!r} {e_fake.mean().item()!r}")
for name, net in (("weights", model), ("buffers", ema)):
    print(name, sum(p.detach().double().abs().sum().item() for p in net.parameters()))
