# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An LSTM with a conditional random field: the score of the right tags against that of all."""

import torch
from torch import nn

WORDS, TAGS = 50, 6


class Crf(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.randn(tags) * 0.1), nn.Parameter(torch.randn(tags) * 0.1)
        self.moves = nn.Parameter(torch.randn(tags, tags) * 0.1)

    def of_path(self, scores, tags, inside):
        total = self.start[tags[:, 0]] + scores[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for time in range(1, tags.shape[1]):
            here = scores[:, time].gather(1, tags[:, time, None]).squeeze(1)
            moved = self.moves[tags[:, time - 1], tags[:, time]]
            total = total + (here + moved) * inside[:, time]
        last = tags.gather(1, inside.sum(1, keepdim=True).long() - 1).squeeze(1)
        return total + self.end[last]

    def of_all(self, scores, inside):
        alpha = self.start + scores[:, 0]
        for time in range(1, scores.shape[1]):
            after = torch.logsumexp(alpha[:, :, None] + self.moves + scores[:, time, None], 1)
            alpha = torch.where(inside[:, time, None] > 0, after, alpha)
        return torch.logsumexp(alpha + self.end, 1)

    def forward(self, scores, tags, inside):
        return (self.of_all(scores, inside) - self.of_path(scores, tags, inside)).mean()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 20)
        self.lstm = nn.LSTM(20, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.scores, self.crf = nn.Linear(48, TAGS), Crf(TAGS)

    def forward(self, words, tags, inside):
        h, _ = self.lstm(self.embed(words))
        return self.crf(self.scores(h), tags, inside)


torch.set_num_threads(1)
torch.manual_seed(30)
model = Tagger()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, foreach=False)
generator = torch.Generator().manual_seed(790)
for step in range(3):
    words = torch.randint(WORDS, (5, 8), generator=generator)
    tags = torch.randint(TAGS, (5, 8), generator=generator)
    lengths = torch.randint(3, 9, (5,), generator=generator)
    inside = (torch.arange(8) < lengths[:, None]).float()
    loss = model(words, tags, inside)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
