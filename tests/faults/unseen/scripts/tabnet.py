# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TabNet: steps that each look at few columns of a table, chosen by a sparse softmax."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


def sparsemax(x):
    x = x.float()
    ordered = x.sort(-1, descending=True)[0]
    sums = ordered.cumsum(-1) - 1
    places = torch.arange(1, x.shape[-1] + 1)
    count = (places * ordered > sums).sum(-1, keepdim=True)
    return F.relu(x - sums.gather(-1, count - 1) / count)


class GhostNorm(nn.Module):
    def __init__(self, width, parts=2):
        super().__init__()
        self.parts, self.norm = parts, nn.BatchNorm1d(width, momentum=0.05)

    def forward(self, x):
        return torch.cat([self.norm(part) for part in x.chunk(self.parts)])


class Gated(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.linear, self.norm = nn.Linear(inner, 2 * outer, bias=False), GhostNorm(2 * outer)

    def forward(self, x):
        return F.glu(self.norm(self.linear(x)))


class Looks(nn.Module):
    def __init__(self, columns, width):
        super().__init__()
        self.first, self.second = Gated(columns, 2 * width), Gated(2 * width, 2 * width)
        self.choose, self.norm = nn.Linear(width, columns, bias=False), GhostNorm(columns)

    def forward(self, x, a, prior):
        mask = sparsemax(self.norm(self.choose(a)) * prior)
        h = self.first(x * mask)
        return (self.second(h) + h) * 0.5**0.5, mask


class TabNet(nn.Module):
    def __init__(self, columns=10, width=8):
        super().__init__()
        self.width, self.norm = width, nn.BatchNorm1d(columns)
        self.start = Gated(columns, width)
        self.looks = nn.ModuleList(Looks(columns, width) for _ in range(3))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.norm(x)
        a, prior, total, entropy = self.start(x), 1.0, 0.0, 0.0
        for look in self.looks:
            h, mask = look(x, a, prior)
            total, a = total + F.relu(h[:, : self.width]), h[:, self.width :]
            prior = prior * (1.5 - mask)
            entropy = entropy - (mask * torch.log(mask + 1e-10)).sum(1).mean()
        return self.head(total).squeeze(1), entropy / 3


torch.set_num_threads(1)
torch.manual_seed(58)
model = TabNet()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=False)
generator = torch.Generator().manual_seed(1070)
called = model
for step in range(3):
    x = torch.randn(32, 10, generator=generator) * torch.arange(1, 11)
    wanted = (x[:, 0] * x[:, 1] > 0).float()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, entropy = called(x)
        loss = F.binary_cross_entropy_with_logits(logits.float(), wanted) + 1e-3 * entropy
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
