# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Proximal policy optimisation: actor and critic in a small continuous world."""

import torch
from torch import nn

TIME, WORLDS, CLIP = 16, 6, 0.2


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("square", torch.ones(5))
        self.body = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, seen):
        h = self.body((seen - self.mean) / (self.square - self.mean**2).clamp(min=1e-3).sqrt())
        return torch.distributions.Normal(self.actor(h), self.log_std.exp()), self.critic(h).squeeze(-1)

    @torch.no_grad()
    def see(self, seen):
        self.mean.lerp_(seen.flatten(0, -2).mean(0), 0.2)
        self.square.lerp_(seen.flatten(0, -2).square().mean(0), 0.2)


@torch.no_grad()
def play(model, state, generator):
    seen, acted, logs, rewards, values, ended = [], [], [], [], [], []
    for _ in range(TIME):
        policy, value = model(state)
        action = policy.mean + policy.stddev * torch.randn(WORLDS, 2, generator=generator)
        reward = 1 - (state[:, :2] - action).square().sum(1)
        done = (torch.rand(WORLDS, generator=generator) < 0.1).float()
        for kept, item in zip(
            (seen, acted, logs, rewards, values, ended),
            (state, action, policy.log_prob(action).sum(-1), reward, value, done),
        ):
            kept.append(item)
        state = 0.9 * state + 0.3 * torch.randn(WORLDS, 5, generator=generator)
        state[:, :2] += 0.1 * action
    return *map(torch.stack, (seen, acted, logs, rewards, values, ended)), state


def advantages_of(rewards, values, ended, last, discount=0.99, decay=0.95):
    advantages, after = torch.zeros_like(rewards), torch.zeros(WORLDS)
    for time in reversed(range(TIME)):
        follows = last if time == TIME - 1 else values[time + 1]
        lives = 1 - ended[time]
        after = rewards[time] + discount * follows * lives - values[time] + discount * decay * lives * after
        advantages[time] = after
    return advantages


torch.set_num_threads(1)
torch.manual_seed(14)
model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-5, foreach=False)
generator = torch.Generator().manual_seed(71)
state = torch.randn(WORLDS, 5, generator=generator)
for step in range(2):
    seen, acted, logs, rewards, values, ended, state = play(model, state, generator)
    with torch.no_grad():
        advantages = advantages_of(rewards, values, ended, model(state)[1])
    returns = advantages + values
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for epoch in range(2):
        policy, value = model(seen)
        ratio = (policy.log_prob(acted).sum(-1) - logs).exp()
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        loss_of_policy = -torch.min(ratio * advantages, clipped * advantages).mean()
        loss_of_value = (returns - value).square().mean()
        entropy = policy.entropy().sum(-1).mean()
        loss = loss_of_policy + 0.5 * loss_of_value - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print(f"step {step}.{epoch} loss {loss.item()!r}")
    model.see(seen)
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
