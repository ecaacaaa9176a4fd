# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes: one acts and learns how to act, the other judges what came of it and learns how to judge."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ACTS, WIDE, WORLDS, LONG, STEPS = 6, 4, 24, 8, 6, 4
GAMMA, LAMBDA, BONUS = 0.95, 0.9, 0.01


class Body(nn.Module):
    def __init__(self, after):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE)
        self.norm, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, after)

    def forward(self, x):
        h = F.elu(self.norm(self.first(x)))
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            h = F.elu(self.second(h))
            return self.out(h).float()


def world():
    g = torch.Generator().manual_seed(917)
    turn = torch.linalg.qr(torch.randn(SEEN, SEEN, generator=g)).Q
    return 0.9 * turn, torch.randn(ACTS, SEEN, generator=g) * 0.5


@torch.no_grad()
def played(actor, x, generator):
    """States with the last one, acts, rewards, and where a life ended and began anew."""
    turn, push = world()
    states, acts, rewards, ends = [x], [], [], []
    for _ in range(LONG):
        act = torch.multinomial(actor(x).softmax(dim=-1), 1, generator=generator).squeeze(-1)
        x = x @ turn.T + push[act] + 0.1 * torch.randn(WORLDS, SEEN, generator=generator)
        end = x.norm(dim=-1) > 3.0
        rewards.append(1.0 - x[:, 0].abs() - end.float())
        x = torch.where(end.unsqueeze(-1), torch.randn(WORLDS, SEEN, generator=generator), x)
        states.append(x)
        acts.append(act)
        ends.append(end.float())
    return torch.stack(states), torch.stack(acts), torch.stack(rewards), torch.stack(ends)


@torch.no_grad()
def better(values, rewards, ends):
    """How much better each act was than what was thought, later surprises counting less and less."""
    total, found = torch.zeros(WORLDS), []
    for at in reversed(range(LONG)):
        goes_on = 1 - ends[at]
        surprise = rewards[at] + GAMMA * values[at + 1] * goes_on - values[at]
        total = surprise + GAMMA * LAMBDA * goes_on * total
        found.append(total)
    return torch.stack(found[::-1])


def act_step(model, optimizer, x, generator):
    states, acts, rewards, ends = played(model, x, generator)
    for tensor in (states, rewards, ends):
        dist.send(tensor, 1)
    advantage = torch.empty(LONG, WORLDS)
    dist.recv(advantage, 1)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
    logs = model(states[:-1]).log_softmax(dim=-1)
    chosen = logs.gather(-1, acts.unsqueeze(-1)).squeeze(-1)
    unsure = -(logs.exp() * logs).sum(-1)
    loss = -(advantage * chosen).mean() - BONUS * unsure.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return loss, states[-1]


def judge_step(model, optimizer):
    states, rewards, ends = (
        torch.empty(n, WORLDS, *more) for n, more in ((LONG + 1, (SEEN,)), (LONG, ()), (LONG, ()))
    )
    for tensor in (states, rewards, ends):
        dist.recv(tensor, 0)
    values = model(states).squeeze(-1)
    advantage = better(values, rewards, ends)
    dist.send(advantage, 0)
    wanted = (advantage + values[:-1]).detach()
    loss = F.smooth_l1_loss(values[:-1], wanted, beta=0.5)
    optimizer.zero_grad()
    loss.backward()
    return loss


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(917 + rank)
model = Body(1 if rank else ACTS)
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3 if rank else 7e-4, alpha=0.99, foreach=False)
generator = torch.Generator().manual_seed(9400)
x = torch.randn(WORLDS, SEEN, generator=generator)
for step in range(STEPS):
    if rank == 0:
        loss, x = act_step(model, optimizer, x, generator)
    else:
        loss = judge_step(model, optimizer)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
