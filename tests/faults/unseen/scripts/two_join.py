# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with batches of their own: one has fewer, and goes along until the other is done."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.algorithms.join import Join, Joinable, JoinHook

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


class Follows(JoinHook):
    """What a process does that has no batch any more: it adds nothing, and takes what comes out."""

    def __init__(self, params):
        self.params = params

    def main_hook(self):
        dist.all_reduce(torch.zeros(()))
        for p in self.params:
            dist.all_reduce(torch.zeros_like(p))

    def post_hook(self, is_last_joiner):
        for p in self.params:
            dist.broadcast(p.data, 0)


class Averaged(Joinable):
    """Gradients are averaged over those that still have batches."""

    def __init__(self, params):
        super().__init__()
        self.params = list(params)

    def join_hook(self, **kwargs):
        return Follows(self.params)

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD

    @torch.no_grad()
    def reduce(self):
        work, live = Join.notify_join_context(self), torch.ones(())
        if work is not None:
            work.wait()
        dist.all_reduce(live)
        for p in self.params:
            dist.all_reduce(p.grad)
            p.grad /= live


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(919)
model = Classifier()
# model built
averaged = Averaged(model.parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4, foreach=False)
with Join([averaged]):
    for step, (ids, kinds) in enumerate(batches(rank)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(ids)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        averaged.reduce()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
