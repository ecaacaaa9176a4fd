# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What somebody wants, from how he walks: what places are worth, such that his ways are the likely ones."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, LOOKS, WIDE, MAPS, WALKS, AHEAD, STEPS, FADES = 6, 4, 12, 4, 8, 9, 4, 0.95
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))


class Model(nn.Module):
    """What a place is worth by its looks and those of its neighbours; how sure one acts is learnt, too."""

    def __init__(self):
        super().__init__()
        self.near, self.looks = nn.Conv2d(LOOKS, WIDE, 3, padding=1), nn.Conv2d(LOOKS, WIDE, 1)
        self.norm, self.worth = nn.GroupNorm(3, WIDE), nn.Conv2d(WIDE, 1, 1)
        self.sure = nn.Parameter(torch.tensor(0.5))

    def forward(self, maps):
        x = F.elu(self.norm(self.near(maps) + self.looks(maps)))
        return -F.softplus(self.worth(x)).float().squeeze(1)


def reached(values):
    """What is worth each act at each place: that of where it leads; who would leave the map stays."""
    framed = F.pad(values.unsqueeze(1), (1, 1, 1, 1), mode="replicate").squeeze(1)
    parts = [framed[:, 1 + down : 1 + down + SIDE, 1 + right : 1 + right + SIDE] for down, right in MOVES]
    return torch.stack(parts, dim=1)


def planned(worth, sure):
    """Softly best acts of each moment, back from the last one."""
    values, plans = torch.zeros_like(worth), []
    for _ in range(AHEAD):
        acts = worth.unsqueeze(1) + FADES * reached(values)
        values = torch.logsumexp(acts * sure, dim=1) / sure
        plans.append((acts - values.unsqueeze(1)) * sure)
    return torch.stack(plans[::-1], dim=1)


def unlikely(plans, places, acts):
    """Of all that was done, at each moment and place."""
    row = torch.arange(MAPS).view(-1, 1, 1)
    at = torch.arange(AHEAD).view(1, 1, -1)
    return -plans[row, at, acts, places[..., 0], places[..., 1]].sum(dim=2).mean()


@torch.no_grad()
def walks(likes, generator):
    """Maps of looks, and how one walks there who knows what he likes."""
    looks = F.one_hot(torch.randint(0, LOOKS, (MAPS, SIDE, SIDE), generator=generator), LOOKS)
    worth = looks.float() @ likes
    plans = planned(worth, torch.tensor(2.0))
    at = torch.randint(0, SIDE, (MAPS, WALKS, 2), generator=generator)
    places, acts, row = [], [], torch.arange(MAPS).unsqueeze(1)
    for time in range(AHEAD):
        chance = plans[row, time, :, at[..., 0], at[..., 1]].exp()
        act = torch.multinomial(chance.flatten(0, 1), 1, generator=generator).view(MAPS, WALKS)
        places.append(at)
        acts.append(act)
        at = (at + torch.tensor(MOVES)[act]).clamp(0, SIDE - 1)
    maps = looks.permute(0, 3, 1, 2).float()
    return maps, torch.stack(places, dim=2), torch.stack(acts, dim=2)


torch.set_num_threads(1)
torch.manual_seed(1412)
model = Model()
# model built
sure = [model.sure]
others = [p for p in model.parameters() if p is not model.sure]
optimizer = torch.optim.RAdam([{"params": others}, {"params": sure, "lr": 5e-2}], lr=1e-2, foreach=False)
likes = -torch.tensor([0.2, 1.0, 2.0, 0.6])
generator = torch.Generator().manual_seed(14112)
for step in range(STEPS):
    maps, places, acts = walks(likes, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        worth = model(maps)
    plans = planned(worth, model.sure.exp())
    wrong = unlikely(plans, places, acts)
    even = (worth[:, 1:] - worth[:, :-1]).abs().mean() + worth.diff(dim=2).abs().mean()
    optimizer.zero_grad()
    (wrong + 0.1 * even).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {wrong.item()!r} {even.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
