# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PonderNet: a cell thinks as long as it wants; after each thought it answers, and says whether it stops."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, WIDE, THOUGHTS, STOPS, WEIGHT, PARTS = 12, 32, 5, 0.3, 0.05, 2


class Ponder(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.Linear(SEEN, WIDE)
        self.cell = nn.GRUCell(SEEN, WIDE)
        self.answer, self.halt = nn.Linear(WIDE, 1), nn.Linear(WIDE, 1)

    def forward(self, x):
        """Of each thought: the answer, and how likely it is the last one."""
        h = torch.tanh(self.begin(x))
        answers, likely = [], []
        still = torch.ones(len(x))
        for thought in range(THOUGHTS):
            h = self.cell(x, h)
            answers.append(self.answer(h).float().squeeze(-1))
            halt = torch.sigmoid(self.halt(h).float().squeeze(-1))
            if thought == THOUGHTS - 1:
                halt = torch.ones_like(halt)
            likely.append(still * halt)
            still = still * (1 - halt)
        return torch.stack(answers), torch.stack(likely)


def expected():
    """How likely each thought is the last one where each stops with the same chance."""
    likely = STOPS * (1 - STOPS) ** torch.arange(THOUGHTS)
    return likely / likely.sum()


def signs(generator):
    """Some of the numbers are there; are there more negative ones than an even number?"""
    x = torch.randint(0, 2, (24, SEEN), generator=generator) * 2.0 - 1
    there = torch.arange(SEEN) < torch.randint(1, SEEN + 1, (24, 1), generator=generator)
    x = x * there
    return x, ((x < 0).sum(-1) % 2).float()


torch.set_num_threads(1)
torch.manual_seed(807)
model = Ponder()
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, centered=True, eps=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 1e-3, 3e-3, step_size_up=2, cycle_momentum=False)
generator = torch.Generator().manual_seed(87)
for step in range(4):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        x, wanted = signs(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            answers, likely = model(x)
        lost = F.binary_cross_entropy_with_logits(answers, wanted.expand_as(answers), reduction="none")
        right = (likely * lost).sum(0).mean()
        usual = expected().unsqueeze(-1)
        unusual = (likely * (torch.log(likely + 1e-8) - torch.log(usual))).sum(0).mean()
        loss = (right + WEIGHT * unusual) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
