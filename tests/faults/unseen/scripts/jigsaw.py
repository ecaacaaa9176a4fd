# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which piece of a picture belongs where: scores become nearly a permutation, row by row, then by columns."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, PIECES, SMALL, BATCH, STEPS, ROUNDS, DRAWS = 12, 9, 4, 12, 4, 8, 2


class SM3(torch.optim.Optimizer):
    """Squares of gradients are kept as one number of each row and column; the lesser of both counts."""

    def __init__(self, params, lr, momentum=0.5, eps=1e-6):
        super().__init__(params, {"lr": lr, "momentum": momentum, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, grad = self.state[p], p.grad
                if not state:
                    state["most"] = [grad.new_zeros(size) for size in grad.shape]
                    state["mean"] = torch.zeros_like(p)
                square = None
                for dim, most in enumerate(state["most"]):
                    shape = [1] * grad.ndim
                    shape[dim] = -1
                    most = most.view(shape)
                    square = most.expand_as(grad) if square is None else torch.minimum(square, most)
                square = square + grad.square()
                for dim, most in enumerate(state["most"]):
                    others = [other for other in range(grad.ndim) if other != dim]
                    most.copy_(square.amax(dim=others) if others else square)
                way = grad / (square.sqrt() + group["eps"])
                state["mean"].lerp_(way, 1 - group["momentum"])
                p.sub_(state["mean"], alpha=group["lr"])


class Model(nn.Module):
    """Each piece by itself, and then what all pieces are together, say where it may belong."""

    def __init__(self):
        super().__init__()
        self.near = nn.Conv2d(3, 10, 3, padding=1)
        self.piece = nn.Linear(10 * (SMALL // 2) ** 2, 24)
        self.whole, self.scores = nn.Linear(24, 24), nn.Linear(24, PIECES)

    def forward(self, pieces):
        x = F.max_pool2d(F.celu(self.near(pieces.flatten(0, 1))), 2)
        x = F.celu(self.piece(x.flatten(1))).unflatten(0, (-1, PIECES))
        return self.scores(F.celu(x + self.whole(x.mean(dim=1, keepdim=True)))).float()


def shared(scores, heat, generator):
    """Rows and columns are made to sum to one in turn, of scores with a noise of Gumbel."""
    noise = -torch.log(-torch.log(torch.rand(DRAWS, *scores.shape, generator=generator) + 1e-9) + 1e-9)
    logs = (scores + noise) / heat
    for _ in range(ROUNDS):
        logs = logs - logs.logsumexp(dim=3, keepdim=True)
        logs = logs - logs.logsumexp(dim=2, keepdim=True)
    return logs.exp()


def cut(x):
    """Pieces from left to right and down, one after another."""
    x = x.unflatten(2, (-1, SMALL)).unflatten(4, (-1, SMALL))
    return x.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def pictures(generator):
    """Light that comes from above on the left, and spots."""
    at = torch.arange(SIDE) / SIDE
    x = torch.stack([at.expand(SIDE, -1), at.unsqueeze(1).expand(-1, SIDE), at + at.unsqueeze(1)])
    spots = F.avg_pool2d(torch.randn(BATCH, 3, SIDE, SIDE, generator=generator), 3, stride=1, padding=1)
    whole = cut(2 * x + spots)
    order = torch.stack([torch.randperm(PIECES, generator=generator) for _ in range(BATCH)])
    return whole, whole[torch.arange(BATCH).unsqueeze(1), order]


torch.set_num_threads(1)
torch.manual_seed(1410)
model = Model()
# model built
optimizer = SM3(model.parameters(), lr=5e-2)
generator = torch.Generator().manual_seed(14110)
heat = 1.0
for step in range(STEPS):
    whole, mixed = pictures(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        scores = model(mixed)
    shares = shared(scores, heat, generator)
    again = torch.einsum("sbij,bichw->sbjchw", shares, mixed)
    loss = (again - whole).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    heat = max(0.3, heat * 0.8)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
