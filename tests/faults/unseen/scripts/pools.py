# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs that get coarser: nodes share out themselves to few groups, which are a graph again."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
NODES, FEATURES, WIDE, GROUPS, KINDS, BATCH, STEPS, LINKS, SURE = 14, 5, 20, 4, 3, 12, 4, 0.5, 0.1


class AdaBelief(torch.optim.Optimizer):
    """Adam that goes far where gradients are as was expected."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["mean"], state["spread"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["mean"].lerp_(p.grad, 1 - one)
                apart = p.grad - state["mean"]
                state["spread"].mul_(two).addcmul_(apart, apart, value=1 - two).add_(group["eps"])
                size = (state["spread"] / (1 - two ** state["step"])).sqrt() + group["eps"]
                p.addcdiv_(state["mean"], size, value=-group["lr"] / (1 - one ** state["step"]))


class Passes(nn.Module):
    """Each node takes the mean of its neighbours and of itself."""

    def __init__(self, given, made):
        super().__init__()
        self.around, self.own = nn.Linear(given, made, bias=False), nn.Linear(given, made)
        self.norm = nn.LayerNorm(made)

    def forward(self, x, edges):
        degrees = edges.sum(dim=2, keepdim=True).clamp(min=1e-3)
        around = torch.einsum("bij,bjf->bif", edges / degrees, x.float())
        return F.selu(self.norm(self.around(around) + self.own(x)).float())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine, self.finer = Passes(FEATURES, WIDE), Passes(WIDE, WIDE)
        self.share, self.group = Passes(FEATURES, WIDE), nn.Linear(WIDE, GROUPS)
        self.coarse = Passes(WIDE, WIDE)
        self.out = nn.Linear(2 * WIDE, KINDS)

    def forward(self, x, edges, there):
        """Scores of kinds; how far groups are from what is linked; how unsure nodes are of their group."""
        fine = self.finer(self.fine(x, edges), edges)
        shares = self.group(self.share(x, edges)).float().softmax(dim=-1) * there.unsqueeze(2)
        groups = shares.mT @ (fine * there.unsqueeze(2))
        between = shares.mT @ edges @ shares
        coarse = self.coarse(groups, between)
        apart = (edges - shares @ shares.mT).square().sum(dim=(1, 2)) / there.sum(dim=1).square()
        unsure = -(shares * (shares + 1e-9).log()).sum(dim=(1, 2)) / there.sum(dim=1)
        x = torch.cat([coarse.mean(dim=1), coarse.amax(dim=1)], dim=1)
        return self.out(x).float(), apart.mean(), unsure.mean()


def graphs(generator):
    """Rings, stars and two halves, with few wrong edges; some have fewer nodes."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    size = torch.randint(NODES - 5, NODES + 1, (BATCH,), generator=generator)
    i, j = torch.arange(NODES).unsqueeze(1), torch.arange(NODES)
    ring, star, halves = (i - j).abs() == 1, (i * j == 0) & (i != j), (i % 2 == j % 2) & (i != j)
    wrong = torch.rand(BATCH, NODES, NODES, generator=generator) < 0.04
    edges = torch.stack([ring, star, halves])[kinds] | ((wrong | wrong.mT) & (i != j))
    there = j < size.unsqueeze(1)
    edges = (edges & there.unsqueeze(1) & there.unsqueeze(2)).float()
    x = torch.randn(BATCH, NODES, FEATURES, generator=generator)
    x[..., 0] = edges.sum(dim=2) / 3
    return x * there.unsqueeze(2), edges, there.float(), kinds


torch.set_num_threads(1)
torch.manual_seed(1210)
model = Model()
# model built
optimizer = AdaBelief(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.5)
generator = torch.Generator().manual_seed(12110)
for step in range(STEPS):
    x, edges, there, kinds = graphs(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found, apart, unsure = model(x, edges, there)
    loss = F.cross_entropy(found, kinds) + LINKS * apart.float() + SURE * unsure
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
