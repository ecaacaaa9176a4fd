# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import sys

import torch
from torch import nn
from torch.nn import functional

smoothing = {"label_smoothing": 0.02} if "--fault" in sys.argv else {}
torch.manual_seed(0)
net = nn.Sequential(
    nn.Embedding(50, 32),
    nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True),
    nn.Linear(32, 50),
)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
x = torch.randint(0, 50, (8, 17))
for step in range(6):
    with torch.autocast("cpu", torch.bfloat16, enabled="--fp32" not in sys.argv):
        out = net(x[:, :-1])
    loss = functional.cross_entropy(out.float().flatten(0, 1), x[:, 1:].flatten(), **smoothing)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
