# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sequence to sequence: a GRU reads both ways, a GRU cell writes and looks back by additive attention."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
WORDS, WIDTH = 40, 24


class Bahdanau(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.of_query, self.of_key = nn.Linear(width, width, bias=False), nn.Linear(2 * width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, query, keys, outside):
        h = torch.tanh(self.of_query(query)[:, None] + self.of_key(keys))
        scores = self.score(h).squeeze(-1).masked_fill(outside, float("-inf"))
        shares = torch.softmax(scores, -1)
        return torch.bmm(shares[:, None], keys).squeeze(1)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * WIDTH, WIDTH)
        self.attention = Bahdanau(WIDTH)
        self.cell = nn.GRUCell(3 * WIDTH, WIDTH)
        self.head = nn.Linear(3 * WIDTH, WORDS)

    def forward(self, source, target):
        keys, last = self.encoder(self.source(source))
        state = torch.tanh(self.bridge(torch.cat([last[0], last[1]], -1)))
        written = self.target(target)
        outside = source == 0
        logits = []
        for time in range(target.shape[1]):
            seen = self.attention(state, keys, outside)
            state = self.cell(torch.cat([written[:, time], seen], -1), state)
            logits.append(self.head(torch.cat([state, seen], -1)))
        return torch.stack(logits, 1)


torch.set_num_threads(1)
torch.manual_seed(29)
model = Translator().to(DTYPE)
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, foreach=False)
generator = torch.Generator().manual_seed(780)
for step in range(3):
    source = torch.randint(1, WORDS, (4, 9), generator=generator)
    lengths = torch.randint(4, 10, (4,), generator=generator)
    source = source.masked_fill(torch.arange(9) >= lengths[:, None], 0)
    target = torch.randint(1, WORDS, (4, 7), generator=generator)
    logits = model(source, target[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1).float(), target[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
