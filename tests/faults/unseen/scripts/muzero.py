# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A model of a game in which it is planned: states are unrolled, values are shares over whole numbers."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ACTS, WIDTH, REACH, UNROLLED = 9, 4, 32, 6, 3


def squeezed(x):
    """Large values come closer together."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + 0.001 * x


def two_hot(x):
    """Shares of the two whole numbers next to a value."""
    x = squeezed(x).clamp(-REACH, REACH)
    low = x.floor()
    share = x - low
    shares = torch.zeros(*x.shape, 2 * REACH + 1)
    below = (low + REACH).long()
    above = (below + 1).clamp(max=2 * REACH)
    shares.scatter_add_(-1, below.unsqueeze(-1), (1 - share).unsqueeze(-1))
    return shares.scatter_add(-1, above.unsqueeze(-1), share.unsqueeze(-1))


def scaled(x, share):
    """The same, of whose gradient a share goes on."""
    return x * share + x.detach() * (1 - share)


def bounded(state):
    low, high = state.amin(-1, keepdim=True), state.amax(-1, keepdim=True)
    return (state - low) / (high - low + 1e-5)


def mlp(*sizes):
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.ELU()]
    return nn.Sequential(*layers[:-1])


class MuZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.represent = mlp(SEEN, 48, WIDTH)
        self.dynamics, self.reward = mlp(WIDTH + ACTS, 48, WIDTH), mlp(WIDTH, 24, 2 * REACH + 1)
        self.policy, self.value = mlp(WIDTH, 24, ACTS), mlp(WIDTH, 24, 2 * REACH + 1)

    def begin(self, seen):
        state = bounded(self.represent(seen).float())
        return state, self.policy(state), self.value(state)

    def go_on(self, state, act):
        state = self.dynamics(torch.cat([state, F.one_hot(act, ACTS)], dim=-1)).float() + state
        state = bounded(state)
        return state, self.reward(state), self.policy(state), self.value(state)

    def forward(self, seen, acts):
        state, policy, value = self.begin(seen)
        policies, values, rewards = [policy], [value], []
        for act in acts.unbind(1):
            state, reward, policy, value = self.go_on(scaled(state, 0.5), act)
            policies.append(policy)
            values.append(value)
            rewards.append(reward)
        return (torch.stack(parts, 1).float() for parts in (policies, values, rewards))


def cross(logits, shares):
    return -(shares * logits.log_softmax(-1)).sum(-1)


def objective(model, seen, acts, visits, worth, gained):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        policies, values, rewards = model(seen, acts)
    weights = torch.tensor([1.0] + [1 / UNROLLED] * UNROLLED)
    of_policy = (weights * cross(policies, visits)).sum(1).mean()
    of_value = (weights * cross(values, two_hot(worth))).sum(1).mean()
    of_reward = (weights[1:] * cross(rewards, two_hot(gained))).sum(1).mean()
    return of_policy, of_value, of_reward


def games(generator):
    """Positions, the acts that followed, how often a search went each way, and what it found them worth."""
    seen = torch.randn(24, SEEN, generator=generator)
    acts = torch.randint(ACTS, (24, UNROLLED), generator=generator)
    visits = (2 * torch.randn(24, UNROLLED + 1, ACTS, generator=generator)).softmax(-1)
    worth = 8 * torch.randn(24, UNROLLED + 1, generator=generator) + seen[:, :1]
    return seen, acts, visits, worth, worth[:, :-1] - 0.9 * worth[:, 1:]


torch.set_num_threads(1)
torch.manual_seed(613)
model = MuZero()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
generator = torch.Generator().manual_seed(73)
for step in range(3):
    parts = objective(model, *games(generator))
    loss = parts[0] + 0.25 * parts[1] + parts[2]
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss", *(repr(part.item()) for part in parts))
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
