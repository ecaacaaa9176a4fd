# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def loss_of(weights, x):
    return functional_call(net, weights, (x,)).square().mean()


for step in range(3):
    x, weights = torch.randn(8, 4), dict(net.named_parameters())
    if "--transform" in sys.argv:
        inner = grad(loss_of)(weights, x)
    else:
        inner = dict(
            zip(weights, torch.autograd.grad(loss_of(weights, x), weights.values(), create_graph=True))
        )
    loss = loss_of({name: weight - 0.1 * inner[name] for name, weight in weights.items()}, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
