# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that send sketches: rows of sums by hashes and signs; what stands out in both is learnt."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, KINDS, BATCH, STEPS, ROWS, COLUMNS, MOST, KEEPS, RATE = 14, 20, 5, 20, 4, 5, 160, 90, 0.8, 0.4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.gate, self.out = nn.Linear(SEEN, WIDE), nn.Linear(SEEN, WIDE), nn.Linear(WIDE, KINDS)
        self.norm = nn.RMSNorm(WIDE)

    def forward(self, x):
        return self.out(self.norm(self.first(x) * torch.sigmoid(self.gate(x)))).float()


class Sketch:
    """Each number is added to one place of each row, with a sign; the median of the rows tells it again."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(1716)
        self.places = torch.randint(0, COLUMNS, (ROWS, size), generator=generator)
        self.signs = torch.randint(0, 2, (ROWS, size), generator=generator) * 2.0 - 1

    def of(self, numbers):
        return torch.zeros(ROWS, COLUMNS).scatter_add_(1, self.places, self.signs * numbers)

    def told(self, table):
        return (self.signs * table.gather(1, self.places)).median(dim=0).values


class Learns:
    """Momentum and what was not yet learnt are tables of sums as well, the same in both processes."""

    def __init__(self, model, optimizer):
        self.parameters, self.optimizer = list(model.parameters()), optimizer
        self.sizes = [p.numel() for p in self.parameters]
        self.sketch = Sketch(sum(self.sizes))
        self.moves, self.left = torch.zeros(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)

    @torch.no_grad()
    def step(self):
        table = self.sketch.of(torch.cat([p.grad.flatten() for p in self.parameters]))
        dist.all_reduce(table)
        table /= dist.get_world_size()
        self.moves = KEEPS * self.moves + table
        self.left += self.moves
        told = self.sketch.told(self.left)
        best = told.abs().topk(MOST).indices
        chosen = torch.zeros_like(told).index_copy_(0, best, told[best])
        self.left -= self.sketch.of(chosen)
        for p, part in zip(self.parameters, chosen.split(self.sizes)):
            p.grad.copy_(part.view_as(p))
        self.optimizer.step()


def rows(looks, generator):
    """The kind is the largest of some products."""
    x = torch.randn(BATCH, SEEN, generator=generator)
    return x, (x @ looks).argmax(dim=1)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1316)
model = Model()
# model built
weights = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim <= 1]
optimizer = torch.optim.SGD([{"params": weights}, {"params": rest, "lr": RATE / 2}], lr=RATE, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.3 * step))
learns = Learns(model, optimizer)
looks = torch.randn(SEEN, KINDS, generator=torch.Generator().manual_seed(16))
generator = torch.Generator().manual_seed(13116 + rank)
for step in range(STEPS):
    x, kinds = rows(looks, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.cross_entropy(found, kinds)
    optimizer.zero_grad()
    loss.backward()
    learns.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
