# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""FocalNet: what is near, less near and everywhere modulates each place; pictures and kinds are mixed."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import FocalNetConfig, FocalNetForImageClassification

DTYPE = torch.float32
SIDE, KINDS, BATCH, STEPS, EASY = 16, 5, 12, 4, 0.4


def config():
    return FocalNetConfig(
        image_size=SIDE,
        patch_size=2,
        num_channels=3,
        embed_dim=16,
        hidden_sizes=[16, 32],
        depths=[2, 2],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        mlp_ratio=2.0,
        drop_path_rate=0.2,
        use_layerscale=True,
        layerscale_value=1.0,
        normalize_modulator=True,
        initializer_range=0.2,
        num_labels=KINDS,
    )


def pictures(generator):
    """Rings of several widths around some place."""
    kinds = torch.randint(KINDS, (BATCH,), generator=generator)
    y, x = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    middle = torch.rand(BATCH, 2, 1, 1, generator=generator) - 0.5
    apart = ((y - middle[:, 0]).square() + (x - middle[:, 1]).square()).sqrt()
    rings = torch.cos(apart * (3.0 + 2 * kinds.view(-1, 1, 1)))
    colour = torch.rand(BATCH, 3, 1, 1, generator=generator)
    return rings.unsqueeze(1) * colour + 0.2 * torch.randn(BATCH, 3, SIDE, SIDE, generator=generator), kinds


def mixed(x, generator):
    """Each picture with another one, by a share of a Beta distribution, made of powers of even numbers."""
    a, b = torch.rand(2, generator=generator).pow(1 / EASY)
    share = (a / (a + b)).item()
    order = torch.randperm(BATCH, generator=generator)
    return share * x + (1 - share) * x[order], order, share


torch.set_num_threads(1)
torch.manual_seed(1004)
model = FocalNetForImageClassification(config()).to(DTYPE)
# model built
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3, momentum_decay=4e-3, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
generator = torch.Generator().manual_seed(104)
for step in range(STEPS):
    x, kinds = pictures(generator)
    x, order, share = mixed(x, generator)
    logits = model(pixel_values=x.to(DTYPE)).logits.float()
    one, other = (F.cross_entropy(logits, wanted, label_smoothing=0.1) for wanted in (kinds, kinds[order]))
    loss = share * one + (1 - share) * other
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
