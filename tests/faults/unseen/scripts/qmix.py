# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""QMIX: agents that see parts act alone, and what all are worth rises with what each is worth."""

import copy
import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
AGENTS, SEEN, ACTS, WIDE, STATE, LONG, GAMMA, EVERY = 3, 6, 4, 24, 8, 5, 0.95, 2


class Agent(nn.Module):
    """One network for all; who an agent is stands beside what it sees."""

    def __init__(self):
        super().__init__()
        self.lift, self.cell = nn.Linear(SEEN + AGENTS, WIDE), nn.GRUCell(WIDE, WIDE)
        self.out = nn.Linear(WIDE, ACTS)

    def forward(self, seen):
        """From (episodes, times, agents, what is seen) what each act is worth, at all times."""
        who = torch.eye(AGENTS).expand(*seen.shape[:2], AGENTS, AGENTS)
        x = F.relu(self.lift(torch.cat([seen, who], dim=-1)))
        h, worth = torch.zeros(len(seen) * AGENTS, WIDE), []
        for now in x.unbind(1):
            h = self.cell(now.flatten(0, 1), h)
            worth.append(self.out(h).unflatten(0, (-1, AGENTS)))
        return torch.stack(worth, dim=1).float()


class Mixer(nn.Module):
    """Weights are made of the state, and none is negative."""

    def __init__(self):
        super().__init__()
        self.first, self.first_bias = nn.Linear(STATE, AGENTS * 16), nn.Linear(STATE, 16)
        self.second = nn.Linear(STATE, 16)
        self.second_bias = nn.Sequential(nn.Linear(STATE, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, worth, state):
        weights = self.first(state).abs().unflatten(-1, (AGENTS, 16))
        h = F.elu((worth.unsqueeze(-1) * weights).sum(-2) + self.first_bias(state))
        return ((h * self.second(state).abs()).sum(-1) + self.second_bias(state).squeeze(-1)).float()


def episodes(step):
    g = torch.Generator().manual_seed(8800 + step)
    seen = torch.randn(8, LONG + 1, AGENTS, SEEN, generator=g)
    state = torch.randn(8, LONG + 1, STATE, generator=g)
    acts = torch.randint(ACTS, (8, LONG, AGENTS), generator=g)
    allowed = torch.rand(8, LONG + 1, AGENTS, ACTS, generator=g) < 0.7
    allowed[..., 0] = True
    reward = (acts == seen[:, :-1, :, :ACTS].argmax(-1)).float().sum(-1) + 0.1 * state[:, :-1, 0]
    ends = torch.randint(2, LONG + 1, (8, 1), generator=g)
    there, last = torch.arange(LONG) < ends, torch.arange(LONG) == ends - 1
    return seen, state, acts, allowed, reward, there.float(), last.float()


torch.set_num_threads(1)
torch.manual_seed(811)
nets = nn.ModuleDict({"agent": Agent(), "mixer": Mixer()})
slow = copy.deepcopy(nets).requires_grad_(False)
# model built
optimizer = torch.optim.RMSprop(nets.parameters(), lr=2e-3, alpha=0.99, eps=1e-5, foreach=False)
first, parts = 0, {"nets": nets, "slow": slow, "optimizer": optimizer}
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    for name, part in parts.items():
        part.load_state_dict(saved[name])
for step in range(first, TOTAL):
    seen, state, acts, allowed, reward, there, last = episodes(step)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        worth = nets["agent"](seen)
        with torch.no_grad():
            best = worth.masked_fill(~allowed, -1e9)[:, 1:].argmax(-1, keepdim=True)
            later = slow["agent"](seen)[:, 1:].gather(-1, best).squeeze(-1)
            target = reward + GAMMA * (1 - last) * slow["mixer"](later, state[:, 1:])
        chosen = worth[:, :-1].gather(-1, acts.unsqueeze(-1)).squeeze(-1)
        total = nets["mixer"](chosen, state[:, :-1])
    loss = ((total - target).square() * there).sum() / there.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(nets.parameters(), 10.0)
    optimizer.step()
    if step % EVERY == EVERY - 1:
        slow.load_state_dict(nets.state_dict())
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in nets.parameters()))
