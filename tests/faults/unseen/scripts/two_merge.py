# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with a task each, that learn alone from where both were; what matters more counts more."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
ROWS, COLUMNS, WORDS, WIDE, KINDS, STEPS, EVERY = 16, 5, 8, 24, 4, 4, 2
FADES, LEAST, HOLDS = 0.7, 1e-4, 0.02


class Model(nn.Module):
    """Columns of a table as words; a layer for all tasks, and a head of each."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(COLUMNS * WORDS, 8)
        self.shared = nn.Sequential(nn.Linear(8 * COLUMNS, WIDE), nn.CELU(), nn.Linear(WIDE, WIDE))
        self.head = nn.Linear(WIDE, KINDS)
        self.register_buffer("begins", WORDS * torch.arange(COLUMNS))

    def forward(self, x):
        return self.head(F.celu(self.shared(self.words(x + self.begins).flatten(1)))).float()

    def common(self):
        return [*self.words.parameters(), *self.shared.parameters()]


class Matters:
    """How much each shared weight matters to the own task: squares of slopes of each row, that fade."""

    def __init__(self, model):
        self.squares = [torch.zeros_like(p) for p in model.common()]

    def noted(self, model, x):
        """By kinds as the network itself would say them."""
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logs = model(x).log_softmax(dim=1)
        said = logs.argmax(dim=1)
        new = [torch.zeros_like(square) for square in self.squares]
        for row in range(len(x)):
            grads = torch.autograd.grad(logs[row, said[row]], model.common(), retain_graph=True)
            for square, grad in zip(new, grads):
                square.addcmul_(grad, grad, value=1 / len(x))
        for square, now in zip(self.squares, new):
            square.mul_(FADES).add_(now, alpha=1 - FADES)


@torch.no_grad()
def merged(model, matters, before):
    """Each shared weight is a mean of both, by how much it matters there."""
    for p, square, old in zip(model.common(), matters.squares, before):
        weight = square / square.mean().clamp(min=1e-12) + LEAST
        sums = torch.stack([weight * p, weight])
        dist.all_reduce(sums)
        p.copy_(sums[0] / sums[1])
        old.copy_(p)


def table(rank, generator):
    """Two columns say the kind together; which ones is another task in each process."""
    x = torch.randint(0, WORDS, (ROWS, COLUMNS), generator=generator)
    return x, (x[:, rank] + x[:, rank + 2] * (1 + rank)) % KINDS


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1618)
model = Model()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.8, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS + 1)
matters = Matters(model)
before = [p.detach().clone() for p in model.common()]
generator = torch.Generator().manual_seed(16118 + rank)
for step in range(STEPS):
    x, kinds = table(rank, generator)
    matters.noted(model, x)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    away = sum((p - old).square().sum() for p, old in zip(model.common(), before))
    loss = F.cross_entropy(logits, kinds, label_smoothing=0.05) + HOLDS * away
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if (step + 1) % EVERY == 0:
        merged(model, matters, before)
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
