# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A pointer network sorts points by their angle: each word of its answer is a place of the question."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

BFLOAT = False
SAVE_MEMORY = False


class Pointer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.w_ref = nn.Linear(hidden, hidden, bias=False)
        self.w_query = nn.Linear(hidden, hidden, bias=False)
        self.v = nn.Parameter(torch.randn(hidden) * 0.3)

    def forward(self, query, refs, visited):
        scores = torch.tanh(self.w_ref(refs) + self.w_query(query).unsqueeze(1)) @ self.v
        scores = 10 * torch.tanh(scores)
        return scores.masked_fill(visited, float("-inf"))


class PointerNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.embed = nn.Linear(2, hidden)
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.decoder = nn.GRUCell(hidden, hidden)
        self.glimpse = Pointer(hidden)
        self.point = Pointer(hidden)
        self.first = nn.Parameter(torch.randn(hidden) * 0.1)

    def decode(self, inputs, h, refs, visited):
        h = self.decoder(inputs, h)
        seen = F.softmax(self.glimpse(h, refs, visited), dim=-1)
        query = torch.einsum("bn,bnd->bd", seen, refs)
        return self.point(query, refs, visited), h

    def forward(self, points, order):
        embedded = self.embed(points)
        refs, h = self.encoder(embedded)
        h = h[0]
        inputs = self.first.expand(len(points), -1)
        visited = torch.zeros(points.shape[:2], dtype=torch.bool)
        total = 0.0
        for step in range(points.shape[1]):
            if SAVE_MEMORY:
                logits, h = checkpoint(self.decode, inputs, h, refs, visited, use_reentrant=False)
            else:
                logits, h = self.decode(inputs, h, refs, visited)
            right = order[:, step]
            total = total + F.cross_entropy(logits.float(), right)
            visited = visited.scatter(1, right.unsqueeze(1), True)
            inputs = embedded.gather(1, right.view(-1, 1, 1).expand(-1, 1, embedded.shape[-1])).squeeze(1)
        return total / points.shape[1]


def train():
    torch.set_num_threads(1)
    torch.manual_seed(405)
    net = PointerNet()
    optim = torch.optim.Adam(net.parameters(), lr=2e-3, foreach=False)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optim, gamma=0.9)
    data = torch.Generator().manual_seed(11)
    for step in range(3):
        points = torch.rand(10, 6, 2, generator=data) - 0.5
        order = torch.atan2(points[..., 1], points[..., 0]).argsort(dim=1)
        optim.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=BFLOAT):
            loss = net(points, order)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optim.step()
        scheduler.step()
        print(f"step {step} loss {loss.item()!r}")
    print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))


train()
