# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a visitor wants next: sessions side by side, a state goes on until one ends, others are negatives."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
ITEMS, WIDTH, LANES, LONG, RANDOM = 60, 24, 8, 5, 12


class Sessions(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, num_layers=2)
        self.lean = nn.Embedding(ITEMS, 1)
        nn.init.zeros_(self.lean.weight)

    def forward(self, seen, state, begins):
        """Words of `LONG` clicks of each lane; where a session begins nothing is remembered."""
        outs = []
        for now, new in zip(self.items(seen), begins):
            state = state * (~new).unsqueeze(-1)
            out, state = self.gru(now.unsqueeze(0), state)
            outs.append(out)
        return torch.cat(outs), state

    def scores(self, h, items):
        return h @ self.items(items).T + self.lean(items).T


def bpr_max(scores, right):
    """The right one above all others, of which the higher ones count for more; the higher ones go down."""
    true = scores.gather(-1, right.unsqueeze(-1))
    own = F.one_hot(right, scores.shape[-1]).bool()
    shares = scores.masked_fill(own, -1e9).softmax(dim=-1)
    above = (shares * torch.sigmoid(true - scores)).sum(-1)
    return (-torch.log(above + 1e-24) + 0.5 * (shares * scores.square()).sum(-1)).mean()


def clicks(step):
    g = torch.Generator().manual_seed(7100 + step)
    seen = torch.randint(ITEMS, (LONG + 1, LANES), generator=g)
    for at in range(1, LONG + 1):
        follows = torch.rand(LANES, generator=g) < 0.7
        seen[at] = torch.where(follows, (seen[at - 1] * 7 + 3) % ITEMS, seen[at])
    begins = torch.rand(LONG, LANES, generator=g) < 0.2
    others = torch.randint(ITEMS, (LONG, RANDOM), generator=g)
    return seen[:-1], seen[1:], begins, others


torch.set_num_threads(1)
torch.manual_seed(706)
model = Sessions()
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-6, foreach=False)
state, first = torch.zeros(2, LANES, WIDTH), 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    state, first = saved["state"], saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
for step in range(first, TOTAL):
    seen, wanted, begins, others = clicks(step)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        h, state = model(seen, state.detach(), begins)
        loss = 0.0
        for now, right, more in zip(h, wanted, others):
            scores = model.scores(now, torch.cat([right, more])).float()
            loss = loss + bpr_max(scores, torch.arange(LANES)) / LONG
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({"step": step + 1, "state": state.detach(), **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
