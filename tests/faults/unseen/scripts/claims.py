# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a year of insurance costs, mostly nothing: a straight model, and a network that mends it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
CARS, PLACES, NUMBERS, WIDE, BATCH, STEPS, POWER, FADES = 6, 9, 4, 24, 64, 4, 1.5, 0.8


class Model(nn.Module):
    """Logs of costs add up: a base, straight terms, and what a network finds beside."""

    def __init__(self):
        super().__init__()
        self.car, self.place = nn.Embedding(CARS, 1), nn.Embedding(PLACES, 1)
        self.straight = nn.Linear(NUMBERS, 1)
        self.cars, self.places = nn.Embedding(CARS, 3), nn.Embedding(PLACES, 4)
        self.mends = nn.Sequential(
            nn.Linear(NUMBERS + 7, WIDE), nn.GELU(), nn.Dropout(0.1), nn.Linear(WIDE, WIDE), nn.GELU()
        )
        self.mended = nn.Linear(WIDE, 1)
        nn.init.zeros_(self.car.weight)
        nn.init.zeros_(self.place.weight)
        self.register_buffer("cost", torch.tensor(1.0))
        self.register_buffer("time", torch.tensor(1.0))

    def forward(self, car, place, numbers):
        straight = self.car(car) + self.place(place) + self.straight(numbers).float()
        x = torch.cat([self.cars(car), self.places(place), numbers], dim=1)
        mended = self.mended(self.mends(x)).float()
        base = (self.cost / self.time).log()
        return base + (straight + 0.5 * mended).squeeze(1).clamp(-4, 4)

    @torch.no_grad()
    def seen(self, costs, times):
        """What all have cost so far, and for how long; older years count less."""
        self.cost.mul_(FADES).add_(costs.sum())
        self.time.mul_(FADES).add_(times.sum())


def deviance(log, cost, time):
    """Of costs per year, whose spread grows with the power of what they are; longer times count more."""
    rate = cost / time
    lost = log.mul(2 - POWER).exp() / (2 - POWER) - rate * log.mul(1 - POWER).exp() / (1 - POWER)
    return 2 * (time * lost).sum() / time.sum()


def even(log, cost, time, car):
    """Of each kind of car all that was paid is to be what was told."""
    told = torch.zeros(CARS).index_add(0, car, time * log.exp())
    paid = torch.zeros(CARS).index_add(0, car, cost)
    return F.smooth_l1_loss(told.log1p(), paid.log1p(), beta=0.5)


def contracts(generator):
    """Cars, places, numbers; how long; and how often and how much was paid."""
    car = torch.randint(0, CARS, (BATCH,), generator=generator)
    place = torch.randint(0, PLACES, (BATCH,), generator=generator)
    numbers = torch.randn(BATCH, NUMBERS, generator=generator)
    time = 0.1 + 0.9 * torch.rand(BATCH, generator=generator)
    often = 0.4 * (0.2 * car + 0.5 * numbers[:, 0] * numbers[:, 1] - 0.1 * place).exp() * time
    count = torch.poisson(often, generator=generator)
    much = (0.3 * numbers[:, 2] + 0.5 * torch.randn(BATCH, generator=generator)).exp()
    return car, place, numbers, time, count * much


torch.set_num_threads(1)
torch.manual_seed(1509)
model = Model()
# model built
slow = [*model.car.parameters(), *model.place.parameters(), *model.straight.parameters()]
fast = [p for part in (model.cars, model.places, model.mends, model.mended) for p in part.parameters()]
optimizer = torch.optim.Adagrad(
    [{"params": slow, "lr": 5e-3}, {"params": fast, "weight_decay": 1e-2}],
    lr=2e-2,
    lr_decay=0.05,
    initial_accumulator_value=0.01,
    foreach=False,
)
generator = torch.Generator().manual_seed(15109)
for step in range(STEPS):
    car, place, numbers, time, cost = contracts(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        log = model(car, place, numbers)
    loss, uneven = deviance(log, cost, time), even(log, cost, time, car)
    optimizer.zero_grad()
    (loss + 0.3 * uneven).backward()
    optimizer.step()
    model.seen(cost, time)
    print(f"step {step} loss {loss.item()!r} {uneven.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", model.cost.item(), model.time.item())
