# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of every series: a recurrence is handed on, and its gradient handed back."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, HALF, BATCH, AHEAD, STEPS = 4, 20, 10, 8, 3, 4


class Take(torch.autograd.Function):
    """What the first process ended with, of which the second gives the gradient back."""

    @staticmethod
    def forward(ctx, state):
        state = state.detach().clone()
        if dist.get_rank() == 0:
            return state
        dist.recv(state, 0)
        return state

    @staticmethod
    def backward(ctx, grad):
        if dist.get_rank() == 1:
            dist.send(grad.contiguous(), 0)
        return grad


class Give(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state):
        if dist.get_rank() == 0:
            dist.send(state.contiguous(), 1)
        return state.view_as(state)

    @staticmethod
    def backward(ctx, grad):
        if dist.get_rank() == 1:
            return grad
        more = torch.empty_like(grad)
        dist.recv(more, 1)
        return grad + more


class Gated(nn.Module):
    """How much goes on is said by what is seen alone."""

    def __init__(self):
        super().__init__()
        self.norm, self.both = nn.RMSNorm(WIDE), nn.Linear(WIDE, 2 * WIDE)
        self.out = nn.Linear(WIDE, WIDE)

    def forward(self, x):
        gate, new = self.both(self.norm(x)).float().chunk(2, dim=-1)
        gate, new = torch.sigmoid(gate + 1), torch.tanh(new)
        states = recurred(gate, new, Take.apply(torch.zeros(len(x), WIDE, requires_grad=True)))
        last = Give.apply(states[:, -1])
        states = torch.cat([states[:, :-1], last.unsqueeze(1)], dim=1)
        return x + self.out(states)


def recurred(gate, new, state):
    found = []
    for at in range(HALF):
        state = gate[:, at] * state + (1 - gate[:, at]) * new[:, at]
        found.append(state)
    return torch.stack(found, dim=1)


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.sees, self.places = nn.Linear(SEEN, WIDE), nn.Embedding(2 * HALF, WIDE)
        self.layers = nn.ModuleList(Gated() for _ in range(2))
        self.out = nn.Linear(WIDE, AHEAD * SEEN)

    def forward(self, x):
        at = torch.arange(HALF) + dist.get_rank() * HALF
        x = self.sees(x) + self.places(at)
        for layer in self.layers:
            x = layer(x)
        return self.out(x).float().unflatten(-1, (AHEAD, SEEN))


def series(generator):
    """Swinging sums, the part of this process, and at each place what comes next."""
    at = torch.arange(2 * HALF + AHEAD).view(1, -1, 1)
    pace, begin = (torch.rand(BATCH, 1, SEEN, generator=generator) for _ in range(2))
    x = torch.sin((0.2 + pace) * at + 6.3 * begin) + 0.02 * at * (pace - 0.5)
    x = x + 0.05 * torch.randn(x.shape, generator=generator)
    comes = x.unfold(1, AHEAD, 1)[:, 1:].mT
    own = slice(dist.get_rank() * HALF, (dist.get_rank() + 1) * HALF)
    return x[:, own], comes[:, own]


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1017)
model = Forecast()
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
generator = torch.Generator().manual_seed(117)
for step in range(STEPS):
    x, comes = series(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.smooth_l1_loss(found, comes, beta=0.3) / 2
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
