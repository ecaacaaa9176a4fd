# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, DistributedDataParallel: one has fewer batches, and goes along until the other is done."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel

AUTOCAST = False
VOCAB, WIDE, KINDS, PAD, LONG, BATCH = 50, 24, 4, 0, 14, 10
BATCHES = (5, 3)


class GatedConv(nn.Module):
    """One half of the channels says how much of the other goes on."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(WIDE, 2 * WIDE, 3, padding=1), nn.LayerNorm(WIDE)

    def forward(self, x, there):
        h = F.glu(self.conv((self.norm(x) * there).mT), dim=1).mT
        return (x + h) * 0.5**0.5


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDE, padding_idx=PAD)
        self.layers = nn.ModuleList(GatedConv() for _ in range(3))
        self.out = nn.Linear(2 * WIDE, KINDS)

    def forward(self, ids):
        """Means and largest of what is there."""
        there = (ids != PAD).unsqueeze(-1)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, there)
        mean = (x * there).sum(1) / there.sum(1)
        most = x.masked_fill(~there, -1e4).amax(dim=1)
        return self.out(torch.cat([mean, most], dim=-1)).float()


def batches(rank):
    """Texts of several lengths; one process has collected more of them."""
    g = torch.Generator().manual_seed(9500 + rank)
    for _ in range(BATCHES[rank]):
        ids = torch.randint(1, VOCAB, (BATCH, LONG), generator=g)
        kinds = (ids[:, :4] % KINDS).sum(1) % KINDS
        sizes = torch.randint(4, LONG + 1, (BATCH, 1), generator=g)
        yield ids.masked_fill(torch.arange(LONG) >= sizes, PAD), kinds


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(919)
model = DistributedDataParallel(Classifier())
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4, foreach=False)
with model.join(divide_by_initial_world_size=True):
    for step, (ids, kinds) in enumerate(batches(rank)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(ids)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
