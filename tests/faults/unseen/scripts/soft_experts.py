# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A soft mixture: each slot of an expert is a mean of all patches, each patch a mean of all slots."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, EXPERTS, SLOTS, KINDS, PATCH = 24, 3, 2, 6, 4


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SoftMixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(WIDTH, EXPERTS * SLOTS) * WIDTH**-0.5)
        self.scale = nn.Parameter(torch.tensor(4.0))
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        logits = (F.normalize(x, dim=-1) @ (self.scale * F.normalize(self.slots, dim=0))).float()
        given = logits.softmax(dim=1).to(x.dtype)
        taken = logits.softmax(dim=2).to(x.dtype)
        parts = (given.mT @ x).chunk(EXPERTS, dim=1)
        made = torch.cat([expert(part) for expert, part in zip(self.experts, parts)], dim=1)
        return taken @ made


class Block(nn.Module):
    def __init__(self, mixture):
        super().__init__()
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.mlp = mixture

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.other(x))


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.places = nn.Parameter(torch.randn(16, WIDTH) * 0.1)
        self.blocks = nn.Sequential(Block(Expert()), Block(SoftMixture()), Block(SoftMixture()))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, KINDS)

    def forward(self, x):
        h = self.patches(x).flatten(2).mT + self.places
        return self.out(self.norm(self.blocks(h)).mean(dim=1))


def mixed(x, generator):
    """Each picture with another one, by a share."""
    share = 0.5 + 0.5 * torch.rand(len(x), 1, generator=generator)
    order = torch.randperm(len(x), generator=generator)
    x = share[:, :, None, None] * x + (1 - share[:, :, None, None]) * x[order]
    return x, share.squeeze(1), order


torch.set_num_threads(1)
torch.manual_seed(711)
model = Pictures()
# model built
decayed = [p for p in model.parameters() if p.ndim > 1]
others = [p for p in model.parameters() if p.ndim <= 1]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(711)
for step in range(3):
    x = torch.randn(8, 3, 16, 16, generator=generator)
    wanted = (F.avg_pool2d(x.sum(1), 8).flatten(1).argmax(1) + (x.mean((1, 2, 3)) > 0)) % KINDS
    x, share, order = mixed(x, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x).float()
    ours = F.cross_entropy(logits, wanted, reduction="none")
    theirs = F.cross_entropy(logits, wanted[order], reduction="none")
    loss = (share * ours + (1 - share) * theirs).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
