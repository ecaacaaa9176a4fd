# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Short texts of long ones: a word is either written or copied from where attention lies; no place twice."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WORDS, RARE, LONG, SHORT, WIDE, BATCH, STEPS, TWICE, EPS = 20, 6, 14, 6, 20, 8, 4, 0.5, 1e-9
START = 1


class Model(nn.Module):
    """A GRU reads both ways; a cell writes, looks back, and knows where it looked before."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDE)
        self.reads = nn.GRU(WIDE, WIDE // 2, batch_first=True, bidirectional=True)
        self.writes, self.begins = nn.GRUCell(2 * WIDE, WIDE), nn.Linear(WIDE, WIDE)
        self.of_text, self.of_state = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE, bias=False)
        self.of_before, self.score = nn.Linear(1, WIDE, bias=False), nn.Linear(WIDE, 1, bias=False)
        self.says, self.gate = nn.Linear(2 * WIDE, WORDS), nn.Linear(3 * WIDE, 1)

    def looks(self, keys, text, state, before, there):
        both = keys + self.of_state(state).unsqueeze(1) + self.of_before(before.unsqueeze(2))
        scores = self.score(torch.tanh(both)).squeeze(2).float()
        shares = scores.masked_fill(~there, -torch.inf).softmax(dim=1)
        return shares, torch.einsum("bl,blw->bw", shares, text.float())

    def forward(self, ids, known, there, wanted):
        """The share of each word at each place, and where attention lay twice."""
        text, _ = self.reads(self.words(known))
        keys, state = self.of_text(text), torch.tanh(self.begins(text[:, 0]))
        seen, before = torch.zeros(len(ids), WIDE), torch.zeros(ids.shape)
        given = F.pad(wanted[:, :-1], (1, 0), value=START)
        told, twice = [], []
        for at in range(SHORT):
            word = self.words(given[:, at].where(given[:, at] < WORDS, 0))
            state = self.writes(torch.cat([word, seen], dim=1), state).float()
            shares, seen = self.looks(keys, text, state, before, there)
            own = self.says(torch.cat([state, seen], dim=1)).float().softmax(dim=1)
            gate = torch.sigmoid(self.gate(torch.cat([state, seen, word], dim=1)).float())
            whole = F.pad(gate * own, (0, RARE)).scatter_add(1, ids, (1 - gate) * shares)
            told.append(whole)
            twice.append(torch.minimum(shares, before).sum(dim=1))
            before = before + shares
        return torch.stack(told, dim=1), torch.stack(twice, dim=1)


def texts(generator):
    """Some words are rare, with a number of their own in this text; a short text has what follows marks."""
    long = torch.randint(LONG - 3, LONG + 1, (BATCH, 1), generator=generator)
    there = torch.arange(LONG) < long
    ids = torch.randint(3, WORDS + RARE, (BATCH, LONG), generator=generator)
    ids[:, 0::4] = 2
    ids = ids * there
    places = torch.tensor([1, 5, 9, 2, 6, 10])
    return ids, ids.where(ids < WORDS, 0), there, ids[:, places]


torch.set_num_threads(1)
torch.manual_seed(1610)
model = Model()
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, foreach=False)
generator = torch.Generator().manual_seed(16110)
for step in range(STEPS):
    ids, known, there, wanted = texts(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        told, twice = model(ids, known, there, wanted)
    right = told.gather(2, wanted.unsqueeze(2)).squeeze(2)
    lost = -(right + EPS).log()
    loss = lost.mean() + TWICE * twice.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r} {twice.mean().item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
