# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Who acts wants to see what it cannot tell yet: a forward and an inverse model of what its acts change."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ACTS, WIDE, CODE, WORLDS, LONG, STEPS = 9, 4, 24, 8, 6, 8, 4
GAMMA, WONDER, FORWARD, UNSURE, PASSES = 0.95, 0.5, 0.2, 0.01, 2


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, WIDE), nn.Hardtanh(), nn.Linear(WIDE, WIDE), nn.Hardtanh())
        self.acts, self.worth = nn.Linear(WIDE, ACTS), nn.Linear(WIDE, 1)
        nn.init.orthogonal_(self.acts.weight, gain=0.1)

    def forward(self, x):
        x = self.body(x)
        return self.acts(x).float(), self.worth(x).float().squeeze(-1)


class Wonder(nn.Module):
    """What a state is like, as far as acts have to do with it; which act it was; what it will be like."""

    def __init__(self):
        super().__init__()
        self.code = nn.Sequential(nn.Linear(SEEN, WIDE), nn.ELU(), nn.Linear(WIDE, CODE))
        self.which = nn.Sequential(nn.Linear(2 * CODE, WIDE), nn.ELU(), nn.Linear(WIDE, ACTS))
        self.next = nn.Sequential(nn.Linear(CODE + ACTS, WIDE), nn.ELU(), nn.Linear(WIDE, CODE))

    def forward(self, before, act, after):
        """How far each guess was off, and scores of acts; codes are learnt by the acts alone."""
        one, two = self.code(before), self.code(after)
        scores = self.which(torch.cat([one, two], dim=-1)).float()
        chosen = F.one_hot(act, ACTS).to(one.dtype)
        guess = self.next(torch.cat([one.detach(), chosen], dim=-1))
        return 0.5 * (guess.float() - two.detach().float()).square().sum(dim=-1), scores


class Scale:
    """Means of squares, so that wonder is as large as it usually is."""

    def __init__(self):
        self.square, self.count = 1.0, 1e-2

    def __call__(self, wonder):
        many = wonder.numel()
        share = many / (self.count + many)
        self.square += share * (wonder.square().mean().item() - self.square)
        self.count += many
        return wonder / (self.square**0.5 + 1e-8)


def moved(x, act, generator):
    """A ring of places; one act stays, one is a lottery."""
    place = x.argmax(dim=1)
    dice = torch.randint(0, SEEN, (WORLDS,), generator=generator)
    options = torch.stack([place, (place + 1) % SEEN, (place - 1) % SEEN, dice])
    after = options[act, torch.arange(WORLDS)]
    return F.one_hot(after, SEEN).float(), (after == SEEN - 1).float()


@torch.no_grad()
def played(policy, x, generator):
    states, acts, rewards = [x], [], []
    for _ in range(LONG):
        act = torch.multinomial(policy(x)[0].softmax(dim=1), 1, generator=generator).squeeze(1)
        x, reward = moved(x, act, generator)
        states.append(x)
        acts.append(act)
        rewards.append(reward)
    return torch.stack(states), torch.stack(acts), torch.stack(rewards)


@torch.no_grad()
def returns(rewards, last):
    """Sums of what comes, less the later it is."""
    found = []
    for reward in reversed(rewards.unbind()):
        last = reward + GAMMA * last
        found.append(last)
    return torch.stack(found[::-1])


torch.set_num_threads(1)
torch.manual_seed(1311)
model = nn.ModuleDict({"policy": Policy(), "wonder": Wonder()})
# model built
optimizer = torch.optim.Adam(
    [{"params": model["policy"].parameters()}, {"params": model["wonder"].parameters(), "lr": 1e-2}],
    lr=5e-3, eps=1e-5, foreach=False,
)  # fmt: skip
generator = torch.Generator().manual_seed(13111)
scale = Scale()
x = F.one_hot(torch.arange(WORLDS), SEEN).float()
for step in range(STEPS):
    states, acts, rewards = played(model["policy"], x, generator)
    x = states[-1]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        off, scores = model["wonder"](states[:-1], acts, states[1:])
        logits, worth = model["policy"](states)
    wanted = returns(rewards + WONDER * scale(off.detach()), worth[-1].detach())
    better = (wanted - worth[:-1]).detach()
    logs = logits[:-1].log_softmax(dim=-1)
    chosen = logs.gather(-1, acts.unsqueeze(-1)).squeeze(-1)
    unsure = -(logs.exp() * logs).sum(dim=-1).mean()
    acting = -(better * chosen).mean() + 0.5 * F.mse_loss(worth[:-1], wanted) - UNSURE * unsure
    telling = (1 - FORWARD) * F.cross_entropy(scores.flatten(0, 1), acts.flatten()) + FORWARD * off.mean()
    optimizer.zero_grad()
    (acting + telling).backward()
    for part in model.values():
        nn.utils.clip_grad_norm_(part.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {acting.item()!r} {telling.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
