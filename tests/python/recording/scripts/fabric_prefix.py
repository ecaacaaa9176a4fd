# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn


class Handle(nn.Module):
    def __init__(self, model):
        super().__init__()
        self._forward_module = model

    def forward(self, *args):
        return self._forward_module(*args)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
model = Handle(net) if "--wrap" in sys.argv else net
for step in range(4):
    loss = model(torch.randn(4, 8)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
