# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with a network each for half of a rod that conducts heat otherwise; they meet amid it."""

import torch
import torch.distributed as dist
from torch import nn

AUTOCAST = False
WIDE, INSIDE, MIDDLE, STEPS, MEETS, FLOWS, ENDS = 20, 24, 6, 5, 20.0, 0.5, 10.0
CONDUCTS = (1.0, 0.4)


class Field(nn.Module):
    """Heat at a place and a time; steepness of the waves is learnt, too."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(2, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 1)
        self.steep = nn.Parameter(torch.tensor(1.0))
        for layer in (self.first, self.second):
            nn.init.xavier_normal_(layer.weight)

    def forward(self, place, time):
        x = torch.stack([2 * place - 1, 2 * time - 1], dim=1)
        x = torch.tanh(self.steep * self.first(x))
        x = torch.tanh(self.steep * self.second(x))
        return self.out(x).float().squeeze(1)


def along(heat, by):
    return torch.autograd.grad(heat.sum(), by, create_graph=True)[0]


def inside(model, conducts, low, generator):
    """What the equation says of places of this half."""
    place = (low + 0.5 * torch.rand(INSIDE, generator=generator)).requires_grad_()
    time = torch.rand(INSIDE, generator=generator).requires_grad_()
    heat = model(place, time)
    flow = conducts * along(heat, place)
    source = torch.sin(3.1416 * place) * (1 - time)
    return (along(heat, time) - along(flow, place) - source).square().mean()


def ends(model, rank, low, generator):
    """Cold at the end of the rod, and what it was in the beginning."""
    time = torch.rand(MIDDLE, generator=generator)
    place = low + 0.5 * torch.rand(MIDDLE, generator=generator)
    cold = model(torch.full_like(time, float(rank)), time).square().mean()
    began = model(place, torch.zeros_like(place)) - torch.sin(3.1416 * place)
    return cold + began.square().mean()


def swapped(own):
    """What the other half says of the middle."""
    rank = dist.get_rank()
    theirs = torch.empty_like(own)
    for sender in (0, 1):
        if sender == rank:
            dist.send(own, 1 - rank)
        else:
            dist.recv(theirs, 1 - rank)
    return theirs


def meets(model, conducts, shared):
    """At the middle both are equally warm, and what flows out of one flows into the other."""
    time = torch.rand(MIDDLE, generator=shared)
    place = torch.full_like(time, 0.5).requires_grad_()
    heat = model(place, time)
    flow = conducts * along(heat, place)
    own = torch.stack([heat, flow])
    theirs = swapped(own.detach().contiguous())
    off = (own - (own.detach() + theirs) / 2).square().mean(dim=1)
    return off[0] + FLOWS * off[1]


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1318 + rank)
model = Field()
# model built
conducts, low = CONDUCTS[rank], 0.5 * rank
steep = [model.steep]
rest = [p for name, p in model.named_parameters() if name != "steep"]
optimizer = torch.optim.Adam([{"params": rest}, {"params": steep, "lr": 2e-2}], lr=5e-3, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
generator = torch.Generator().manual_seed(13118 + rank)
shared = torch.Generator().manual_seed(14118)
for step in range(STEPS):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        law = inside(model, conducts, low, generator)
        edge = ends(model, rank, low, generator)
        seam = meets(model, conducts, shared)
    loss = law + ENDS * edge + MEETS * seam
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    schedule.step()
    print(
        f"rank {rank} step {step} loss {law.item()!r} {edge.item()!r} {seam.item()!r}\n", end="", flush=True
    )
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
