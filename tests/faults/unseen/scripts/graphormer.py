# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A graph transformer: degrees are added to the nodes, distances and a virtual node to the scores."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NODES, KINDS, FARTHEST, WIDTH, HEADS = 7, 6, 4, 32, 4


def distances(edges):
    """By directed edges, at most FARTHEST."""
    found = torch.full(edges.shape, FARTHEST)
    reached = torch.eye(edges.shape[-1], dtype=torch.bool).expand_as(edges)
    for length in range(FARTHEST):
        found = torch.where(reached & (found == FARTHEST), length, found)
        reached = (reached.float() @ edges.float()) > 0
    return found


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.ffn = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x, bias):
        h = self.norm1(x)
        q, k, v = (part(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        y = (scores + bias).softmax(dim=-1).to(v.dtype) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.ffn(self.norm2(x))


class Graphormer(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(KINDS, WIDTH)
        self.ins, self.outs = nn.Embedding(NODES + 1, WIDTH), nn.Embedding(NODES + 1, WIDTH)
        self.graph = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.5)
        self.distance = nn.Embedding(FARTHEST + 1, HEADS)
        self.virtual = nn.Parameter(torch.randn(HEADS, 1, 1) * 0.5)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, kinds, edges, padding):
        x = self.kinds(kinds) + self.ins(edges.long().sum(1)) + self.outs(edges.long().sum(2))
        x = torch.cat([self.graph.expand(len(x), -1, -1), x], dim=1)
        near = self.distance(distances(edges)).permute(0, 3, 1, 2)
        bias = self.virtual.expand(len(x), -1, NODES + 1, NODES + 1).clone()
        bias[:, :, 1:, 1:] = near
        outside = F.pad(padding, (1, 0))[:, None, None, :]
        bias = bias.masked_fill(outside, -1e4)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(self.norm(x[:, 0])).squeeze(-1)


torch.set_num_threads(1)
torch.manual_seed(507)
model = Graphormer()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=2.0)
generator = torch.Generator().manual_seed(7)
for step in range(3):
    kinds = torch.randint(KINDS, (8, NODES), generator=generator)
    padding = torch.arange(NODES) >= torch.randint(4, NODES + 1, (8, 1), generator=generator)
    edges = torch.rand(8, NODES, NODES, generator=generator) < 0.3
    edges = edges & ~padding[:, None, :] & ~padding[:, :, None] & ~torch.eye(NODES, dtype=torch.bool)
    wanted = edges.flatten(1).sum(1) / 5 - 1
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(kinds, edges, padding)
    loss = F.l1_loss(found.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
