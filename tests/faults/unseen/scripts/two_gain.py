# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes whose common step is as much longer as their gradients are noisy; channels are weighed."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, WIDE, SIDE, BATCH, STEPS, RATE, KEEPS = 5, 12, 14, 10, 4, 0.08, 0.7


class Weighed(nn.Module):
    """A convolution whose channels count by what all of the picture says."""

    def __init__(self, given, made):
        super().__init__()
        self.filters = nn.Conv2d(given, made, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(3, made)
        self.less, self.more = nn.Linear(made, made // 4), nn.Linear(made // 4, made)

    def forward(self, x):
        x = self.norm(self.filters(x))
        whole = F.relu6(self.less(x.mean((2, 3))))
        return F.leaky_relu(x * self.more(whole).sigmoid()[:, :, None, None], 0.1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Weighed(3, WIDE), Weighed(WIDE, 2 * WIDE)
        self.pool, self.out = nn.AvgPool2d(2), nn.Linear(2 * WIDE, KINDS)

    def forward(self, x):
        x = self.second(self.pool(self.first(x)))
        return self.out(x.amax((2, 3))).float()


class Gain:
    """How much further a step of the mean may go than one of a single gradient; no further than many."""

    def __init__(self):
        self.noise, self.mean, self.seen = 0.0, 0.0, 0

    def __call__(self, single, common, many):
        """Mean squared length of single gradients, and of the common one."""
        self.seen += 1
        keeps = min(KEEPS, 1 - 1 / self.seen)
        noise = many / (many - 1) * (single - common)
        self.noise = keeps * self.noise + (1 - keeps) * max(noise, 1e-6)
        self.mean = keeps * self.mean + (1 - keeps) * max(common - noise / many, 0.0)
        return (self.noise + self.mean) / (self.noise / many + self.mean)


def length(model):
    return torch.stack([p.grad.square().sum() for p in model.parameters()]).sum()


@torch.no_grad()
def reduced(model, many):
    """Means the gradients; squared lengths from before and of the common one."""
    single = length(model)
    dist.all_reduce(single)
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(many)
    return single.item() / many, length(model).item()


def pictures(looks, generator):
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    shifts = torch.randint(0, SIDE, (BATCH,), generator=generator).tolist()
    x = torch.stack([looks[kind].roll(shift, dims=1) for kind, shift in zip(kinds, shifts)])
    return x + 0.6 * torch.randn(x.shape, generator=generator), kinds


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1209)
model = Model()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.8, dampening=0.2, foreach=False)
looks = torch.randn(KINDS, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(9))
generator = torch.Generator().manual_seed(12109 + rank)
gain, done = Gain(), 0.0
for step in range(STEPS):
    x, kinds = pictures(looks, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds)
    optimizer.zero_grad()
    loss.backward()
    gained = gain(*reduced(model, many), many)
    for group in optimizer.param_groups:
        group["lr"] = gained * RATE * 0.5 ** (done / 6)
    done += gained
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
