# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""To act as one who knows how: a critic tells his acts from one's own, and what it believes is a reward."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ACTS, LONG, PLAYS, STEPS, FADES, KEPT, CALM, SLOPES = 4, 3, 8, 12, 4, 0.95, 0.9, 0.02, 0.5


def layers(comes, goes):
    return nn.Sequential(nn.Linear(comes, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, goes))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy, self.value, self.critic = layers(SEEN, ACTS), layers(SEEN, 1), layers(SEEN + ACTS, 1)


class World:
    """A point on a plane with a speed; acts push it, and a play ends far outside."""

    def __init__(self, generator):
        self.pushes = torch.tensor([[0.4, 0.0], [-0.2, 0.35], [-0.2, -0.35]])
        self.begin = torch.randn(PLAYS, SEEN, generator=generator)

    def moved(self, state, act):
        speed = 0.8 * state[:, 2:] + self.pushes[act]
        return torch.cat([state[:, :2] + 0.5 * speed, speed], dim=1)

    def expert(self, state):
        """Pushes where it gets nearest to the middle."""
        ends = torch.stack([self.moved(state, torch.full((PLAYS,), act)) for act in range(ACTS)], dim=1)
        return (ends[..., :2] + ends[..., 2:]).square().sum(dim=2).argmin(dim=1)


@torch.no_grad()
def played(world, chooses):
    state, states, acts, alive = world.begin, [], [], []
    goes_on = torch.ones(PLAYS)
    for _ in range(LONG):
        act = chooses(state)
        states.append(state)
        acts.append(act)
        state = world.moved(state, act)
        goes_on = goes_on * (state[:, :2].norm(dim=1) < 3).float()
        alive.append(goes_on)
    return torch.stack(states, dim=1), torch.stack(acts, dim=1), torch.stack(alive, dim=1), state


def advantages(rewards, values, last, alive):
    """What came of an act beyond what was expected, ever less of what came later."""
    found, ahead, later = [], torch.zeros(PLAYS), last
    for at in reversed(range(LONG)):
        off = rewards[:, at] + FADES * alive[:, at] * later - values[:, at]
        ahead = off + FADES * KEPT * alive[:, at] * ahead
        later = values[:, at]
        found.append(ahead)
    return torch.stack(found[::-1], dim=1)


def steep(critic, own, known, generator):
    """Between his acts and one's own the critic shall not be steep."""
    share = torch.rand(PLAYS, LONG, 1, generator=generator)
    between = (share * own + (1 - share) * known).requires_grad_()
    slopes = torch.autograd.grad(critic(between).float().sum(), between, create_graph=True)[0]
    return (slopes.norm(dim=2) - 1).square().mean()


torch.set_num_threads(1)
torch.manual_seed(1611)
model = Model()
# model built
learns = torch.optim.RMSprop(
    [*model.policy.parameters(), *model.value.parameters()], lr=4e-3, alpha=0.9, momentum=0.5, foreach=False
)
judges = torch.optim.Adam(model.critic.parameters(), lr=3e-3, betas=(0.5, 0.9), foreach=False)
generator = torch.Generator().manual_seed(16111)
for step in range(STEPS):
    world = World(generator)

    def own(state):
        return torch.multinomial(model.policy(state).softmax(dim=1), 1, generator=generator).squeeze(1)

    states, acts, alive, last = played(world, own)
    others, right, _, _ = played(world, world.expert)
    mine = torch.cat([states, F.one_hot(acts, ACTS)], dim=2)
    his = torch.cat([others, F.one_hot(right, ACTS)], dim=2)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        believed, known = model.critic(mine).float(), model.critic(his).float()
        penalty = steep(model.critic, mine, his, generator)
    judged = F.softplus(believed).mean() + F.softplus(-known).mean() + SLOPES * penalty
    judges.zero_grad()
    judged.backward()
    judges.step()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        with torch.no_grad():
            rewards = F.softplus(model.critic(mine).float()).squeeze(2)
            after = model.value(last).float().squeeze(1)
        logs = model.policy(states).float().log_softmax(dim=2)
        values = model.value(states).float().squeeze(2)
    gained = advantages(rewards, values.detach(), after, alive)
    wanted = gained + values.detach()
    even = (gained - gained.mean()) / (gained.std() + 1e-6)
    acted = logs.gather(2, acts.unsqueeze(2)).squeeze(2)
    open_minded = -(logs.exp() * logs).sum(dim=2).mean()
    loss = -(acted * even).mean() + 0.5 * F.mse_loss(values, wanted) - CALM * open_minded
    learns.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.policy.parameters(), 1.0)
    learns.step()
    print(f"step {step} loss {loss.item()!r} {judged.item()!r} {rewards.mean().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
