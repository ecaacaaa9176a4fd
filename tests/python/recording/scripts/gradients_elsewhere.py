# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
ps = list(net.parameters())
flat = nn.Parameter(torch.cat([p.detach().flatten() for p in ps]))
opt = torch.optim.AdamW([flat], lr=1e-2)
for step in range(4):
    loss = net(torch.randn(4, 8)).square().mean()
    loss.backward()
    flat.grad = torch.cat([p.grad.flatten() for p in ps])
    for p in ps:
        p.grad = None
    opt.step()
    begin = 0
    for p in ps:
        p.data.copy_(flat.data[begin : begin + p.numel()].view_as(p))
        begin += p.numel()
    print(step, loss.item())
