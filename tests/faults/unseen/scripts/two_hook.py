# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel: gradients of two parts are added up, then reduced in 16 bits."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel

AUTOCAST, COMPRESS = False, False
PARTS = 2


class Sentences(nn.Module):
    """A bidirectional GRU, and what of it matters, by a question that is learnt."""

    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(90, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.lift = nn.Linear(2 * width, 2 * width)
        self.question = nn.Parameter(torch.randn(2 * width) * 0.3)
        self.out = nn.Linear(2 * width, 5)

    def forward(self, ids):
        h = self.gru(self.embed(ids))[0]
        scores = (torch.tanh(self.lift(h)) @ self.question).masked_fill(ids == 0, -1e4)
        shares = scores.float().softmax(-1).to(h.dtype)
        return self.out(torch.einsum("bt,btd->bd", shares, h))


def averaged(state, bucket):
    """Sums are sent in 16 bits, if wanted, and divided before."""
    flat = bucket.buffer().div_(dist.get_world_size())
    sent = flat.to(torch.bfloat16) if COMPRESS else flat
    work = dist.all_reduce(sent, async_op=True).get_future()
    return work.then(lambda done: flat.copy_(done.value()[0]))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(519)
model = DistributedDataParallel(Sentences())
model.register_comm_hook(None, averaged)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8, foreach=False)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.01)
generator = torch.Generator().manual_seed(1900 + rank)
for step in range(3):
    optimizer.zero_grad()
    total = torch.zeros(())
    for part in range(PARTS):
        ids = torch.randint(1, 90, (6, 10), generator=generator)
        ids = ids.masked_fill(torch.arange(10) >= torch.randint(4, 11, (6, 1), generator=generator), 0)
        wanted = torch.randint(5, (6,), generator=generator)
        is_last = part == PARTS - 1
        with contextlib.nullcontext() if is_last else model.no_sync():
            with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
                logits = model(ids)
            loss = F.cross_entropy(logits.float(), wanted) / PARTS
            loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    dist.all_reduce(total)
    total /= dist.get_world_size()
    schedule.step(total.item())
    print(f"rank {rank} step {step} loss {total.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
