# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn

torch.manual_seed(0)
form = torch.channels_last if "--last" in sys.argv else torch.contiguous_format
net = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False),
    nn.BatchNorm2d(16, eps=1e-3, momentum=0.01),
    nn.Hardswish(),
    nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
    nn.BatchNorm2d(16, eps=1e-3, momentum=0.01),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 5),
).to(memory_format=form)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(6):
    x = torch.randn(8, 3, 32, 32).contiguous(memory_format=form)
    loss = nn.functional.cross_entropy(net(x), torch.randint(0, 5, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
