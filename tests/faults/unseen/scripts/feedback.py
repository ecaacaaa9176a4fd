# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Errors go to each layer by numbers that are never learnt, not back through the weights."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, SEEN, WIDE, BATCH, STEPS, EVERY, SLOW = 4, 12, 28, 30, 5, 2, 0.5


class Aligned(torch.autograd.Function):
    """A layer whose gradient comes from the error of the scores alone, which `tap` carries."""

    @staticmethod
    def forward(ctx, x, weight, bias, fixed, tap):
        made = torch.tanh(x @ weight.T + bias).float()
        ctx.save_for_backward(x, made, fixed)
        return made, tap.view_as(tap)

    @staticmethod
    def backward(ctx, grad, error):
        x, made, fixed = ctx.saved_tensors
        own = (error @ fixed) * (1 - made * made)
        return None, own.T @ x, own.sum(dim=0), None, error


class Layer(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(made, given)), nn.Parameter(torch.zeros(made))
        nn.init.xavier_uniform_(self.weight, gain=5 / 3)
        self.register_buffer("fixed", torch.randn(KINDS, made) / KINDS**0.5)

    def forward(self, x, tap):
        return Aligned.apply(x, self.weight, self.bias, self.fixed, tap)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = Layer(SEEN, WIDE), Layer(WIDE, WIDE), Layer(WIDE, WIDE)
        self.out = nn.Linear(WIDE, KINDS)

    def forward(self, x):
        tap = torch.zeros(len(x), KINDS, requires_grad=True)
        one, tap = self.first(x, tap)
        two, tap = self.second(one, tap)
        three, tap = self.third((one + two) / 2, tap)
        return self.out(three.detach()).float() + tap


class Lookahead:
    """Every few steps: back a part of the way to where it was."""

    def __init__(self, optimizer):
        self.optimizer, self.count = optimizer, 0
        self.slow = [p.detach().clone() for group in optimizer.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self):
        self.optimizer.step()
        self.count += 1
        if self.count % EVERY == 0:
            fast = [p for group in self.optimizer.param_groups for p in group["params"]]
            for p, slow in zip(fast, self.slow):
                slow.add_(p - slow, alpha=SLOW)
                p.copy_(slow)


def rows(generator):
    """Which of four products is the largest."""
    x = torch.randn(BATCH, SEEN, generator=generator)
    return x, (x[:, :4] * x[:, 4:8] + 0.5 * x[:, 8:]).argmax(dim=1)


torch.set_num_threads(1)
torch.manual_seed(1219)
model = Model()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.6, weight_decay=1e-3, foreach=False)
ahead = Lookahead(optimizer)
schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.4, step_size_up=2, mode="exp_range", gamma=0.9)
generator = torch.Generator().manual_seed(12119)
for step in range(STEPS):
    x, kinds = rows(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    ahead.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
