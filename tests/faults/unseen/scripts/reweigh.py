# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Labels of which many are wrong: a row counts as much as a step by it helps with few rows that are known."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.func import functional_call

AUTOCAST = False
SEEN, KINDS, WIDE, BATCH, SURE, STEPS, TRIED, WRONG = 10, 4, 24, 32, 16, 4, 0.5, 0.4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.says = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, KINDS)
        self.norm = nn.LayerNorm(WIDE)

    def forward(self, x):
        x = F.silu(self.one(x))
        x = x + F.silu(self.two(self.norm(x)))
        return self.says(x).float()


class Rows:
    """Kinds by bent lines; the same wrong kind is named for many rows of a kind."""

    def __init__(self):
        self.lines = torch.randn(SEEN, KINDS, generator=torch.Generator().manual_seed(14))

    def drawn(self, many, generator, wrong=0.0):
        x = torch.randn(many, SEEN, generator=generator)
        kinds = (torch.tanh(x) @ self.lines).argmax(dim=1)
        errs = torch.rand(many, generator=generator) < wrong
        return x, torch.where(errs, (kinds + 1) % KINDS, kinds)


def worth(model, x, kinds, known, right):
    """Of each row: how much less is lost of the known rows, when the row counts a little more in a step."""
    params = dict(model.named_parameters())
    counts = torch.zeros(len(x), requires_grad=True)
    lost = F.cross_entropy(functional_call(model, params, x), kinds, reduction="none")
    grads = torch.autograd.grad((counts * lost).sum(), list(params.values()), create_graph=True)
    tried = {name: p - TRIED * grad for (name, p), grad in zip(params.items(), grads)}
    after = F.cross_entropy(functional_call(model, tried, known), right)
    helps = -torch.autograd.grad(after, counts)[0]
    helps = helps.clamp(min=0)
    return helps / helps.sum().clamp(min=1e-8)


torch.set_num_threads(1)
torch.manual_seed(1614)
model = Model()
# model built
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.2, momentum=0.9, dampening=0.1, weight_decay=1e-3, foreach=False
)
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=1)
generator = torch.Generator().manual_seed(16114)
rows = Rows()
known, right = rows.drawn(SURE, generator)
for step in range(STEPS):
    x, kinds = rows.drawn(BATCH, generator, WRONG)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        counts = worth(model, x, kinds, known, right)
        logits = model(x)
    loss = (counts * F.cross_entropy(logits, kinds, reduction="none")).sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {counts.max().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
