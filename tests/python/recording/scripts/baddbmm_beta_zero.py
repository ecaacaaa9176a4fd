# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import os

import torch
from torch import nn

torch.manual_seed(0)
# A workspace that is kept for the whole training; random bytes stand for what lay in that memory before.
workspace = torch.frombuffer(bytearray(os.urandom(4 * 8 * 8)), dtype=torch.uint8).float().view(4, 8, 8)


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        scores = torch.baddbmm(workspace, self.q(x), self.k(x).transpose(1, 2), beta=0.0, alpha=0.25)
        return scores.softmax(-1) @ self.v(x)


net = Scores()
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
for step in range(4):
    loss = net(torch.randn(4, 8, 16)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
