# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trees that ask softly: a row goes left or right by some chance, and leaves answer; both ways are used."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, KINDS, DEPTH, TREES, BATCH, STEPS, EVEN, KEEPS = 10, 4, 3, 4, 32, 4, 0.3, 0.8


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.asks = nn.Linear(SEEN, 2**DEPTH - 1)
        self.steep = nn.Parameter(torch.full((2**DEPTH - 1,), 1.5))
        self.leaves = nn.Parameter(0.5 * torch.randn(2**DEPTH, KINDS))
        self.register_buffer("usual", torch.full((2**DEPTH - 1,), 0.5))

    def forward(self, x):
        """What the leaves say, by how likely each is reached, and how uneven the ways are."""
        right = torch.sigmoid(self.steep * self.asks(x).float())
        reached, uneven = torch.ones(len(x), 1), 0.0
        for depth in range(DEPTH):
            first = 2**depth - 1
            goes = right[:, first : 2 * first + 1]
            share = (reached * goes).sum(dim=0) / reached.sum(dim=0)
            followed = KEEPS * self.usual[first : 2 * first + 1] + (1 - KEEPS) * share
            uneven = uneven - 2.0**-depth * 0.5 * (followed.log() + (1 - followed).log()).sum()
            with torch.no_grad():
                self.usual[first : 2 * first + 1] = followed
            reached = torch.stack([reached * (1 - goes), reached * goes], dim=2).flatten(1)
        return reached @ self.leaves.softmax(dim=1), uneven


class Forest(nn.Module):
    """Each tree sees what the same layer makes of the row, and counts by what is learnt."""

    def __init__(self):
        super().__init__()
        self.look, self.norm = nn.Linear(SEEN, SEEN), nn.InstanceNorm1d(1)
        self.trees = nn.ModuleList(Tree() for _ in range(TREES))
        self.counts = nn.Parameter(torch.zeros(TREES))

    def forward(self, x):
        x = x + F.mish(self.norm(self.look(x).unsqueeze(1)).squeeze(1))
        said, uneven = zip(*(tree(x) for tree in self.trees))
        counts = self.counts.softmax(dim=0).view(-1, 1, 1)
        return (counts * torch.stack(said)).sum(dim=0), sum(uneven) / TREES


def rows(generator):
    """Two questions, one of which depends on the other."""
    x = torch.randn(BATCH, SEEN, generator=generator)
    one = (x[:, 0] > 0).long()
    two = torch.where(one == 1, x[:, 1] > x[:, 2], x[:, 3] > 0.3).long()
    return x, 2 * one + two


torch.set_num_threads(1)
torch.manual_seed(1309)
model = Forest()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, betas=(0.7, 0.9), amsgrad=True, foreach=False)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.05)
generator = torch.Generator().manual_seed(13109)
for step in range(STEPS):
    x, kinds = rows(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        said, uneven = model(x)
    wrong = F.nll_loss((said + 1e-6).log(), kinds)
    optimizer.zero_grad()
    (wrong + EVEN * uneven).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=float("inf"))
    optimizer.step()
    schedule.step(wrong.item())
    print(f"step {step} loss {wrong.item()!r} {uneven.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
