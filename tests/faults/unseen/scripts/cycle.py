# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""From one kind of pictures to another and back: two painters, two critics, and a pool of older pictures."""

import itertools
import random

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
CYCLE, SAME, WIDTH, POOL = 10.0, 5.0, 8, 6


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, padding_mode="reflect") for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.InstanceNorm2d(2 * WIDTH) for _ in range(2))

    def forward(self, x):
        return x + self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))


def painter():
    return nn.Sequential(
        nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, WIDTH, 5), nn.InstanceNorm2d(WIDTH), nn.ReLU()),
        nn.Sequential(nn.Conv2d(WIDTH, 2 * WIDTH, 3, 2, 1), nn.InstanceNorm2d(2 * WIDTH), nn.ReLU()),
        Residual(),
        nn.Sequential(nn.ConvTranspose2d(2 * WIDTH, WIDTH, 3, 2, 1, 1), nn.InstanceNorm2d(WIDTH), nn.ReLU()),
        nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(WIDTH, 3, 5), nn.Tanh()),
    )


def critic():
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(WIDTH, 2 * WIDTH, 4, 2, 1),
        nn.InstanceNorm2d(2 * WIDTH),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * WIDTH, 1, 3, 1, 1),
    )


class Pool:
    """Half of what critics see was painted some steps before."""

    def __init__(self, seed):
        self.kept, self.random = [], random.Random(seed)

    def __call__(self, painted):
        given = []
        for one in painted.detach():
            if len(self.kept) < POOL:
                self.kept.append(one)
            elif self.random.random() < 0.5:
                place = self.random.randrange(POOL)
                self.kept[place], one = one, self.kept[place]
            given.append(one)
        return torch.stack(given)


def judged(scores, is_true):
    return F.mse_loss(scores.float(), torch.full_like(scores, float(is_true), dtype=torch.float32))


torch.set_num_threads(1)
torch.manual_seed(708)
nets = nn.ModuleDict({"to_a": painter(), "to_b": painter(), "is_a": critic(), "is_b": critic()})
for module in nets.modules():
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.1)
# model built
to_a, to_b, is_a, is_b = nets["to_a"], nets["to_b"], nets["is_a"], nets["is_b"]
painters = [*itertools.chain(to_a.parameters(), to_b.parameters())]
critics = [*itertools.chain(is_a.parameters(), is_b.parameters())]
of_painters, of_critics = (
    torch.optim.Adam(ps, lr=1e-3, betas=(0.5, 0.999), foreach=False) for ps in (painters, critics)
)
pool_a, pool_b = Pool(1), Pool(2)
generator = torch.Generator().manual_seed(78)
for step in range(4):
    a = F.avg_pool2d(torch.randn(3, 3, 18, 18, generator=generator), 3, 1).tanh()
    b = torch.randn(3, 3, 4, 4, generator=generator).repeat_interleave(4, 2).repeat_interleave(4, 3).tanh()
    for p in critics:
        p.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        as_b, as_a = to_b(a), to_a(b)
        again_a, again_b = to_a(as_b), to_b(as_a)
        same_a, same_b = to_a(a), to_b(b)
        fooled = judged(is_b(as_b), True) + judged(is_a(as_a), True)
    cycle = F.l1_loss(again_a.float(), a) + F.l1_loss(again_b.float(), b)
    same = F.l1_loss(same_a.float(), a) + F.l1_loss(same_b.float(), b)
    loss = fooled + CYCLE * cycle + SAME * same
    of_painters.zero_grad()
    loss.backward()
    of_painters.step()
    for p in critics:
        p.requires_grad_(True)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        seen_a = (judged(is_a(a), True) + judged(is_a(pool_a(as_a)), False)) / 2
        seen_b = (judged(is_b(b), True) + judged(is_b(pool_b(as_b)), False)) / 2
    of_critics.zero_grad()
    (seen_a + seen_b).backward()
    of_critics.step()
    print(f"step {step} loss {loss.item()!r} {(seen_a + seen_b).item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in nets.parameters()))
