# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network that writes the weights of another, for each task, and learns through them."""

import torch
from torch import nn
from torch.func import functional_call

TASKS, WIDTH = 4, 12


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(2, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.down(torch.sin(self.up(x)))


class Writer(nn.Module):
    def __init__(self, shapes):
        super().__init__()
        self.shapes = shapes
        self.embed = nn.Embedding(TASKS, 10)
        self.body = nn.Sequential(nn.Linear(10, 32), nn.SELU(), nn.Linear(32, 32), nn.SELU())
        self.heads = nn.ModuleList(nn.Linear(32, shape.numel()) for shape in shapes.values())

    def forward(self, task):
        h = self.body(self.embed(task))
        written = (head(h) * 0.3 for head in self.heads)
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), written)}


torch.set_num_threads(1)
torch.manual_seed(40)
inner = Inner()
model = Writer({name: p.shape for name, p in inner.named_parameters()})
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(890)
for step in range(3):
    total = 0.0
    for task in range(TASKS):
        x = torch.rand(16, 2, generator=generator) * 2 - 1
        wanted = torch.sin((task + 1) * x[:, :1]) * x[:, 1:]
        weights = model(torch.tensor(task))
        shown = functional_call(inner, weights, (x,))
        size = sum(part.square().mean() for part in weights.values())
        total = total + (shown - wanted).square().mean() + 0.01 * size
    loss = total / TASKS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
