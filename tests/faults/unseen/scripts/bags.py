# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Bags of small pictures, of which only the bag has a label: attention finds the picture that gave it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, WIDE, LOOK, MOST, BATCH, STEPS, SPREAD = 8, 20, 12, 9, 8, 4, 0.05


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.sees = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, WIDE, 3, padding=1),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.look, self.gate = nn.Linear(WIDE, LOOK), nn.Linear(WIDE, LOOK)
        self.weigh, self.judge = nn.Linear(LOOK, 1, bias=False), nn.Linear(WIDE, 1)

    def forward(self, pictures, there):
        """What is said of each bag, of each picture, and how far each picture was looked at."""
        x = self.sees(pictures.flatten(0, 1)).unflatten(0, there.shape)
        seen = torch.tanh(self.look(x)) * torch.sigmoid(self.gate(x))
        scores = self.weigh(seen).squeeze(2).float().masked_fill(~there, -1e4)
        shares = scores.softmax(dim=1)
        whole = (shares.unsqueeze(2) * x.float()).sum(dim=1)
        return self.judge(whole).squeeze(1).float(), self.judge(x).squeeze(2).float(), shares


def entropy(shares):
    return -(shares * shares.clamp(min=1e-9).log()).sum(dim=1)


def judged(said, single, shares, there, labels):
    """Bags by their label; of a bag without it every picture is known, too; looks shall be spread."""
    bag = F.binary_cross_entropy_with_logits(said, labels, pos_weight=torch.tensor(1.5))
    known = there & (labels < 0.5).unsqueeze(1)
    each = F.softplus(single).masked_fill(~known, 0.0)
    clean = each.sum() / known.sum().clamp(min=1)
    return bag + 0.3 * clean - SPREAD * entropy(shares).mean()


def bags(generator):
    """Pictures are noise with a line; in half of the bags one has a cross."""
    pictures = 0.4 * torch.randn(BATCH, MOST, 1, SIDE, SIDE, generator=generator)
    rows = torch.randint(1, SIDE - 1, (BATCH, MOST), generator=generator)
    lines = F.one_hot(rows, SIDE).float()
    pictures = pictures + lines[:, :, None, :, None]
    sizes = torch.randint(3, MOST + 1, (BATCH,), generator=generator)
    labels = torch.arange(BATCH) % 2
    which = (torch.rand(BATCH, generator=generator) * sizes).long()
    crossed = (F.one_hot(which, MOST) * labels.unsqueeze(1))[:, :, None, None, None]
    pictures = pictures + crossed * lines.flip(1)[:, :, None, None, :]
    there = torch.arange(MOST) < sizes.unsqueeze(1)
    return pictures, there, labels.float()


torch.set_num_threads(1)
torch.manual_seed(1102)
model = Bag()
# model built
looks = [p for name, p in model.named_parameters() if name.startswith(("look", "gate", "weigh"))]
rest = [p for name, p in model.named_parameters() if not name.startswith(("look", "gate", "weigh"))]
groups = [{"params": rest}, {"params": looks, "lr": 0.1, "weight_decay": 0.0}]
optimizer = torch.optim.SGD(groups, lr=0.03, momentum=0.9, nesterov=True, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.06, 0.2], total_steps=8)
generator = torch.Generator().manual_seed(112)
for step in range(STEPS):
    pictures, there, labels = bags(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        said, single, shares = model(pictures, there)
    loss = judged(said, single, shares, there, labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
