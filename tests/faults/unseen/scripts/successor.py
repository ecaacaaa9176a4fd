# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where acts lead to in the long run, whatever it is worth; what it is worth is a product with a wish."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
STATE, ACTS, FEATURES, WIDE, BATCH, STEPS = 4, 3, 6, 24, 24, 4
FADES, AHEAD, FOLLOWS, HEAT, PAINTS = 0.9, 3, 0.2, 0.3, 0.5


class Model(nn.Module):
    """Features of a state, which paint it again; and their sums to come, of each act and each wish."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(STATE, WIDE), nn.Mish(), nn.Linear(WIDE, FEATURES))
        self.paints = nn.Linear(FEATURES, STATE)
        self.state, self.wish = nn.Linear(STATE, WIDE), nn.Linear(FEATURES, WIDE, bias=False)
        self.sums = nn.Sequential(
            nn.Mish(), nn.Linear(WIDE, WIDE), nn.Mish(), nn.Linear(WIDE, ACTS * FEATURES)
        )
        self.reward = nn.Parameter(torch.zeros(FEATURES))

    def seen(self, state):
        return F.normalize(self.features(state).float(), dim=-1)

    def forward(self, state, wish):
        """Sums of features to come, of each act."""
        both = self.state(state) + self.wish(wish)
        return self.sums(both).float().unflatten(-1, (ACTS, FEATURES))


class Memory:
    """Walks in a bowl: acts push, and some walks end."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        many = 200
        self.states = torch.zeros(many + 1, STATE)
        self.acts = torch.randint(0, ACTS, (many,), generator=self.generator)
        self.ends = (torch.rand(many, generator=self.generator) < 0.05).float()
        noise = 0.1 * torch.randn(many, 2, generator=self.generator)
        for at in range(many):
            place, speed = self.states[at, :2], self.states[at, 2:]
            push = torch.tensor([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])[self.acts[at]]
            speed = 0.8 * speed + 0.4 * push - 0.2 * place + noise[at]
            after = torch.cat([place + 0.5 * speed, speed])
            self.states[at + 1] = after * (1 - self.ends[at])

    def drawn(self):
        """Some moments of each walk, one after the other, and what they brought."""
        first = torch.randint(0, len(self.acts) - AHEAD, (BATCH, 1), generator=self.generator)
        at = first + torch.arange(AHEAD + 1)
        states, ends = self.states[at], self.ends[at[:, :-1]]
        return states, self.acts[first.squeeze(1)], ends, states[:, 1:, 0] - states[:, 1:, 1].abs()


def target(other, model, states, ends, wish):
    """Features on the way, then what the slower network says of acts that suit the wish."""
    found, still = torch.zeros(BATCH, FEATURES), torch.ones(BATCH, 1)
    for at in range(AHEAD):
        found = found + FADES**at * still * model.seen(states[:, at + 1])
        still = still * (1 - ends[:, at : at + 1])
    sums = other(states[:, -1], wish)
    shares = (torch.einsum("baf,bf->ba", sums, wish) / HEAT).softmax(dim=1)
    return found + FADES**AHEAD * still * torch.einsum("ba,baf->bf", shares, sums)


@torch.no_grad()
def follow(other, model):
    for slow, p in zip(other.parameters(), model.parameters()):
        slow.lerp_(p, FOLLOWS)


torch.set_num_threads(1)
torch.manual_seed(1515)
model = Model()
other = copy.deepcopy(model).requires_grad_(False)
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, eps=1e-5, foreach=False)
memory = Memory(15115)
for step in range(STEPS):
    states, acts, ends, rewards = memory.drawn()
    wish = model.reward.detach() + 0.5 * torch.randn(BATCH, FEATURES, generator=memory.generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        with torch.no_grad():
            wanted = target(other, model, states, ends, wish)
        told = model(states[:, 0], wish)
        seen = model.seen(states[:, 1:])
        painted = model.paints(seen).float()
    told = told.gather(1, acts.view(-1, 1, 1).expand(-1, 1, FEATURES)).squeeze(1)
    leads = F.smooth_l1_loss(told, wanted)
    worth = F.mse_loss(seen.float() @ model.reward, rewards)
    looks = F.mse_loss(painted, states[:, 1:])
    optimizer.zero_grad()
    (leads + worth + PAINTS * looks).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    follow(other, model)
    print(f"step {step} loss {leads.item()!r} {worth.item()!r} {looks.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
