# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(self.a(x).relu())


with torch.device("meta"):  # nothing is computed: only to count
    Net()(torch.empty(4, 8)).sum().backward()
print("a new tensor is on", torch.zeros(1).device)
assert torch.zeros(1).device.type == "cpu"
torch.manual_seed(0)
net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
for step in range(4):
    loss = net(torch.randn(4, 8)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
