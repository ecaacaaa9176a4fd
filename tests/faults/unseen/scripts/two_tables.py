# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes: each has half of the tables of a recommender for all, and its own half of the people."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TABLES, ROWS, BAG, WIDTH, NUMBERS, PEOPLE = 4, 30, 3, 8, 5, 12


class Exchange(torch.autograd.Function):
    """The n-th part goes to rank n."""

    @staticmethod
    def forward(ctx, x):
        came = torch.empty_like(x)
        dist.all_to_all_single(came, x.contiguous())
        return came

    @staticmethod
    def backward(ctx, grad):
        came = torch.empty_like(grad, memory_format=torch.contiguous_format)
        dist.all_to_all_single(came, grad.contiguous())
        return came


class Tables(nn.Module):
    """Looks up what all ask of the tables that are here."""

    def __init__(self, count):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(count))

    def forward(self, ids):
        every = [torch.empty_like(ids) for _ in range(dist.get_world_size())]
        dist.all_gather(every, ids)
        mine = torch.cat(every).chunk(dist.get_world_size(), 1)[dist.get_rank()]
        found = [table(mine[:, n]).mean(dim=1) for n, table in enumerate(self.tables)]
        sent = torch.stack(found, 1).unflatten(0, (-1, len(ids)))
        return Exchange.apply(sent).transpose(0, 1).flatten(1)


class Dense(nn.Module):
    """Crosses of all with all, layer by layer, beside an MLP."""

    def __init__(self):
        super().__init__()
        size = TABLES * WIDTH + NUMBERS
        self.crosses = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.out = nn.Linear(size + 16, 1)

    def forward(self, begin):
        x = begin
        for cross in self.crosses:
            x = begin * cross(x) + x
        return self.out(torch.cat([x, self.mlp(begin)], dim=-1)).squeeze(-1)


class Recommender(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.dense, self.sparse = Dense(), Tables(TABLES // size)

    def forward(self, numbers, ids):
        return self.dense(torch.cat([torch.log1p(numbers), self.sparse(ids)], dim=-1)).float()


class RowAdagrad(torch.optim.Optimizer):
    """One number for each row tells how much it has moved."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                moved = self.state[p].setdefault("moved", torch.full((len(p), 1), 1e-4))
                moved.add_(p.grad.square().mean(dim=1, keepdim=True))
                p.addcdiv_(p.grad, moved.sqrt(), value=-group["lr"])


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(619)
model = Recommender(size)
for n, table in enumerate(model.sparse.tables):
    own = torch.Generator().manual_seed(190 + rank * len(model.sparse.tables) + n)
    nn.init.normal_(table.weight, std=0.3, generator=own)
sparse = RowAdagrad(model.sparse.parameters(), lr=0.05)
dense = torch.optim.SGD(model.dense.parameters(), lr=0.1, foreach=False)
generator = torch.Generator().manual_seed(7900 + rank)
for step in range(3):
    ids = torch.randint(ROWS, (PEOPLE, TABLES, BAG), generator=generator)
    numbers = 3 * torch.rand(PEOPLE, NUMBERS, generator=generator)
    clicked = ((ids.sum((1, 2)) + numbers[:, 0].long()) % 3 == 0).float()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(numbers, ids)
    loss = F.binary_cross_entropy_with_logits(logits, clicked)
    model.zero_grad()
    loss.backward()
    for p in model.dense.parameters():
        dist.all_reduce(p.grad)
    for p in model.parameters():
        p.grad /= size
    dense.step()
    sparse.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
