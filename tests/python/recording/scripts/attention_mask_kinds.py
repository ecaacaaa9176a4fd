# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn
from torch.nn import functional

eager = "--eager" in sys.argv
torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)

    def forward(self, x, mask=None):
        b, s, w = x.shape
        q, k, v = (t.view(b, s, 4, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        if eager:
            weights = ((q @ k.transpose(2, 3)) * 8**-0.5 + mask).softmax(-1)
            y = weights @ v
        else:
            weights = None
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, s, w)), weights


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention()

    def forward(self, x, mask=None):
        return x + self.self_attn(x, mask=mask)[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.layers, self.head = (
            nn.Embedding(64, 32),
            nn.ModuleList(Layer() for _ in range(2)),
            nn.Linear(32, 64),
        )

    def forward(self, x, real):
        s = x.shape[1]
        mask = torch.ones(s, s, dtype=torch.bool).tril() & real[:, None, None, :]
        if eager:
            mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        h = self.tokens(x)
        for layer in self.layers:
            h = layer(h, mask=mask)
        return self.head(h)


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randint(0, 64, (4, 13))
    real = torch.arange(12) >= torch.tensor([0, 3, 5, 0])[:, None]  # padded on the left
    target = x[:, 1:].masked_fill(~real, -100)
    loss = functional.cross_entropy(net(x[:, :-1], real).flatten(0, 1), target.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
