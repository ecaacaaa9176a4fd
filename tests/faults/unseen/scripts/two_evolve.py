# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that each try half of a generation: what no gradient reaches learns by how good each was."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, WIDE, ROWS, STEPS, OWN, FAR, FADES = 3, 16, 48, 4, 6, 0.1, 5e-3


class Steps(nn.Module):
    """Neurons that are on or off; nothing comes back through them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, WIDE), nn.Linear(WIDE, WIDE)
        self.out = nn.Linear(2 * WIDE, KINDS)

    def forward(self, x):
        first = torch.sign(self.first(x))
        second = torch.sign(self.second(first))
        return self.out(torch.cat([first, second], dim=1)).float()

    def blind(self):
        """What no gradient reaches."""
        return [(name, p) for name, p in self.named_parameters() if "out" not in name]


def mutation(model, step, member):
    """The same in both processes; members come in pairs that go opposite ways."""
    generator = torch.Generator().manual_seed(1000 * step + member // 2)
    side = 1 - 2 * (member % 2)
    return [side * torch.randn(p.shape, generator=generator) for _, p in model.blind()]


@torch.no_grad()
def tried(model, step, member, x, kinds):
    """The loss of a member."""
    noise = mutation(model, step, member)
    changed = {name: p + FAR * change for (name, p), change in zip(model.blind(), noise)}
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = torch.func.functional_call(model, changed, (x,))
    return F.cross_entropy(found, kinds)


def shaped(losses):
    """Ranks from -1/2 to 1/2, as how much better somebody is says little."""
    places = losses.argsort().argsort().float()
    return places / (len(losses) - 1) - 0.5


@torch.no_grad()
def climb(model, step, losses):
    """Of what is blind: the gradient that all members speak for."""
    shares = shaped(losses)
    found = [torch.zeros_like(p) for _, p in model.blind()]
    for member, share in enumerate(shares):
        for total, change in zip(found, mutation(model, step, member)):
            total.add_(share * change)
    for (_, p), total in zip(model.blind(), found):
        p.grad = total / (len(losses) * FAR) + FADES * p


def points(generator):
    """Arms of a spiral."""
    kinds = torch.randint(0, KINDS, (ROWS,), generator=generator)
    far = 0.2 + 1.5 * torch.rand(ROWS, generator=generator)
    turn = 2.1 * kinds + 1.2 * far + 0.1 * torch.randn(ROWS, generator=generator)
    return torch.stack([far * turn.cos(), far * turn.sin()], dim=1), kinds


dist.init_process_group("gloo")
rank, others = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1206)
model = Steps()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, betas=(0.8, 0.99), foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
generator = torch.Generator().manual_seed(12106)
for step in range(STEPS):
    x, kinds = points(generator)
    members = range(rank * OWN, (rank + 1) * OWN)
    own = torch.stack([tried(model, step, member, x, kinds) for member in members])
    parts = [torch.empty_like(own) for _ in range(others)]
    dist.all_gather(parts, own)
    losses = torch.cat(parts)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds)
    optimizer.zero_grad()
    loss.backward()
    climb(model, step, losses)
    optimizer.step()
    schedule.step()
    told = f"{loss.item()!r} {losses.mean().item()!r}"
    print(f"rank {rank} step {step} loss {told}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
