# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.Flatten()
        )
        width = self.body(torch.zeros(1, 3, 16, 16)).shape[1]  # a dry run
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.body(x))


torch.seed()  # as a process begins: another state each time
draft = Net()  # e.g. to print its size, as a trainer does before it seeds
torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 3, 16, 16)), torch.randint(0, 2, (4,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
