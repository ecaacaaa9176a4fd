# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Papers and who wrote them together: what a group has goes to all of it; the step finds its length."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NODES, EDGES, SEEN, WIDE, KINDS, STEPS, SMOOTH = 48, 30, 10, 24, 4, 4, 2.0


class Prodigy(torch.optim.Optimizer):
    """Adam that guesses how far it is from where it began to where it goes, and steps so far."""

    def __init__(
        self, params, lr=1.0, first=5e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01, growth=6.0
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)
        self.far, self.first, self.top, self.growth = first, first, 0.0, growth

    @torch.no_grad()
    def step(self):
        group = self.param_groups[0]
        (one, two), far = group["betas"], self.far
        three, below = two**0.5, 0.0
        self.top *= three
        for p in group["params"]:
            state = self.state[p]
            if not state:
                state.update(begin=p.clone(), mean=torch.zeros_like(p))
                state.update(square=torch.zeros_like(p), sum=torch.zeros_like(p))
            size = far / self.first * far * group["lr"]
            self.top += size * (p.grad * (state["begin"] - p)).sum().item()
            state["mean"].mul_(one).add_(p.grad, alpha=(1 - one) * far)
            state["square"].mul_(two).addcmul_(p.grad, p.grad, value=(1 - two) * far**2)
            state["sum"].mul_(three).add_(p.grad, alpha=size)
            below += state["sum"].abs().sum().item()
        self.far = max(far, self.growth * self.top / below)
        for p in group["params"]:
            state = self.state[p]
            p.mul_(1 - group["weight_decay"] * self.far * group["lr"])
            p.addcdiv_(
                state["mean"], state["square"].sqrt() + far * group["eps"], value=-self.far * group["lr"]
            )


class Layer(nn.Module):
    """From nodes to groups, each of which has a weight, and back; both are divided by how many they are."""

    def __init__(self, comes, goes):
        super().__init__()
        self.lin, self.own = nn.Linear(comes, goes, bias=False), nn.Linear(comes, goes)
        self.weight = nn.Parameter(torch.zeros(EDGES))

    def forward(self, x, nodes, edges):
        weight = F.softplus(self.weight)
        degree = torch.zeros(NODES).index_add(0, nodes, weight[edges]).clamp(min=1e-6)
        size = torch.bincount(edges, minlength=EDGES).clamp(min=1)
        y = self.lin(x).float() * degree.rsqrt().unsqueeze(1)
        groups = torch.zeros(EDGES, y.shape[1]).index_add(0, edges, y[nodes])
        groups = groups * (weight / size).unsqueeze(1)
        y = torch.zeros(NODES, y.shape[1]).index_add(0, nodes, groups[edges])
        return y * degree.rsqrt().unsqueeze(1) + self.own(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Layer(SEEN, WIDE), Layer(WIDE, KINDS)
        self.norm = nn.LayerNorm(WIDE)

    def forward(self, x, nodes, edges):
        return self.two(F.gelu(self.norm(self.one(x, nodes, edges))), nodes, edges).float()


def groups(generator):
    """Nodes of kinds; most of a group are of one kind, as its first; pairs of a node and its group."""
    kinds = torch.randint(0, KINDS, (NODES,), generator=generator)
    first = torch.randint(0, NODES, (EDGES,), generator=generator)
    alike = (kinds[first].unsqueeze(1) == kinds).float()
    inside = torch.rand(EDGES, NODES, generator=generator) < 0.03 + 0.2 * alike
    inside[torch.arange(EDGES), first] = True
    edges, nodes = inside.nonzero(as_tuple=True)
    x = F.one_hot(kinds, SEEN).float() + 0.8 * torch.randn(NODES, SEEN, generator=generator)
    return x, nodes, edges, kinds


def apart(shares, nodes, edges):
    """How far those of a group are from what the group says on the whole."""
    size = torch.bincount(edges, minlength=EDGES).clamp(min=1).unsqueeze(1)
    mean = torch.zeros(EDGES, KINDS).index_add(0, edges, shares[nodes]) / size
    return (shares[nodes] - mean[edges]).square().sum(dim=1).mean()


torch.set_num_threads(1)
torch.manual_seed(1505)
model = Model()
# model built
optimizer = Prodigy(model.parameters())
generator = torch.Generator().manual_seed(15105)
x, nodes, edges, kinds = groups(generator)
known = torch.rand(NODES, generator=generator) < 0.4
for step in range(STEPS):
    kept = torch.rand(len(nodes), generator=generator) < 0.85
    shown = x * (torch.rand(NODES, SEEN, generator=generator) < 0.8) / 0.8
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(shown, nodes[kept], edges[kept])
    right = F.cross_entropy(logits[known], kinds[known])
    far = apart(logits.softmax(dim=1), nodes, edges)
    optimizer.zero_grad()
    (right + SMOOTH * far).backward()
    optimizer.step()
    print(f"step {step} loss {right.item()!r} {far.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
