# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Forward-forward: each layer learns alone to be lively for true labels and calm for wrong ones."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, KINDS, LAYERS, LIMIT = 16, 48, 4, 3, 1.0


class Layer(nn.Module):
    """Only the direction of what comes in counts, and nothing goes back into it."""

    def __init__(self, before):
        super().__init__()
        self.linear = nn.Linear(before, WIDE)

    def forward(self, x):
        x = x.detach()
        x = x / (x.norm(dim=-1, keepdim=True) + 1e-4) * x.shape[-1] ** 0.5
        return F.relu(self.linear(x))


def goodness(h):
    return h.float().square().mean(dim=-1)


def labelled(x, kinds):
    """The label stands before what is seen."""
    return torch.cat([2.0 * F.one_hot(kinds, KINDS), x], dim=-1)


def batch_of(generator):
    x = torch.randn(32, SEEN, generator=generator)
    kinds = x.unflatten(-1, (KINDS, -1)).square().sum(-1).argmax(-1)
    others = (kinds + torch.randint(1, KINDS, (32,), generator=generator)) % KINDS
    return x, kinds, others


@torch.no_grad()
def told(layers, x, kinds):
    """How surely the livelier label is the right one, by all layers but the first."""
    each = []
    for kind in range(KINDS):
        h, total = labelled(x, torch.full((len(x),), kind)), 0.0
        for n, layer in enumerate(layers):
            h = layer(h)
            total = total + (goodness(h) if n > 0 else 0.0)
        each.append(total)
    return F.cross_entropy(torch.stack(each, dim=1), kinds)


torch.set_num_threads(1)
torch.manual_seed(816)
layers = nn.ModuleList(Layer(SEEN + KINDS if n == 0 else WIDE) for n in range(LAYERS))
# model built
rates = (2e-3, 3e-3, 4e-3)
optimizers = [
    torch.optim.Adam(layer.parameters(), lr=rate, foreach=False) for layer, rate in zip(layers, rates)
]
generator = torch.Generator().manual_seed(816)
for step in range(4):
    x, kinds, others = batch_of(generator)
    right, wrong = labelled(x, kinds), labelled(x, others)
    total = 0.0
    for layer, optimizer in zip(layers, optimizers):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            right, wrong = layer(right), layer(wrong)
        lively, calm = goodness(right) - LIMIT, goodness(wrong) - LIMIT
        loss = torch.log1p(torch.exp(-lively)).mean() + torch.log1p(torch.exp(calm)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        lost = told(layers, x, kinds)
    print(f"step {step} loss {total!r} {lost.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in layers.parameters()))
