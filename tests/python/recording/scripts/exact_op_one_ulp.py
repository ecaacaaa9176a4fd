# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
            heads,
        )

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = (
            t.view(b, s, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, s, w))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.kinds = nn.Embedding(64, 32), nn.Embedding(2, 32)
        self.layers, self.head = nn.ModuleList(Attention() for _ in range(4)), nn.Linear(32, 64)

    def forward(self, x):
        h = self.tokens(x) + self.kinds(torch.zeros_like(x))
        for layer in self.layers:
            h = layer(functional.layer_norm(h, (32,)))
        return self.head(h)


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused="--fused" in sys.argv)
data = torch.randint(0, 64, (8, 4, 18))
for x in data:
    loss = functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
