# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks of one trunk that shall learn equally fast: their weights follow how long their gradients are."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, BATCH, STEPS, PULL = 12, 24, 32, 4, 1.5
TASKS = ("place", "kind", "many")


class Model(nn.Module):
    """A trunk, whose last layer is what gradients are compared at, and a head of each task."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(SEEN, WIDE), nn.Mish(), nn.Linear(WIDE, WIDE), nn.Mish())
        self.last = nn.Linear(WIDE, WIDE)
        self.heads = nn.ModuleDict({"place": nn.Linear(WIDE, 2), "kind": nn.Linear(WIDE, 4)})
        self.heads["many"] = nn.Linear(WIDE, 1)
        self.weights = nn.Parameter(torch.ones(len(TASKS)))

    def forward(self, x):
        x = F.hardswish(self.last(self.trunk(x)))
        return {name: self.heads[name](x).float() for name in TASKS}


def losses_of(found, place, kind, many):
    """Of which the first is much larger."""
    return torch.stack(
        [
            F.huber_loss(found["place"], place, delta=3.0),
            F.cross_entropy(found["kind"], kind),
            F.poisson_nll_loss(found["many"].squeeze(1), many, full=True),
        ]
    )


def lengths(losses, weights, last):
    """Of the gradient of each weighed loss; weights learn from how long these are."""
    found = []
    for loss, weight in zip(losses, weights):
        (grad,) = torch.autograd.grad(weight * loss, last.weight, retain_graph=True, create_graph=True)
        found.append(grad.norm())
    return torch.stack(found)


def unequal(losses, first, long):
    """How far lengths are from the mean one, which is longer for tasks that learnt little so far."""
    slow = losses.detach() / first
    slow = slow / slow.mean()
    wanted = (long.mean() * slow**PULL).detach()
    return (long / wanted).log().square().sum()


def rows(mixing, generator):
    x = torch.randn(BATCH, SEEN, generator=generator)
    made = torch.tanh(x @ mixing)
    place = 10 * made[:, :2] + torch.randn(BATCH, 2, generator=generator)
    return x, place, made[:, 2:6].argmax(dim=1), torch.poisson((2 * made[:, 6]).exp(), generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1408)
model = Model()
# model built
learnt = [p for name, p in model.named_parameters() if name != "weights"]
optimizer = torch.optim.SGD(learnt, lr=2e-2, momentum=0.8, nesterov=True, foreach=False)
for_weights = torch.optim.SGD([model.weights], lr=2e-2, momentum=0.5, foreach=False)
mixing = torch.randn(SEEN, 7, generator=torch.Generator().manual_seed(8)) / 2
generator = torch.Generator().manual_seed(14108)
first = None
for step in range(STEPS):
    x, place, kind, many = rows(mixing, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    losses = losses_of(found, place, kind, many)
    if first is None:
        first = losses.detach().clone()
    optimizer.zero_grad()
    (model.weights.detach() * losses).sum().backward(retain_graph=True)
    long = lengths(losses, model.weights, model.last)
    model.weights.grad = torch.autograd.grad(unequal(losses, first, long), model.weights)[0]
    nn.utils.clip_grad_norm_(learnt, 5.0)
    optimizer.step()
    for_weights.step()
    with torch.no_grad():
        model.weights.clamp_(min=0.05)
        model.weights.mul_(len(TASKS) / model.weights.sum())
    print(f"step {step} loss {' '.join(repr(loss) for loss in losses.tolist())}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
