# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn

scale = 4.0 if "--scale" in sys.argv else 2.0
torch.manual_seed(0)


class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 16)
        self.down, self.up = nn.Linear(16, 4, bias=False), nn.Linear(4, 16, bias=False)
        self.scaling = {"default": scale}
        nn.init.zeros_(self.up.weight)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * self.scaling["default"]


net = nn.Sequential(Adapter(), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
for step in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
