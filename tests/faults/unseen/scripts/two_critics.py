# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes: a painter for both, and a critic of each with pictures of its own; critics change places."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NOISE, WIDE, SIDE, BATCH, ROUNDS, SLOPES = 8, 12, 8, 10, 4, 0.5


def painter():
    return nn.Sequential(
        nn.Linear(NOISE, WIDE * 4),
        nn.Unflatten(1, (WIDE, 2, 2)),
        nn.GroupNorm(3, WIDE),
        nn.ReLU(),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.Conv2d(WIDE, WIDE, 3, padding=1),
        nn.GroupNorm(3, WIDE),
        nn.ReLU(),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.Conv2d(WIDE, 1, 3, padding=1),
        nn.Tanh(),
    )


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, WIDE, 4, stride=2, padding=1)
        self.second = nn.Conv2d(WIDE, WIDE, 3, padding=1)
        self.out = nn.Linear(WIDE + 1, 1)

    def forward(self, x):
        """Beside what is seen in each picture: how little the pictures of a batch differ."""
        x = F.leaky_relu(self.first(x), 0.2)
        x = F.leaky_relu(x + self.second(x), 0.2).mean((2, 3)).float()
        alike = x.std(dim=0).mean().expand(len(x), 1)
        return self.out(torch.cat([x, alike], dim=1)).squeeze(1).float()


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.painter, self.critic = painter(), Critic()


def pictures(generator, rank):
    """One process has seen lying bars, the other standing ones."""
    at = torch.rand(BATCH, 1, 1, generator=generator) * 2 - 1
    line = torch.exp(-8 * (torch.linspace(-1, 1, SIDE) - at).square()).expand(-1, SIDE, -1)
    line = line if rank else line.mT
    return (2 * line - 1).unsqueeze(1) + 0.05 * torch.randn(BATCH, 1, SIDE, SIDE, generator=generator)


def judged(critic, x):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        return critic(x)


def painted(model, generator):
    noise = torch.randn(BATCH, NOISE, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        return model.painter(noise).float()


def steepness(critic, real):
    """How much what a critic says changes near true pictures."""
    real = real.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(judged(critic, real).sum(), real, create_graph=True)
    return slopes.square().sum((1, 2, 3)).mean()


@torch.no_grad()
def change_places(critic):
    """Each critic goes to the other process."""
    for p in critic.parameters():
        every = [torch.empty_like(p) for _ in range(dist.get_world_size())]
        dist.all_gather(every, p.detach())
        p.copy_(every[1 - dist.get_rank()])


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1020)
model = Both()
# model built
for p in model.critic.parameters():
    p.data.mul_(1 + 0.1 * rank)
paint = torch.optim.Adam(model.painter.parameters(), lr=2e-3, betas=(0.5, 0.9), foreach=False)
judge = torch.optim.Adam(model.critic.parameters(), lr=4e-3, betas=(0.5, 0.9), foreach=False)
generator = torch.Generator().manual_seed(12000 + rank)
for turn in range(ROUNDS):
    real, fake = pictures(generator, rank), painted(model, generator)
    true, false = judged(model.critic, real), judged(model.critic, fake.detach())
    wrong = F.relu(1 - true).mean() + F.relu(1 + false).mean() + SLOPES * steepness(model.critic, real)
    judge.zero_grad()
    wrong.backward()
    judge.step()
    loss = -judged(model.critic, painted(model, generator)).mean()
    paint.zero_grad()
    loss.backward()
    for p in model.painter.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    nn.utils.clip_grad_norm_(model.painter.parameters(), 1.0)
    paint.step()
    change_places(model.critic)
    print(f"rank {rank} step {turn} loss {wrong.item()!r} {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
