# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with texts of other writers: what they send is hidden by numbers that cancel in the sum."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LETTERS, WIDE, LONG, STEPS, MOST, FINE = 18, 20, 14, 4, 1.2, 2**20


class Writes(nn.Module):
    """The next letter, whose scores are letters themselves."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDE)
        self.reads = nn.GRUCell(WIDE, WIDE)
        self.turn = nn.Linear(WIDE, WIDE)

    def forward(self, ids):
        state, said = ids.new_zeros(len(ids), WIDE, dtype=torch.float32), []
        for letter in self.letters(ids).unbind(dim=1):
            state = self.reads(letter, state).float()
            said.append(state)
        return F.linear(self.turn(torch.stack(said, dim=1)), self.letters.weight).float()


def cut(grads):
    """No writer moves the weights further than that."""
    long = torch.stack([grad.norm() for grad in grads]).norm()
    share = (MOST / (long + 1e-6)).clamp(max=1.0)
    return [share * grad for grad in grads]


def hidden(numbers, step):
    """Whole numbers, plus others that only the two know: one adds them, the other takes them away."""
    generator = torch.Generator().manual_seed(77 + step)
    side = 1 if dist.get_rank() == 0 else -1
    whole = (numbers * FINE).round().long()
    return whole + side * torch.randint(-(2**40), 2**40, whole.shape, generator=generator)


@torch.no_grad()
def together(model, count, step):
    """The mean gradient, weighed by how many texts each has; nobody sees the other's."""
    flat = torch.cat([grad.flatten() for grad in cut([p.grad for p in model.parameters()])])
    sent = hidden(torch.cat([count * flat, torch.tensor([float(count)])]), step)
    dist.all_reduce(sent)
    found = sent.float() / FINE
    sizes = [p.numel() for p in model.parameters()]
    for p, part in zip(model.parameters(), (found[:-1] / found[-1]).split(sizes)):
        p.grad.copy_(part.view_as(p))


def texts(rank, count, generator):
    """Letters that follow a habit of the writer."""
    ids = torch.randint(0, LETTERS, (count, 2), generator=generator)
    for _ in range(LONG - 1):
        slip = (torch.rand(count, generator=generator) < 0.1).long()
        ids = torch.cat([ids, ((ids[:, -1] + (1 + rank) * ids[:, -2] + slip) % LETTERS).unsqueeze(1)], dim=1)
    return ids


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1207)
model = Writes()
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=3e-2, eps=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)
generator = torch.Generator().manual_seed(12107 + rank)
for step in range(STEPS):
    count = (6, 10)[(rank + step) % 2]
    ids = texts(rank, count, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        said = model(ids[:, :-1])
    loss = F.cross_entropy(said.flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.05)
    optimizer.zero_grad()
    loss.backward()
    together(model, count, step)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
