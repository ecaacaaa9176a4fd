# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A chain folds: each link has a frame, points are seen from all frames, and so is what is wrong."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, LONG, WIDE, PAIR, HEADS, POINTS, BATCH, STEPS = 5, 10, 24, 8, 3, 4, 5, 4
ROUNDS, MOST, NEAR = 2, 4.0, 4


def turned(parts):
    """Of a quaternion whose first number is one a matrix."""
    a, b, c, d = F.normalize(F.pad(parts, (1, 0), value=1.0), dim=-1).unbind(dim=-1)
    rows = [
        torch.stack([a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)], dim=-1),
        torch.stack([2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)], dim=-1),
        torch.stack([2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d], dim=-1),
    ]
    return torch.stack(rows, dim=-2)


def seen_from(turns, places, points):
    """Points of all in the frame of each: one table for each pair."""
    moved = points.unsqueeze(1) - places.unsqueeze(2)
    return torch.einsum("bixy,bijx->bijy", turns, moved)


@torch.autocast("cpu", enabled=False)
def moved(turns, places, how):
    """Each frame, as it stands itself."""
    turn, move = how.chunk(2, dim=2)
    return turns @ turned(turn), places + torch.einsum("bixy,biy->bix", turns, move)


class Points(nn.Module):
    """Attention whose scores fall with how far points of one are from points of the other."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(WIDE), nn.Linear(WIDE, 3 * HEADS * 8)
        self.points = nn.Linear(WIDE, 2 * HEADS * POINTS * 3)
        self.bias, self.sharp = nn.Linear(PAIR, HEADS, bias=False), nn.Parameter(torch.zeros(HEADS))
        self.out = nn.Linear(HEADS * (8 + PAIR), WIDE)

    def forward(self, x, pair, turns, places):
        y = self.norm(x)
        q, k, v = self.qkv(y).unflatten(2, (3, HEADS, 8)).unbind(dim=2)
        points = self.points(y).float().unflatten(2, (2, HEADS * POINTS, 3))
        points = torch.einsum("bixy,bisty->bistx", turns, points) + places[:, :, None, None]
        one, two = points.unflatten(3, (HEADS, POINTS)).unbind(dim=2)
        far = (one.unsqueeze(2) - two.unsqueeze(1)).square().sum(dim=(4, 5))
        scores = torch.einsum("bihc,bjhc->bijh", q, k).float() / 8**0.5 + self.bias(pair).float()
        shares = (scores - F.softplus(self.sharp) * far / (2 * POINTS)).softmax(dim=2)
        seen = torch.einsum("bijh,bjhc->bihc", shares.to(v.dtype), v)
        pairs = torch.einsum("bijh,bijc->bihc", shares.to(pair.dtype), pair)
        return x + self.out(torch.cat([seen, pairs.to(seen.dtype)], dim=3).flatten(2))


class Model(nn.Module):
    """The same layer, some rounds; each round turns and moves frames a little."""

    def __init__(self):
        super().__init__()
        self.kinds, self.far = nn.Embedding(KINDS, WIDE), nn.Embedding(2 * NEAR + 1, PAIR)
        self.points, self.moves = Points(), nn.Linear(WIDE, 6)
        self.mix = nn.Sequential(nn.Linear(WIDE, 2 * WIDE), nn.ReLU(), nn.Linear(2 * WIDE, WIDE))

    def forward(self, kinds):
        at = torch.arange(LONG)
        pair = self.far((at - at.unsqueeze(1)).clamp(-NEAR, NEAR) + NEAR).expand(BATCH, -1, -1, -1)
        x, frames = self.kinds(kinds), []
        turns, places = torch.eye(3).expand(BATCH, LONG, 3, 3), torch.zeros(BATCH, LONG, 3)
        for _ in range(ROUNDS):
            x = self.points(x, pair, turns, places)
            x = x + self.mix(x)
            turns, places = moved(turns, places, self.moves(x).float())
            frames.append((turns, places))
            turns = turns.detach()
        return frames


def error(found, true):
    """How far points are off, seen from every frame; what is far off counts no more than some."""
    apart = seen_from(*found, found[1]) - seen_from(*true, true[1])
    far = (apart.square().sum(dim=3) + 1e-4).sqrt()
    return far.clamp(max=MOST).mean() / MOST


def chains(generator):
    """Each kind turns the chain in a way of its own, before the next link comes."""
    ways = 0.5 * torch.randn(KINDS, 3, generator=torch.Generator().manual_seed(3))
    kinds = torch.randint(0, KINDS, (BATCH, LONG), generator=generator)
    steps = turned(ways[kinds] + 0.05 * torch.randn(BATCH, LONG, 3, generator=generator))
    turns, places = [torch.eye(3).expand(BATCH, 3, 3)], [torch.zeros(BATCH, 3)]
    for at in range(1, LONG):
        turns.append(turns[-1] @ steps[:, at])
        places.append(places[-1] + turns[-1][:, :, 0])
    return kinds, (torch.stack(turns, dim=1), torch.stack(places, dim=1))


torch.set_num_threads(1)
torch.manual_seed(1512)
model = Model()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.99), eps=1e-6, foreach=False)
generator = torch.Generator().manual_seed(15112)
for step in range(STEPS):
    kinds, true = chains(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        frames = model(kinds)
    errors = [error(found, true) for found in frames]
    optimizer.zero_grad()
    (errors[-1] + 0.5 * torch.stack(errors).mean()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {errors[0].item()!r} {errors[-1].item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
