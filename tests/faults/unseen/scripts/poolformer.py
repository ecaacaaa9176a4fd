# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PoolFormer: places see each other by a mean alone; how a picture was turned, and what is on it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import PoolFormerConfig, PoolFormerModel

AUTOCAST = False
SIDE, KINDS, BATCH, STEPS, TURNS, SMOOTH = 32, 5, 4, 4, 0.7, 0.1


def config():
    return PoolFormerConfig(
        num_channels=3,
        depths=(2, 2),
        hidden_sizes=(16, 24),
        patch_sizes=(5, 3),
        strides=(4, 2),
        padding=(2, 1),
        num_encoder_blocks=2,
        mlp_ratio=2.0,
        layer_scale_init_value=0.2,
        initializer_range=0.15,
    )


class Two(nn.Module):
    """One body, a head for the kind and one for the turn."""

    def __init__(self):
        super().__init__()
        self.body = PoolFormerModel(config())
        self.norm = nn.LayerNorm(24)
        self.kind, self.turn = nn.Linear(24, KINDS), nn.Linear(2 * 24, 4)

    def forward(self, x):
        x = self.body(x).last_hidden_state
        seen = self.norm(x.mean((2, 3)))
        tall, wide = x.mean(3).amax(2), x.mean(2).amax(2)
        return self.kind(seen).float(), self.turn(torch.cat([tall, wide], dim=1)).float()


def pictures(generator):
    """Stripes get denser to the right, by how much says the kind; each picture comes in four turns."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    at = torch.linspace(0, 1, SIDE)
    waves = torch.sin((8 + 4 * kinds.view(-1, 1, 1)) * at.square() + at.unsqueeze(1))
    x = waves.unsqueeze(1) + 0.3 * torch.randn(BATCH, 3, SIDE, SIDE, generator=generator)
    x = x * torch.rand(BATCH, 3, 1, 1, generator=generator)
    turned = torch.stack([torch.rot90(x, turn, (2, 3)) for turn in range(4)], dim=1)
    return turned.flatten(0, 1), kinds.repeat_interleave(4), torch.arange(4).repeat(BATCH)


torch.set_num_threads(1)
torch.manual_seed(1115)
model = Two()
# model built
scales = [p for name, p in model.named_parameters() if p.ndim < 2]
rest = [p for p in model.parameters() if p.ndim >= 2]
optimizer = torch.optim.RMSprop(
    [{"params": rest, "weight_decay": 1e-3}, {"params": scales}],
    lr=1e-3,
    alpha=0.9,
    momentum=0.5,
    eps=1e-5,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.6)
generator = torch.Generator().manual_seed(1115)
for step in range(STEPS):
    x, kinds, turns = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        kind, turn = model(x)
    loss = F.cross_entropy(kind, kinds, label_smoothing=SMOOTH) + TURNS * F.cross_entropy(turn, turns)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
