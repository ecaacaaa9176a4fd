# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One task after another: what mattered for the first is held where it was while the second is learnt."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, KINDS, ROWS, FIRST, SECOND, HOLD = 20, 32, 5, 24, 3, 3, 40.0


class Maxout(nn.Module):
    """The larger of two, so that little is shared that need not be."""

    def __init__(self, before, after):
        super().__init__()
        self.norm, self.both = nn.LayerNorm(before), nn.Linear(before, 2 * after)

    def forward(self, x):
        return self.both(self.norm(x)).unflatten(-1, (2, -1)).amax(dim=-2)


def network():
    return nn.Sequential(Maxout(SEEN, WIDE), Maxout(WIDE, WIDE), nn.Linear(WIDE, KINDS))


def rows_of(order, generator):
    """A task is the same as another with its columns in another order."""
    x = torch.randn(ROWS, SEEN, generator=generator)
    kinds = (x[:, :KINDS] + 0.5 * x[:, KINDS : 2 * KINDS].abs()).argmax(dim=-1)
    return x[:, order], kinds


def said(model, x):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        return model(x).float()


def importance(model, order, generator):
    """How sharply what the model says of a row hangs on each weight: squares of slopes, a row at a time."""
    found = [torch.zeros_like(p) for p in model.parameters()]
    x, _ = rows_of(order, generator)
    for row in x[:8]:
        logs = said(model, row.unsqueeze(0)).log_softmax(dim=-1)
        drawn = torch.multinomial(logs.detach().exp(), 1, generator=generator)
        slopes = torch.autograd.grad(F.nll_loss(logs, drawn.squeeze(0)), list(model.parameters()))
        for total, slope in zip(found, slopes):
            total += slope.square() / 8
    return found


def held(model, anchors, weights):
    """As springs, strong ones where it mattered."""
    total = 0.0
    for p, anchor, weight in zip(model.parameters(), anchors, weights):
        total = total + (weight * (p - anchor).square()).sum()
    return HOLD / 2 * total


torch.set_num_threads(1)
torch.manual_seed(914)
model = network()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8, nesterov=True, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=FIRST, gamma=0.5)
generator = torch.Generator().manual_seed(104)
orders = [torch.arange(SEEN), torch.randperm(SEEN, generator=generator)]
anchors = weights = None
for step in range(FIRST + SECOND):
    if step == FIRST:
        weights = importance(model, orders[0], generator)
        anchors = [p.detach().clone() for p in model.parameters()]
    x, kinds = rows_of(orders[int(step >= FIRST)], generator)
    loss = F.cross_entropy(said(model, x), kinds, label_smoothing=0.05)
    if anchors is not None:
        loss = loss + held(model, anchors, weights)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
