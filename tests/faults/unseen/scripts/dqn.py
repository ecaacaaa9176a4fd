# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Deep Q-learning: a dueling network, and a second one that follows it, over a memory of moves."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

FOLLOWS_EVERY, DISCOUNT = 2, 0.97


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.value, self.gain = nn.Linear(48, 1), nn.Linear(48, 4)

    def forward(self, x):
        h = self.body(x)
        gain = self.gain(h)
        return self.value(h) + gain - gain.mean(1, keepdim=True)


torch.set_num_threads(1)
torch.manual_seed(31)
network = Dueling()
follower = copy.deepcopy(network)
# model built
optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, amsgrad=True, foreach=False)
generator = torch.Generator().manual_seed(800)
seen, after = torch.randn(128, 9, generator=generator), torch.randn(128, 9, generator=generator)
chosen = torch.randint(4, (128,), generator=generator)
reward = torch.randn(128, generator=generator)
ended = (torch.rand(128, generator=generator) < 0.2).float()
for step in range(5):
    rows = torch.randint(128, (32,), generator=generator)
    with torch.no_grad():
        best = network(after[rows]).argmax(1, keepdim=True)
        coming = follower(after[rows]).gather(1, best).squeeze(1)
        wanted = reward[rows] + DISCOUNT * (1 - ended[rows]) * coming
    found = network(seen[rows]).gather(1, chosen[rows, None]).squeeze(1)
    loss = F.smooth_l1_loss(found, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 10.0)
    optimizer.step()
    if (step + 1) % FOLLOWS_EVERY == 0:
        follower.load_state_dict(network.state_dict())
    print(f"step {step} loss {loss.item()!r}")
both = [*network.parameters(), *follower.parameters()]
print("weights", sum(p.detach().double().abs().sum().item() for p in both))
