# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which law moves what is seen: few numbers behind it change by terms of a list; small terms are dropped."""

import torch
from torch import nn

AUTOCAST = False
SEEN, WIDE, CODE, BATCH, STEPS, EVERY, SMALL, SPARSE = 10, 20, 3, 64, 4, 2, 0.1, 1e-2
MOVES, MOVED = 0.3, 0.1
PAIRS = torch.triu_indices(CODE, CODE)
TERMS = 1 + CODE + PAIRS.shape[1] + CODE


class Net(nn.Module):
    """Two layers, and how fast what comes out changes, by how fast that changes what comes in."""

    def __init__(self, seen, made):
        super().__init__()
        self.one, self.two = nn.Linear(seen, WIDE), nn.Linear(WIDE, made)

    def forward(self, x, speed):
        y = torch.sigmoid(self.one(x))
        inner = y * (1 - y) * (speed @ self.one.weight.T)
        return self.two(y), inner @ self.two.weight.T


class Model(nn.Module):
    """Terms that were dropped stay so."""

    def __init__(self):
        super().__init__()
        self.into, self.back = Net(SEEN, CODE), Net(CODE, SEEN)
        self.law = nn.Parameter(0.5 * torch.randn(TERMS, CODE))
        self.register_buffer("there", torch.ones(TERMS, CODE))

    def forward(self, x, speed):
        code, moves = self.into(x, speed)
        wanted = terms(code.float()) @ (self.law * self.there)
        again, moved = self.back(code, wanted)
        return moves.float(), wanted.float(), again.float(), moved.float()

    @torch.no_grad()
    def drops(self):
        self.there.mul_(self.law.abs() >= SMALL)


def terms(code):
    """One, all numbers, all products of two of them, and their sines."""
    pairs = code[:, PAIRS[0]] * code[:, PAIRS[1]]
    return torch.cat([torch.ones(len(code), 1), code, pairs, code.sin()], dim=1)


def seen(mixing, generator):
    """A Lorenz system at random places, through bent waves."""
    x, y, z = (torch.rand(3, BATCH, generator=generator) * 2 - 1).unbind()
    code = torch.stack([x, y, z], dim=1)
    speed = torch.stack([2 * (y - x), x * (1.5 - 2 * z) - y, 2 * x * y - z], dim=1)
    made = torch.tanh(code @ mixing)
    moved = (1 - made.square()) * (speed @ mixing)
    return made + 0.01 * torch.randn(made.shape, generator=generator), moved


torch.set_num_threads(1)
torch.manual_seed(1415)
model = Model()
# model built
nets = [*model.into.parameters(), *model.back.parameters()]
optimizer = torch.optim.Adamax([{"params": nets}, {"params": [model.law], "lr": 0.1}], lr=1e-2, foreach=False)
mixing = torch.randn(CODE, SEEN, generator=torch.Generator().manual_seed(15)) / 1.5
generator = torch.Generator().manual_seed(14115)
for step in range(STEPS):
    x, speed = seen(mixing, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        moves, wanted, again, moved = model(x, speed)
    wrong = (again - x).square().mean()
    slow = (moves - wanted).square().mean()
    fast = (moved - speed).square().mean()
    many = (model.law * model.there).abs().mean()
    optimizer.zero_grad()
    (wrong + MOVES * slow + MOVED * fast + SPARSE * many).backward()
    nn.utils.clip_grad_norm_(nets, 0.5)
    optimizer.step()
    if (step + 1) % EVERY == 0:
        model.drops()
    print(f"step {step} loss {wrong.item()!r} {slow.item()!r} {fast.item()!r}")
print(
    "weights",
    sum(p.detach().double().abs().sum().item() for p in model.parameters()),
    model.there.sum().item(),
)
