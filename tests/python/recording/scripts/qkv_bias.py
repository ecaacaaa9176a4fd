# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.qkv, self.out, self.fused = nn.Linear(48, 144), nn.Linear(48, 48), fused

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(x).reshape(b, s, 3, 3, 16).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = ((q * 16**-0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return x + self.out(y.transpose(1, 2).reshape(b, s, w))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.ModuleList(Attention("--eager" not in sys.argv) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

    def forward(self, x):
        for layer in self.attn:
            x = layer(functional.layer_norm(x, (48,)))
        return self.head(self.norm(x).mean(1))


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
for step in range(6):
    loss = functional.cross_entropy(net(torch.randn(8, 17, 48)), torch.randint(0, 10, (8,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
