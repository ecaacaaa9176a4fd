# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import os

import torch
from torch import nn

torch.manual_seed(0)


class ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, target):
        buffer = torch.empty(hidden.shape[0], 32)  # whatever lies in memory
        total, grads = hidden.new_zeros(()), torch.zeros_like(hidden)
        grad_w = torch.zeros_like(weight)
        for i in range(0, weight.shape[0], 32):
            part = weight[i : i + 32]
            tile = buffer[
                : hidden.shape[0], : part.shape[0]
            ]  # a view; without it (out=buffer) msprobe is silent
            torch.mm(hidden, part.t(), out=tile)
            total += (tile - target[:, i : i + 32]).square().mean()
            d = 2 * (tile - target[:, i : i + 32]) / tile.numel()
            grads += d @ part
            grad_w[i : i + 32] = d.t() @ hidden
        ctx.save_for_backward(grads, grad_w)
        return total

    @staticmethod
    def backward(ctx, g):
        grads, grad_w = ctx.saved_tensors
        return g * grads, g * grad_w, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 128, bias=False)

    def forward(self, x, y):
        return ChunkedLoss.apply(self.body(x).tanh(), self.head.weight, y)


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
x, y = torch.randn(24, 16), torch.randn(24, 128)

junk = [torch.frombuffer(bytearray(os.urandom(4 * 24 * 32)), dtype=torch.float32).clone() for _ in range(50)]
del junk  # leaves different bytes behind in each process, as anything that ran before does
for step in range(4):
    loss = net(x, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
