# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
averaged = AveragedModel(net, avg_fn=get_ema_avg_fn(decay=0.9 if "--fault" in sys.argv else 0.99))
for step in range(6):
    x = torch.randn(16, 8)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    averaged.update_parameters(net)
    print(step, loss.item())
averaged.eval()
with torch.no_grad():
    print("evaluated:", averaged(torch.ones(1, 8)).item())
