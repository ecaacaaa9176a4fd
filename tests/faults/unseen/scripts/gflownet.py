# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A generative flow: walks over a grid end at each place as often as it is worth; balance of whole walks."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, DIMS, STEPS = 6, 3, 16


class Policy(nn.Module):
    """Logits of the next act, one of DIMS ways to go on or the end, and the size of all there is."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(SIDE * DIMS, 48),
            nn.LeakyReLU(),
            nn.Linear(48, 48),
            nn.LeakyReLU(),
            nn.Linear(48, DIMS + 1),
        )
        self.log_z = nn.Parameter(torch.zeros(()))

    def forward(self, at):
        logits = self.body(F.one_hot(at, SIDE).float().flatten(-2)).float()
        allowed = logits.masked_fill(F.pad(at >= SIDE - 1, (0, 1)), -1e9)
        return allowed.log_softmax(dim=-1)


def log_reward(at):
    outer = (at / (SIDE - 1) - 0.5).abs()
    return torch.log(0.05 + 0.5 * (outer > 0.25).all(-1) + 2.0 * ((outer > 0.3) & (outer < 0.4)).all(-1))


def walks(count, generator):
    """Each act is any that is allowed, all as likely; a walk that has ended stays."""
    at = torch.zeros(count, DIMS, dtype=torch.long)
    ended = torch.zeros(count, dtype=torch.bool)
    places, acts, inside = [], [], []
    for n in range(STEPS):
        weights = F.pad((at < SIDE - 1).float(), (0, 1), value=0.4)
        act = torch.multinomial(weights, 1, generator=generator).squeeze(1)
        if n == STEPS - 1:
            act = torch.full_like(act, DIMS)
        places.append(at)
        acts.append(act)
        inside.append(~ended)
        ended = ended | (act == DIMS)
        at = torch.where(ended[:, None], at, at + F.one_hot(act, DIMS + 1)[:, :DIMS])
    return torch.stack(places, 1), torch.stack(acts, 1), torch.stack(inside, 1), at


def balance(policy, places, acts, inside, last):
    """Forward and size against backward and worth; backward, each parent is as likely."""
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        forward = policy(places)
    forward = forward.gather(-1, acts.unsqueeze(-1)).squeeze(-1) * inside
    after = torch.cat([places[:, 1:], last[:, None]], dim=1)
    parents = (after > 0).sum(-1).clamp(min=1)
    backward = -parents.float().log() * (inside & (acts < DIMS))
    gap = policy.log_z + forward.sum(1) - backward.sum(1) - log_reward(last)
    return gap.square().mean()


torch.set_num_threads(1)
torch.manual_seed(607)
policy = Policy()
# model built
groups = [{"params": policy.body.parameters()}, {"params": [policy.log_z], "lr": 0.1}]
optimizer = torch.optim.Adam(groups, lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.5)
generator = torch.Generator().manual_seed(67)
for step in range(3):
    loss = balance(policy, *walks(16, generator))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.body.parameters(), 10.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in policy.parameters()))
