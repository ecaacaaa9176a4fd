# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Soft actor and critic: two critics, a policy of squashed normals, and a temperature that is learnt."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

FOREACH, TAU = False, 0.05


def net(inner, outer):
    return nn.Sequential(nn.Linear(inner, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, outer))


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(6, 4)

    def forward(self, seen, drawn):
        mean, log_std = self.net(seen).chunk(2, -1)
        log_std = log_std.clamp(-5, 2)
        raw = mean + log_std.exp() * drawn
        action = torch.tanh(raw)
        likely = -0.5 * drawn.square() - log_std - 0.9189385332
        likely = likely - torch.log(1 - action.square() + 1e-6)
        return action, likely.sum(-1, keepdim=True)


torch.set_num_threads(1)
torch.manual_seed(32)
policy, critics = Policy(), nn.ModuleList([net(8, 1), net(8, 1)])
followers = copy.deepcopy(critics)
log_alpha = nn.Parameter(torch.tensor(-1.0))
# model built
of_policy = torch.optim.Adam(policy.parameters(), lr=1e-3, foreach=FOREACH)
of_critics = torch.optim.Adam(critics.parameters(), lr=1e-3, foreach=FOREACH)
of_alpha = torch.optim.Adam([log_alpha], lr=1e-2, foreach=FOREACH)
numbers = torch.Generator().manual_seed(810)
for step in range(3):
    seen, after = torch.randn(24, 6, generator=numbers), torch.randn(24, 6, generator=numbers)
    done, reward = torch.rand(24, 2, generator=numbers) * 2 - 1, torch.randn(24, 1, generator=numbers)
    alpha = log_alpha.exp().detach()
    with torch.no_grad():
        action, likely = policy(after, torch.randn(24, 2, generator=numbers))
        coming = torch.min(*(critic(torch.cat([after, action], 1)) for critic in followers))
        wanted = reward + 0.98 * (coming - alpha * likely)
    both = torch.cat([seen, done], 1)
    of_critic = sum(F.mse_loss(critic(both), wanted) for critic in critics)
    of_critics.zero_grad()
    of_critic.backward()
    of_critics.step()
    action, likely = policy(seen, torch.randn(24, 2, generator=numbers))
    worth = torch.min(*(critic(torch.cat([seen, action], 1)) for critic in critics))
    loss = (alpha * likely - worth).mean()
    of_policy.zero_grad()
    loss.backward()
    of_policy.step()
    warm = -(log_alpha * (likely.detach() - 2.0)).mean()
    of_alpha.zero_grad()
    warm.backward()
    of_alpha.step()
    with torch.no_grad():
        for mine, theirs in zip(followers.parameters(), critics.parameters()):
            mine.lerp_(theirs, TAU)
    print(f"step {step} loss {loss.item()!r} {of_critic.item()!r}")
everything = [*policy.parameters(), *critics.parameters(), *followers.parameters(), log_alpha]
print("weights", sum(p.detach().double().abs().sum().item() for p in everything))
