# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TD3: two critics by the lesser of both, noise on what the follower would do, a policy that learns later."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 4, ""
SEEN, ACTS, WIDTH, EVERY, GAMMA, TAU = 6, 2, 32, 2, 0.97, 0.02
NOISE, LIMIT = 0.2, 0.5


def mlp(before, after):
    return nn.Sequential(
        nn.Linear(before, WIDTH),
        nn.LayerNorm(WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, after),
    )


class Critics(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = mlp(SEEN + ACTS, 1), mlp(SEEN + ACTS, 1)

    def forward(self, seen, acts):
        x = torch.cat([seen, acts], dim=-1)
        return self.first(x), self.second(x)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(SEEN, ACTS)

    def forward(self, seen):
        return self.body(seen).tanh()


def moves(step):
    """A point is pushed, and the reward is how near it is; some moves are the last of their episode."""
    g = torch.Generator().manual_seed(7300 + step)
    seen = torch.randn(32, SEEN, generator=g)
    acts = (2 * torch.rand(32, ACTS, generator=g) - 1).round(decimals=2)
    after = 0.9 * seen + 0.3 * F.pad(acts, (0, SEEN - ACTS)) + 0.05 * torch.randn(32, SEEN, generator=g)
    reward = -after[:, :2].square().sum(-1, keepdim=True) - 0.1 * acts.square().sum(-1, keepdim=True)
    return seen, acts, reward, after, torch.rand(32, 1, generator=g) < 0.1, torch.randn(32, ACTS, generator=g)


@torch.no_grad()
def follow(followers, leaders):
    for slow, fast in zip(followers.parameters(), leaders.parameters()):
        slow.lerp_(fast, TAU)


torch.set_num_threads(1)
torch.manual_seed(712)
nets = nn.ModuleDict({"policy": Policy(), "critics": Critics(), "slow": Policy(), "slow_critics": Critics()})
nets["slow"].load_state_dict(nets["policy"].state_dict())
nets["slow_critics"].load_state_dict(nets["critics"].state_dict())
# model built
of_policy = torch.optim.Adam(nets["policy"].parameters(), lr=1e-3, foreach=False)
of_critics = torch.optim.Adam(nets["critics"].parameters(), lr=2e-3, foreach=False)
parts = {"nets": nets, "of_policy": of_policy, "of_critics": of_critics}
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    for name, part in parts.items():
        part.load_state_dict(saved[name])
for step in range(first, TOTAL):
    seen, acts, reward, after, last, noise = moves(step)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        with torch.no_grad():
            noise = (NOISE * noise).clamp(-LIMIT, LIMIT)
            next_acts = (nets["slow"](after) + noise).clamp(-1, 1)
            worth = torch.minimum(*nets["slow_critics"](after, next_acts)).float()
            target = reward + GAMMA * (~last) * worth
        one, two = nets["critics"](seen, acts)
    loss = F.smooth_l1_loss(one.float(), target) + F.smooth_l1_loss(two.float(), target)
    of_critics.zero_grad()
    loss.backward()
    of_critics.step()
    if step % EVERY == EVERY - 1:
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            value = nets["critics"](seen, nets["policy"](seen))[0]
        of_policy.zero_grad()
        (-value.float().mean()).backward()
        of_policy.step()
        follow(nets["slow"], nets["policy"])
        follow(nets["slow_critics"], nets["critics"])
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in nets.parameters()))
