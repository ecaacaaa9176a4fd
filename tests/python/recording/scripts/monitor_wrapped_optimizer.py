# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import torch
from torch import nn


class Wrapped(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner, self.ready = inner, False

    param_groups = property(lambda self: self.inner.param_groups)
    state = property(lambda self: self.inner.state)
    defaults = property(lambda self: self.inner.defaults)

    def step(self, closure=None):
        if self.ready:
            self.inner.step()

    def zero_grad(self, set_to_none=True):
        if self.ready:
            self.inner.zero_grad(set_to_none)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
opt = Wrapped(torch.optim.AdamW(net.parameters(), lr=1e-2))
for batch in range(8):
    opt.ready = batch % 2 == 1
    loss = net(torch.randn(4, 8)).square().mean() / 2
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(batch, loss.item())
