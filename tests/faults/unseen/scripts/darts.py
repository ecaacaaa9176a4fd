# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network that is looked for: every edge mixes functions, and their shares learn from other pictures."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDE, NODES, KINDS, SIDE, BATCH, ROUNDS = 8, 3, 4, 10, 12, 3


def functions(wide):
    def deep(size, wider):
        return nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(wide, wide, size, padding=size // 2 * wider, dilation=wider, groups=wide, bias=False),
            nn.Conv2d(wide, wide, 1, bias=False),
            nn.BatchNorm2d(wide, affine=False),
        )

    return nn.ModuleList(
        [nn.Identity(), nn.AvgPool2d(3, 1, 1, count_include_pad=False), deep(3, 1), deep(3, 2), deep(5, 1)]
    )


class Edge(nn.Module):
    def __init__(self):
        super().__init__()
        self.functions = functions(WIDE)

    def forward(self, x, shares):
        return sum(share * function(x) for share, function in zip(shares, self.functions))


class Searched(nn.Module):
    """Each node is the sum over edges from all nodes before it."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, WIDE, 3, padding=1, bias=False), nn.BatchNorm2d(WIDE))
        self.edges = nn.ModuleList(Edge() for _ in range(NODES * (NODES + 1) // 2))
        self.chosen = nn.Parameter(1e-1 * torch.randn(len(self.edges), 5))
        self.out = nn.Linear(NODES * WIDE, KINDS)

    def forward(self, x):
        shares, nodes, edges = self.chosen.softmax(dim=-1), [self.stem(x)], iter(range(len(self.edges)))
        for _ in range(NODES):
            found = []
            for node in nodes:
                edge = next(edges)
                found.append(self.edges[edge](node, shares[edge]))
            nodes.append(sum(found))
        return self.out(torch.cat(nodes[1:], dim=1).mean((2, 3))).float()


def pictures(generator):
    """Stripes of four directions, and noise."""
    kinds = torch.randint(KINDS, (BATCH,), generator=generator)
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    along = torch.stack([x, y, x + y, x - y])[kinds] * 1.3
    stripes = torch.sin(along + 6 * torch.rand(BATCH, 1, 1, generator=generator))
    return stripes.unsqueeze(1) + 0.4 * torch.randn(BATCH, 2, SIDE, SIDE, generator=generator), kinds


def lost(x, kinds):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        return F.cross_entropy(model(x), kinds)


torch.set_num_threads(1)
torch.manual_seed(1009)
model = Searched()
# model built
weights = [p for name, p in model.named_parameters() if name != "chosen"]
by_weights = torch.optim.SGD(weights, lr=0.05, momentum=0.9, weight_decay=3e-4, foreach=False)
by_shares = torch.optim.Adam([model.chosen], lr=2e-2, betas=(0.5, 0.999), weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(by_weights, T_max=ROUNDS, eta_min=1e-3)
generator = torch.Generator().manual_seed(109)
for turn in range(ROUNDS):
    learn, judge = pictures(generator), pictures(generator)
    by_shares.zero_grad()
    judged = lost(*judge)
    judged.backward()
    by_shares.step()
    by_weights.zero_grad()
    loss = lost(*learn)
    loss.backward()
    nn.utils.clip_grad_norm_(weights, 2.0)
    by_weights.step()
    schedule.step()
    print(f"step {turn} loss {judged.item()!r} {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
