# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Labels that lie: two networks, each of which learns from what the other finds easy."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
KINDS, SIDE, WIDE, BATCH, STEPS, LIES, WITHIN = 5, 10, 12, 30, 4, 0.3, 2


class Sees(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDE, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDE)
        self.deep = nn.Conv2d(WIDE, 2 * WIDE, 3, stride=2, padding=1, groups=2)
        self.deeper = nn.Conv2d(2 * WIDE, 2 * WIDE, 3, padding=1)
        self.out = nn.Linear(2 * WIDE, KINDS)

    def forward(self, x):
        x = F.hardswish(self.norm(self.stem(x)))
        x = F.hardswish(self.deep(x))
        x = x + F.hardswish(self.deeper(x))
        return self.out(x.float().square().mean((2, 3)).clamp(min=1e-6).sqrt()).float()


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = Sees(), Sees()

    def forward(self, x):
        return self.one(x), self.other(x)


def wrong(logits, labels):
    """Of each picture; both ways round, such that lies weigh less."""
    told = F.cross_entropy(logits, labels, reduction="none")
    shares = logits.softmax(dim=1).clamp(min=1e-4)
    sure = F.one_hot(labels, KINDS).float().clamp(min=1e-4)
    return told - 0.5 * (shares * sure.log()).sum(dim=1)


def easy(losses, share):
    """Rows of what is least wrong."""
    return losses.detach().topk(int(share * len(losses)), largest=False).indices


def kept(step):
    """What share is learnt from, which gets less as lies would be learnt by heart."""
    return 1 - LIES * min(1.0, (step + 1) / WITHIN)


def pictures(looks, generator):
    true = torch.randint(0, KINDS, (BATCH,), generator=generator)
    lies = torch.rand(BATCH, generator=generator) < LIES
    labels = torch.where(lies, torch.randint(0, KINDS, (BATCH,), generator=generator), true)
    return looks[true] + 0.5 * torch.randn(BATCH, 3, SIDE, SIDE, generator=generator), labels


torch.set_num_threads(1)
torch.manual_seed(1110)
model = Both()
# model built
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, foreach=False)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.8)
generator = torch.Generator().manual_seed(110)
looks = torch.randn(KINDS, 3, SIDE, SIDE, generator=generator)
for step in range(STEPS):
    x, labels = pictures(looks, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        one, other = model(x)
    of_one, of_other = wrong(one, labels), wrong(other, labels)
    for_one, for_other = easy(of_other, kept(step)), easy(of_one, kept(step))
    loss = of_one[for_one].mean() + of_other[for_other].mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
