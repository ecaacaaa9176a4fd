# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(16)])
opt = torch.optim.SGD(net.parameters(), lr=0.1)
bucket = torch.empty(10_000_000)


def collect(p):
    n = p.grad.numel()
    view = bucket.narrow(0, 0, n)
    view.copy_(p.grad.view(-1))
    p.grad.copy_(view.view_as(p.grad))


for p in net.parameters():
    p.register_post_accumulate_grad_hook(collect)
x = torch.randn(8, 32)
for step in range(5):
    begin = time.time()
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item(), f"{1e3 * (time.time() - begin):.1f} ms")
