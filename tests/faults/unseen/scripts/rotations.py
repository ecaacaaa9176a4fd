# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How a body stands, from its flat picture: turns of joints along a skeleton, by a transformer over time."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PARENTS = (-1, 0, 1, 2, 1, 4, 0, 6)
JOINTS, WIDE, HEADS, FRAMES, BATCH, STEPS, PARTS, SMOOTH = len(PARENTS), 32, 4, 6, 4, 3, 2, 0.5


def turned(six):
    """Matrices of two vectors each, which are made upright and of length one."""
    first, second = six.unflatten(-1, (2, 3)).unbind(dim=-2)
    first = F.normalize(first, dim=-1)
    second = second - (first * second).sum(dim=-1, keepdim=True) * first
    second = F.normalize(second, dim=-1)
    return torch.stack([first, second, torch.linalg.cross(first, second)], dim=-1)


def stand(turns, bones):
    """Where joints are: each is turned with all that it hangs on."""
    whole, places = [turns[..., 0, :, :]], [torch.zeros(*turns.shape[:-3], 3)]
    for joint in range(1, JOINTS):
        above = whole[PARENTS[joint]]
        places.append(places[PARENTS[joint]] + (above @ bones[joint].unsqueeze(1)).squeeze(-1))
        whole.append(above @ turns[..., joint, :, :])
    return torch.stack(places, dim=-2)


class Lifts(nn.Module):
    def __init__(self):
        super().__init__()
        self.sees = nn.Linear(2 * JOINTS, WIDE)
        self.times = nn.Parameter(0.1 * torch.randn(FRAMES, WIDE))
        layer = nn.TransformerEncoderLayer(
            WIDE, HEADS, 2 * WIDE, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.over_time = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDE), enable_nested_tensor=False)
        self.out = nn.Linear(WIDE, 6 * JOINTS)
        nn.init.xavier_uniform_(self.out.weight, gain=0.5)
        self.register_buffer("still", torch.tensor([1.0, 0, 0, 0, 1, 0]).repeat(JOINTS))

    def forward(self, flat):
        x = self.over_time(self.sees(flat.flatten(2)) + self.times)
        return turned((self.out(x).float() + self.still).unflatten(-1, (JOINTS, 6)))


def bodies(bones, generator):
    """Turns that change slowly, and what is seen of them from the front, a little far."""
    still = torch.tensor([1.0, 0, 0, 0, 1, 0])
    ends = 0.6 * torch.randn(2, BATCH, 1, JOINTS, 6, generator=generator)
    share = torch.linspace(0, 1, FRAMES).view(1, -1, 1, 1)
    turns = turned(still + torch.lerp(ends[0], ends[1], share))
    places = stand(turns, bones)
    flat = places[..., :2] / (4 + places[..., 2:])
    return turns, places, 4 * flat + 0.01 * torch.randn(flat.shape, generator=generator)


def judged(model, bones, turns, places, flat):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(flat)
    own = stand(found, bones)
    apart = (own - places).norm(dim=-1)[..., 1:].mean()
    moves = F.l1_loss(own.diff(dim=1), places.diff(dim=1))
    trace = (found * turns).sum(dim=(-1, -2))
    return apart + SMOOTH * moves + 0.1 * (3 - trace).mean()


torch.set_num_threads(1)
torch.manual_seed(1106)
model = Lifts()
# model built
optimizer = torch.optim.NAdam(
    model.parameters(), lr=2e-3, weight_decay=1e-2, decoupled_weight_decay=True, foreach=False
)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=2)
fade = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
schedule = torch.optim.lr_scheduler.ChainedScheduler([warm, fade])
generator = torch.Generator().manual_seed(116)
bones = 0.4 * torch.randn(JOINTS, 3, generator=generator)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        loss = judged(model, bones, *bodies(bones, generator)) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
