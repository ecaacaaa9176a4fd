# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What to do, from what others did: expectiles of values, and acts better than expected."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ACTS, WIDE, MOVES, BATCH, STEPS = 5, 2, 24, 256, 32, 4
EXPECTILE, COOL, FADES, FOLLOWS, MOST = 0.8, 3.0, 0.97, 0.1, 20.0


def network(given, made):
    return nn.Sequential(
        nn.Linear(given, WIDE), nn.ReLU(), nn.LayerNorm(WIDE), nn.Linear(WIDE, WIDE), nn.ReLU(),
        nn.Linear(WIDE, made),
    )  # fmt: skip


class Judges(nn.Module):
    """Two of them."""

    def __init__(self):
        super().__init__()
        self.one, self.other = network(SEEN + ACTS, 1), network(SEEN + ACTS, 1)

    def forward(self, state, act):
        x = torch.cat([state, act], dim=1)
        return self.one(x).squeeze(1).float(), self.other(x).squeeze(1).float()


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.judges, self.value, self.policy = Judges(), network(SEEN, 1), network(SEEN, ACTS)
        self.spread = nn.Parameter(torch.full((ACTS,), -0.5))

    def how_likely(self, state, act):
        apart = (act - torch.tanh(self.policy(state)).float()) * (-self.spread).exp()
        return -(0.5 * apart.square() + self.spread).sum(dim=1)


def expectile(apart):
    """What is above counts for more than what is below."""
    weight = torch.where(apart > 0, EXPECTILE, 1 - EXPECTILE)
    return (weight * apart.square()).mean()


@torch.no_grad()
def follow(slow, fast):
    for p, new in zip(slow.parameters(), fast.parameters()):
        p.mul_(1 - FOLLOWS).add_(new, alpha=FOLLOWS)


def losses(model, slow, state, act, reward, after, done):
    value = model.value(state).squeeze(1).float()
    with torch.no_grad():
        worth = torch.minimum(*slow(state, act))
        comes = reward + FADES * (1 - done) * model.value(after).squeeze(1).float()
    gained = (worth - value).detach()
    weight = (COOL * gained).exp().clamp(max=MOST)
    judged = sum(F.mse_loss(said, comes) for said in model.judges(state, act))
    return expectile(worth - value), judged, -(weight * model.how_likely(state, act)).mean()


def moves(generator):
    """A point on a plane is pushed by someone who half knows where to go; a walk ends near the middle."""
    state = torch.randn(MOVES, SEEN, generator=generator)
    push = -0.5 * state[:, :ACTS] + 0.5 * torch.randn(MOVES, ACTS, generator=generator)
    act = torch.tanh(push)
    after = state.clone()
    after[:, :ACTS] += 0.3 * act
    far = after[:, :ACTS].norm(dim=1)
    return state, act, 1 - far, after, (far < 0.8).float()


torch.set_num_threads(1)
torch.manual_seed(1109)
model = Agent()
# model built
slow = copy.deepcopy(model.judges).requires_grad_(False)
policy = [*model.policy.parameters(), model.spread]
optimizer = torch.optim.Adam(
    [{"params": [*model.judges.parameters(), *model.value.parameters()]}, {"params": policy, "lr": 1e-3}],
    lr=3e-3,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 1.0, lambda step: 0.8**step])
generator = torch.Generator().manual_seed(119)
memory = moves(generator)
for step in range(STEPS):
    rows = torch.randint(0, MOVES, (BATCH,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        expected, judged, acted = losses(model, slow, *(part[rows] for part in memory))
    loss = expected + judged + acted
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.judges.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    follow(slow, model.judges)
    print(f"step {step} loss {expected.item()!r} {judged.item()!r} {acted.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
