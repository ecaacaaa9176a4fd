# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of the nodes of one graph: neighbours are wherever they are."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NODES, SEEN, WIDE, KINDS, KEEPS, STEPS = 48, 10, 24, 4, 0.2, 4


class AllNodes(torch.autograd.Function):
    """Nodes of both, one after the other; their slopes come back from both."""

    @staticmethod
    def forward(ctx, x):
        every = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(every, x.contiguous())
        return torch.cat(every)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]


class Layer(nn.Module):
    """A mean over neighbours, with some of what the node began with; the deeper, the less is mixed anew."""

    def __init__(self, depth):
        super().__init__()
        self.mix, self.norm = nn.Linear(WIDE, WIDE, bias=False), nn.LayerNorm(WIDE)
        self.share = 1 / (depth + 1)

    def forward(self, x, begin, edges, weights):
        every = AllNodes.apply(x.float())
        source, target = edges
        near = torch.zeros_like(begin).index_add(0, target, every[source] * weights.unsqueeze(-1))
        h = (1 - KEEPS) * near + KEEPS * begin
        return F.relu(self.norm((1 - self.share) * h + self.share * self.mix(h)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.out = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, KINDS)
        self.layers = nn.ModuleList(Layer(depth) for depth in range(3))

    def forward(self, x, edges, weights):
        begin = x = F.relu(self.lift(x)).float()
        for layer in self.layers:
            x = layer(x, begin, edges, weights)
        return self.out(x).float()


def graph():
    """Nodes of one kind know each other more often, and those of both halves do."""
    g = torch.Generator().manual_seed(918)
    kinds = torch.randint(KINDS, (NODES,), generator=g)
    alike = kinds.unsqueeze(1) == kinds
    known = torch.rand(NODES, NODES, generator=g) < 0.03 + 0.15 * alike
    known = known | known.T | torch.eye(NODES, dtype=torch.bool)
    x = F.one_hot(kinds, SEEN) * 0.5 + torch.randn(NODES, SEEN, generator=g)
    return x, kinds, known, torch.rand(NODES, generator=g) < 0.6


def own_part(known, rank):
    """Edges that end at own nodes, each by the degrees of both ends."""
    half = NODES // dist.get_world_size()
    degrees = known.sum(1)
    source, target = known.nonzero().T
    weights = (degrees[source] * degrees[target]).float().rsqrt()
    own = target // half == rank
    return (
        torch.stack([source[own], target[own] - rank * half]),
        weights[own],
        slice(rank * half, (rank + 1) * half),
    )


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(918)
model = Net()
# model built
groups = [
    {"params": model.layers.parameters(), "weight_decay": 0.01},
    {"params": [*model.lift.parameters(), *model.out.parameters()], "weight_decay": 5e-4},
]
optimizer = torch.optim.Adam(groups, lr=5e-3, foreach=False)
x, kinds, known, told = graph()
edges, weights, own = own_part(known, rank)
count = told.sum()
for step in range(STEPS):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x[own], edges, weights)
    lost = F.cross_entropy(logits, kinds[own], reduction="none")
    loss = (lost * told[own]).sum() / count
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
