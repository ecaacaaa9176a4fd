# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Few kinds that are seen often and many that are rare: margins, priors, and weights that come later."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
KINDS, SEEN, WIDE, BATCH, LATER, STEEP, TAU, WIDEST, SAME = 8, 10, 24, 32, 2, 12.0, 0.6, 0.3, 0.99


class Model(nn.Module):
    """Scores are cosines of the angle between what is seen and each kind."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, WIDE)
        self.norm = nn.BatchNorm1d(WIDE)
        self.kinds = nn.Parameter(torch.randn(KINDS, WIDE))

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = x + F.relu(self.second(x))
        return F.normalize(x.float(), dim=1) @ F.normalize(self.kinds, dim=1).T


class Balance:
    """What is rare needs more room, and is not to be thought rare; later it counts for more."""

    def __init__(self, counts):
        self.prior = (counts / counts.sum()).log()
        self.margins = WIDEST * (counts / counts.min()) ** -0.25
        worth = (1 - SAME) / (1 - SAME**counts)
        self.weights = worth / worth.mean()

    def __call__(self, cosines, kinds, step):
        own = F.one_hot(kinds, KINDS).float()
        logits = STEEP * (cosines - self.margins * own) + TAU * self.prior
        wrong = F.cross_entropy(logits, kinds, reduction="none")
        if step < LATER:
            return wrong.mean()
        return (self.weights[kinds] * wrong).mean()


def rows(counts, looks, generator):
    kinds = torch.multinomial(counts, BATCH, replacement=True, generator=generator)
    bent = looks[kinds] + 0.7 * torch.randn(BATCH, SEEN, generator=generator)
    return bent + 0.2 * bent.roll(1, dims=1).square(), kinds


torch.set_num_threads(1)
torch.manual_seed(1211)
model = Model()
# model built
counts = (400 * 0.5 ** torch.arange(KINDS).float()).round()
looks = torch.randn(KINDS, SEEN, generator=torch.Generator().manual_seed(11))
judged = Balance(counts)
others = [p for name, p in model.named_parameters() if name != "kinds"]
optimizer = torch.optim.SGD(
    [{"params": others}, {"params": [model.kinds], "weight_decay": 0.0}],
    lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-3, foreach=False,
)  # fmt: skip
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.3, 1.0, total_iters=2)
later = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[LATER + 1], gamma=0.2)
schedule = torch.optim.lr_scheduler.ChainedScheduler([warm, later])
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=False)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    x, kinds = rows(counts, looks, torch.Generator().manual_seed(12111 + step))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        cosines = model(x)
    loss = judged(cosines.float(), kinds, step)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 4.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
