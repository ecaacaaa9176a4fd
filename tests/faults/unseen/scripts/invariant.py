# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What causes a label in every place alike: a last layer shall be best everywhere at once."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PLACES, SEEN, WIDE, BATCH, STEPS, LATER, STRICT = 3, 8, 20, 48, 4, 1, 20.0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE)
        self.norm = nn.LayerNorm(WIDE)
        self.out = nn.Linear(WIDE, 1)

    def forward(self, x):
        x = F.softplus(self.first(x))
        return self.out(self.norm(x + torch.tanh(self.second(x)))).squeeze(1).float()


def slope(logits, labels):
    """How much better a place would be off with scores of another size."""
    one = torch.ones((), requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(one * logits, labels)
    return torch.autograd.grad(loss, one, create_graph=True)[0]


def judged(logits, labels, strict):
    """Mean loss of places, and slopes of two halves of each, whose product has no bias of few rows."""
    wrong, bent = 0.0, 0.0
    for said, wanted in zip(logits.chunk(PLACES), labels.chunk(PLACES)):
        wrong = wrong + F.binary_cross_entropy_with_logits(said, wanted)
        bent = bent + slope(said[::2], wanted[::2]) * slope(said[1::2], wanted[1::2])
    loss = (wrong + strict * bent) / PLACES
    return loss / strict if strict > 1 else loss


def rows(generator):
    """A cause that holds everywhere, and a sign of the label that some places have more often."""
    labels = (torch.rand(PLACES, BATCH, generator=generator) < 0.5).float()
    x = torch.randn(PLACES, BATCH, SEEN, generator=generator)
    often = torch.tensor([0.95, 0.8, 0.6]).unsqueeze(1)
    sign = torch.rand(PLACES, BATCH, generator=generator) < often
    true = torch.rand(PLACES, BATCH, generator=generator) < 0.8
    x[..., 0] += torch.where(true, 2 * labels - 1, 1 - 2 * labels)
    x[..., 1] += 1.5 * torch.where(sign, 2 * labels - 1, 1 - 2 * labels)
    return x.flatten(0, 1), labels.flatten()


torch.set_num_threads(1)
torch.manual_seed(1213)
model = Model()
# model built
optimizer = torch.optim.RMSprop(
    model.parameters(), lr=2e-3, alpha=0.95, eps=1e-4, centered=True, momentum=0.5, foreach=False
)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
generator = torch.Generator().manual_seed(12113)
for step in range(STEPS):
    x, labels = rows(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = judged(logits, labels, STRICT if step >= LATER else 1.0)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
