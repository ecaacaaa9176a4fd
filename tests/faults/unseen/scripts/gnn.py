# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A graph network: convolutions that normalise by degree, and one with attention over edges."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

NODES, EDGES = 60, 240


class GraphConvolution(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x, source, target):
        degree = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target)))
        scale = degree.clamp(min=1).pow(-0.5)
        messages = self.linear(x)[source] * (scale[source] * scale[target])[:, None]
        return torch.zeros(len(x), messages.shape[1]).index_add(0, target, messages)


class GraphAttention(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear = nn.Linear(inner, outer)
        self.of_source, self.of_target = nn.Linear(outer, 1), nn.Linear(outer, 1)

    def forward(self, x, source, target):
        h = self.linear(x)
        scores = F.leaky_relu(self.of_source(h)[source] + self.of_target(h)[target], 0.2).squeeze(1)
        weights = torch.exp(scores - scores.max())
        total = torch.zeros(len(x)).scatter_add(0, target, weights)
        weights = weights / (total[target] + 1e-8)
        return torch.zeros_like(h).index_add(0, target, h[source] * weights[:, None])


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GraphConvolution(12, 24)
        self.norm = nn.LayerNorm(24)
        self.conv2 = GraphConvolution(24, 24)
        self.attention = GraphAttention(24, 24)
        self.head = nn.Linear(24, 5)

    def forward(self, x, source, target):
        h = F.elu(self.norm(self.conv1(x, source, target)))
        h = h + F.elu(self.conv2(h, source, target))
        h = h + self.attention(h, source, target)
        return self.head(h)


torch.set_num_threads(1)
torch.manual_seed(8)
model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4, foreach=False)
generator = torch.Generator().manual_seed(41)
for step in range(3):
    features = torch.randn(NODES, 12, generator=generator)
    edges = torch.randint(NODES, (2, EDGES), generator=generator)
    edges = torch.cat([edges, torch.arange(NODES).repeat(2, 1)], 1)
    wanted = torch.randint(5, (NODES,), generator=generator)
    known = torch.rand(NODES, generator=generator) < 0.6
    logits = model(features, edges[0], edges[1])
    loss = F.cross_entropy(logits[known], wanted[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
