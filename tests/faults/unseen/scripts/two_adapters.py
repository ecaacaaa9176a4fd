# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes whose frozen network gets thin updates; both are put together, and made thin again."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WORDS, LONG, WIDE, RANK, BATCH, STEPS, EVERY, ALPHA = 20, 12, 24, 3, 10, 4, 2, 6.0


class Adapted(nn.Module):
    """Which way rows point changes by thin matrices, how long they are is learnt alone."""

    def __init__(self, comes, goes):
        super().__init__()
        self.register_buffer("base", torch.randn(goes, comes) / comes**0.5)
        self.down = nn.Parameter(torch.randn(RANK, comes) / comes**0.5)
        self.up = nn.Parameter(torch.zeros(goes, RANK))
        self.long = nn.Parameter(self.base.norm(dim=1))

    def forward(self, x):
        weight = self.base + (ALPHA / RANK) * (self.up @ self.down)
        size = self.long / weight.norm(dim=1).detach()
        return F.linear(x, weight) * size


class Model(nn.Module):
    """Words are read in order by a gated unit; only updates, and what says the next word, are learnt."""

    def __init__(self):
        super().__init__()
        self.register_buffer("words", torch.randn(WORDS, WIDE))
        self.comes, self.goes = Adapted(WIDE, 2 * WIDE), Adapted(WIDE, 2 * WIDE)
        self.says = nn.Linear(WIDE, WORDS)

    def forward(self, ids):
        state, told = torch.zeros(len(ids), WIDE), []
        comes = self.comes(self.words[ids])
        for at in range(ids.shape[1]):
            new, gate = (comes[:, at] + self.goes(state)).float().chunk(2, dim=1)
            gate = torch.sigmoid(gate)
            state = gate * state + (1 - gate) * torch.tanh(new)
            told.append(state)
        return self.says(torch.stack(told, dim=1)).float()


@torch.no_grad()
def together(model, optimizer):
    """The mean of both products as two thin matrices, with roots of its sizes on both sides."""
    many = dist.get_world_size()
    for layer in (model.comes, model.goes):
        product = layer.up @ layer.down
        dist.all_reduce(product)
        left, sizes, right = torch.linalg.svd(product / many, full_matrices=False)
        roots = sizes[:RANK].sqrt()
        layer.up.copy_(left[:, :RANK] * roots)
        layer.down.copy_(roots.unsqueeze(1) * right[:RANK])
        for p in (layer.up, layer.down):
            optimizer.state[p]["exp_avg"].zero_()
    for p in (model.comes.long, model.goes.long, *model.says.parameters()):
        dist.all_reduce(p)
        p.div_(many)


def texts(rank, generator):
    """Words go on by steps that a writer has; some are wrong."""
    first = torch.randint(0, WORDS, (BATCH, 1), generator=generator)
    ids = (first + (2 + 3 * rank) * torch.arange(LONG)) % WORDS
    other = torch.randint(0, WORDS, ids.shape, generator=generator)
    return torch.where(torch.rand(ids.shape, generator=generator) < 0.1, other, ids)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1520)
model = Model()
# model built
thin = [layer.up for layer in (model.comes, model.goes)]
rest = [p for p in model.parameters() if all(p is not up for up in thin)]
optimizer = torch.optim.AdamW(
    [{"params": rest}, {"params": thin, "lr": 2e-2}], lr=5e-3, weight_decay=0.02, foreach=False
)
generator = torch.Generator().manual_seed(15120 + rank)
for step in range(STEPS):
    ids = texts(rank, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids[:, :-1])
    lost = F.cross_entropy(logits.mT, ids[:, 1:], reduction="none")
    loss = (lost * (torch.arange(LONG - 1) > 0)).sum() / (BATCH * (LONG - 2))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if (step + 1) % EVERY == 0:
        together(model, optimizer)
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
