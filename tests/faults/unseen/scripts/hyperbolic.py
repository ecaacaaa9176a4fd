# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A tree in a ball: nodes of the Poincaré ball, whose gradients are those of the curved space."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
NODES, DIMS, NEGATIVES, EDGE = 31, 4, 6, 1e-3


def distance(u, v):
    inner = (1 - u.square().sum(-1)) * (1 - v.square().sum(-1))
    return torch.acosh(1 + 2 * (u - v).square().sum(-1) / inner)


class Ball(nn.Module):
    def __init__(self):
        super().__init__()
        self.nodes = nn.Embedding(NODES, DIMS)
        nn.init.uniform_(self.nodes.weight, -0.3, 0.3)
        self.log_temperature = nn.Parameter(torch.tensor(-0.3))

    def forward(self, children, others):
        """The first of the others is the ancestor."""
        far = distance(self.nodes(children).unsqueeze(1), self.nodes(others))
        return -far / self.log_temperature.exp()


class RiemannianSGD(torch.optim.Optimizer):
    """Slow at first; what leaves the ball is put back."""

    def __init__(self, params, lr, burn_in):
        super().__init__(params, {"lr": lr, "burn_in": burn_in, "taken": 0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate = group["lr"] * (0.1 if group["taken"] < group["burn_in"] else 1.0)
            group["taken"] += 1
            for p in group["params"]:
                curved = (1 - p.square().sum(-1, keepdim=True)) ** 2 / 4
                p.add_(p.grad * curved, alpha=-rate)
                size = p.norm(dim=-1, keepdim=True)
                p.copy_(torch.where(size > 1 - EDGE, p / size * (1 - EDGE), p))


def batch(generator):
    """Nodes of a binary tree with one of their ancestors, and nodes that are none."""
    children = torch.randint(3, NODES, (24,), generator=generator)
    ups = torch.randint(1, 3, (24,), generator=generator)
    ancestors = (children + 1 >> ups) - 1
    drawn = torch.randint(NODES - 1, (24, NEGATIVES), generator=generator)
    drawn += drawn >= children[:, None]
    return children, torch.cat([ancestors[:, None], drawn], dim=1)


torch.set_default_dtype(DTYPE)
torch.set_num_threads(1)
torch.manual_seed(609)
model = Ball()
# model built
inside = RiemannianSGD([model.nodes.weight], lr=0.5, burn_in=1)
flat = torch.optim.SGD([model.log_temperature], lr=0.02, momentum=0.5, foreach=False)
generator = torch.Generator().manual_seed(69)
for step in range(3):
    children, others = batch(generator)
    logits = model(children, others)
    again = (others[:, 1:] == others[:, :1]).nonzero()
    logits = logits.index_put((again[:, 0], again[:, 1] + 1), torch.tensor(-1e9))
    loss = F.cross_entropy(logits, torch.zeros(len(children), dtype=torch.long))
    model.zero_grad()
    loss.backward()
    inside.step()
    flat.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
