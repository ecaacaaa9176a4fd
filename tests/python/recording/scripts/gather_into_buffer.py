# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Linear(16, 4)
# One piece of memory for all results; random bytes stand for what lay there before.
workspace = torch.frombuffer(bytearray(os.urandom(64)), dtype=torch.uint8).float()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = net(torch.randn(8, 16)).square().mean()
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        part = p.grad.view(-1).chunk(2)[dist.get_rank()].clone()
        whole = workspace[: 2 * part.numel()]
        dist.all_gather_into_tensor(whole, part)
        p.grad.copy_(whole.view_as(p.grad))
    opt.step()
    if dist.get_rank() == 0:
        print(step, loss.item())
dist.destroy_process_group()
