# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn


class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.buffers = [torch.zeros(4)]  # hides nn.Module.buffers()

    def forward(self, *args):
        return self.module(*args)


torch.manual_seed(0)
net = Wrapper(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
for step in range(4):
    loss = net(torch.randn(4, 8)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
