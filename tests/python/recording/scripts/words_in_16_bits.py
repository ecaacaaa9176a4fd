# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that are a word or a truth value, whose effect is smaller than a rounding of 16 bits."""

import sys

import torch
from torch import nn
from torch.nn import functional

approximate = "tanh" if "--tanh" in sys.argv else "none"
unbiased = "--biased" not in sys.argv


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 512), nn.Linear(512, 4)

    def forward(self, x):
        x = functional.gelu(self.up(x), approximate=approximate)
        x = x / (x.var(-1, keepdim=True, unbiased=unbiased) + 1e-2).sqrt()
        return self.down(x)


torch.manual_seed(0)
net = Net().bfloat16()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = net(torch.randn(64, 16, dtype=torch.bfloat16)).float().square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
