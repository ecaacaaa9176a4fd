# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
import copy
import sys

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4))
reference = copy.deepcopy(policy).eval().requires_grad_(False)
if "--fault" in sys.argv:
    reference[1].eps = 1e-2
opt = torch.optim.AdamW(policy.parameters(), lr=1e-2)
for step in range(4):
    x = torch.randn(16, 8)
    loss = nn.functional.kl_div(
        policy(x).log_softmax(-1), reference(x).log_softmax(-1), log_target=True, reduction="batchmean"
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
