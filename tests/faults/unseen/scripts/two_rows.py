# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that each have the whole tables of words, and send only rows that were looked up."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
FIELDS, WORDS, DEEP, BATCH, STEPS = 5, 40, 6, 24, 4


class Clicks(nn.Module):
    """Sums of products of all pairs of fields, by what is learnt of each word for each other field."""

    def __init__(self):
        super().__init__()
        self.single = nn.Embedding(FIELDS * WORDS, 1)
        self.pairs = nn.Embedding(FIELDS * WORDS, FIELDS * DEEP)
        nn.init.zeros_(self.single.weight)
        nn.init.normal_(self.pairs.weight, std=0.3)
        self.deep = nn.Sequential(nn.Linear(FIELDS * FIELDS * DEEP, 16), nn.PReLU(), nn.Linear(16, 1))
        self.bias = nn.Parameter(torch.tensor(-1.0))

    def forward(self, words):
        ids = words + WORDS * torch.arange(FIELDS)
        known = self.pairs(ids).unflatten(2, (FIELDS, DEEP))
        both = torch.einsum("bijd,bjid->bij", known, known)
        upper = both.triu(diagonal=1).sum(dim=(1, 2))
        deep = self.deep(known.flatten(1)).squeeze(1)
        return (self.bias + self.single(ids).sum(dim=(1, 2)) + upper + deep).float()


class Ftrl(torch.optim.Optimizer):
    """Follows all gradients so far; what stays small is nothing. What has no gradient stays."""

    def __init__(self, params, lr, beta=0.5, one=0.0, two=0.0):
        super().__init__(params, {"lr": lr, "beta": beta, "one": one, "two": two})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate, beta, one, two = (group[key] for key in ("lr", "beta", "one", "two"))
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["squares"] = torch.zeros_like(p)
                    state["follows"] = -p * (beta / rate + two)
                squares, follows = state["squares"], state["follows"]
                more = (squares + p.grad.square()).sqrt() - squares.sqrt()
                follows.add_(p.grad - more / rate * p)
                squares.addcmul_(p.grad, p.grad)
                over = (follows.abs() - one).clamp(min=0)
                new = -follows.sign() * over / ((beta + squares.sqrt()) / rate + two)
                seen = p.grad != 0
                p.copy_(torch.where(seen, new, p))


@torch.no_grad()
def gathered(table, ids):
    """Only rows that one of both has looked up are sent, as many as there are."""
    many = dist.get_world_size()
    ids = ids.unique()
    rows = table.grad[ids]
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(many)]
    dist.all_gather(counts, torch.tensor([len(ids)]))
    most = max(int(count) for count in counts)
    ids = torch.cat([ids, ids.new_zeros(most - len(ids))])
    rows = torch.cat([rows, rows.new_zeros(most - len(rows), rows.shape[1])])
    all_ids = [torch.empty_like(ids) for _ in range(many)]
    all_rows = [torch.empty_like(rows) for _ in range(many)]
    dist.all_gather(all_ids, ids)
    dist.all_gather(all_rows, rows)
    table.grad.zero_()
    for theirs, part in zip(all_ids, all_rows):
        table.grad.index_add_(0, theirs, part / many)


def clicks(rank, taste, generator):
    """Words of which some are seen often; each process has other people."""
    words = (WORDS * torch.rand(BATCH, FIELDS, generator=generator) ** (2 + rank)).long()
    likes = taste[torch.arange(FIELDS), words].sum(dim=1) + taste[0, words[:, 0]] * taste[1, words[:, 1]]
    return words, (torch.rand(BATCH, generator=generator) < torch.sigmoid(likes - 1)).float()


dist.init_process_group("gloo")
rank, many = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(1319)
model = Clicks()
# model built
tables = [model.single.weight, model.pairs.weight]
dense = [p for p in model.parameters() if all(p is not table for table in tables)]
for_tables = Ftrl([{"params": [tables[0]], "one": 0.01}, {"params": [tables[1]]}], lr=0.2, two=0.1)
for_dense = torch.optim.Adagrad(dense, lr=2e-2, initial_accumulator_value=0.05, lr_decay=0.1, foreach=False)
taste = torch.randn(FIELDS, WORDS, generator=torch.Generator().manual_seed(19))
generator = torch.Generator().manual_seed(13119 + rank)
for step in range(STEPS):
    words, clicked = clicks(rank, taste, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(words)
    loss = F.binary_cross_entropy_with_logits(found, clicked)
    for_tables.zero_grad()
    for_dense.zero_grad()
    loss.backward()
    for table in tables:
        gathered(table, (words + WORDS * torch.arange(FIELDS)).flatten())
    for p in dense:
        dist.all_reduce(p.grad)
        p.grad /= many
    for_tables.step()
    for_dense.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
