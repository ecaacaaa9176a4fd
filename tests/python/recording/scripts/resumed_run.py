# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
data = torch.randn(6, 4, 8)
first = 0
if "--resume" in sys.argv:
    saved = torch.load("resumed_run.pt")
    net.load_state_dict(saved["net"])
    opt.load_state_dict(saved["opt"])
    first = 3
for step in range(first, 6):
    if step == 3 and first == 0:
        torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, "resumed_run.pt")
    loss = net(data[step]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
