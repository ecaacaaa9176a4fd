# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Survival: how soon it happens, by the partial likelihood of Cox; a dictionary of tensors, no module."""

import torch
import torch.nn.functional as F  # noqa: N812

half = False


def init(sizes, generator):
    params = {}
    for n, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        params[f"w{n}"] = torch.randn(a, b, generator=generator) * (2 / a) ** 0.5
        params[f"b{n}"] = torch.zeros(b)
    return {name: value.requires_grad_() for name, value in params.items()}


def risk(params, x):
    layers = len(params) // 2
    for n in range(layers):
        x = x @ params[f"w{n}"] + params[f"b{n}"]
        if n < layers - 1:
            x = F.layer_norm(x, x.shape[-1:])
            x = F.leaky_relu(x, 0.1)
    return x.squeeze(-1)


def cox(score, time, event):
    order = torch.argsort(time, descending=True)
    score, event = score[order], event[order]
    at_risk = torch.logcumsumexp(score, dim=0)
    return -((score - at_risk) * event).sum() / event.sum()


torch.set_num_threads(1)
g = torch.Generator().manual_seed(408)
params = init([8, 32, 32, 1], g)
velocity = {name: torch.zeros_like(p) for name, p in params.items()}
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
        score = risk(params, people[rows])
    loss = cox(score.float(), time[rows], event[rows])
    loss = loss + 1e-3 * sum(p.square().sum() for name, p in params.items() if name[0] == "w")
    grads = torch.autograd.grad(loss, list(params.values()))
    with torch.no_grad():
        for (name, p), grad in zip(params.items(), grads):
            velocity[name] = 0.9 * velocity[name] + grad
            p -= 0.02 * velocity[name]
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in params.values()))
