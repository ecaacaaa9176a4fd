# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A state that is driven by a path: what was seen now and then is a smooth curve, and is solved along it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LONG, SEEN, STATE, WIDE, KINDS, BATCH, STEPS = 12, 3, 10, 20, 3, 16, 4


class Path:
    """Cubic pieces through all that was seen; each begins as steep as the one before was on the whole."""

    def __init__(self, x):
        self.x = x
        moves = x[:, 1:] - x[:, :-1]
        self.slopes = torch.cat([moves[:, :1], moves], dim=1)

    def slope(self, time):
        """How fast all goes at a time; each piece is one long."""
        at = min(int(time), LONG - 2)
        part = time - at
        move = self.x[:, at + 1] - self.x[:, at]
        begin, end = self.slopes[:, at], self.slopes[:, at + 1]
        two = 3 * move - 2 * begin - end
        three = begin + end - 2 * move
        return begin + 2 * part * two + 3 * part**2 * three


class Model(nn.Module):
    """A matrix of the state says what a move of the path does to the state."""

    def __init__(self):
        super().__init__()
        self.begins = nn.Linear(SEEN + 2, STATE)
        self.one, self.two = nn.Linear(STATE, WIDE), nn.Linear(WIDE, STATE * (SEEN + 2))
        self.answer = nn.Linear(STATE, KINDS)

    def moves(self, path, time, state):
        matrix = torch.tanh(self.two(F.softplus(self.one(state)))).float()
        return torch.einsum("bij,bj->bi", matrix.unflatten(1, (STATE, SEEN + 2)), path.slope(time))

    def forward(self, x):
        path, state = Path(x), self.begins(x[:, 0]).float()
        for at in range(LONG - 1):
            one = self.moves(path, at, state)
            two = self.moves(path, at + 1 / 3, state + one / 3)
            three = self.moves(path, at + 2 / 3, state + two - one / 3)
            four = self.moves(path, at + 1, state + one - two + three)
            state = state + (one + 3 * two + 3 * three + four) / 8
        return self.answer(state).float(), state


def spirals(generator):
    """Turns of three kinds; most numbers are not seen at most times, and stay what they were."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    at = torch.arange(LONG) / LONG
    rate = (kinds - 1).unsqueeze(1) * 4 + torch.rand(BATCH, 1, generator=generator)
    turn = rate * at + 6.28 * torch.rand(BATCH, 1, generator=generator)
    x = torch.stack([turn.cos(), turn.sin(), at.expand(BATCH, -1)], dim=2)
    x = x + 0.05 * torch.randn(x.shape, generator=generator)
    seen = torch.rand(BATCH, LONG, SEEN, generator=generator) < 0.6
    seen[:, 0] = True
    last = torch.where(seen, torch.arange(LONG).view(1, -1, 1), 0).cummax(dim=1).values
    x = x.gather(1, last)
    many = seen.float().mean(dim=2, keepdim=True).cumsum(dim=1)
    return torch.cat([at.view(1, -1, 1).expand(BATCH, -1, 1), many / LONG, x], dim=2), kinds


def centred(params):
    """Of each row of a gradient its mean is taken away."""
    for p in params:
        if p.grad.ndim > 1:
            p.grad -= p.grad.mean(dim=1, keepdim=True)


torch.set_num_threads(1)
torch.manual_seed(1406)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True, weight_decay=1e-3, foreach=False)
generator = torch.Generator().manual_seed(14106)
for step in range(STEPS):
    x, kinds = spirals(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found, state = model(x)
    loss = F.cross_entropy(found, kinds) + 1e-2 * state.square().mean()
    optimizer.zero_grad()
    loss.backward()
    centred(model.parameters())
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
