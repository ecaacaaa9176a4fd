# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Survival: how soon it happens, by the partial likelihood of Cox; parameters in a dictionary."""

import torch
from torch import nn
from torch.func import functional_call

half = False


def layer(a, b):
    return nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b, elementwise_affine=False), nn.LeakyReLU(0.1))


def build():
    return nn.Sequential(layer(8, 32), layer(32, 32), nn.Linear(32, 1), nn.Flatten(0))


def cox(score, time, event):
    order = torch.argsort(time, descending=True)
    score, event = score[order], event[order]
    at_risk = torch.logcumsumexp(score, dim=0)
    return -((score - at_risk) * event).sum() / event.sum()


torch.set_num_threads(1)
torch.manual_seed(408)
g = torch.Generator().manual_seed(4080)
net = build()
params = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
optimizer = torch.optim.SGD(params.values(), lr=0.02, momentum=0.9, foreach=False)
people = torch.randn(240, 8, generator=g)
people = (people - people.mean(0)) / people.std(0)
hazard = torch.exp(people[:, 0] - 0.5 * people[:, 1] * people[:, 2])
when = -torch.log(torch.rand(240, generator=g)) / hazard
censored = torch.rand(240, generator=g) * 3
event = (when <= censored).float()
time = torch.minimum(when, censored)
for step in range(4):
    rows = torch.randperm(240, generator=g)[:60]
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        score = functional_call(net, params, people[rows])
    loss = cox(score.float(), time[rows], event[rows])
    loss = loss + 1e-3 * sum(p.square().sum() for name, p in params.items() if name.endswith("weight"))
    for p, grad in zip(params.values(), torch.autograd.grad(loss, list(params.values()))):
        p.grad = grad
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in params.values()))
