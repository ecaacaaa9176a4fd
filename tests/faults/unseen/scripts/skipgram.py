# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Words by their neighbours: skip-grams with negative samples, and sparse gradients."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AMP = False
VOCAB, DIM, WINDOW, NEGATIVES = 120, 32, 3, 6

torch.set_num_threads(1)
torch.manual_seed(400)

# Zipf: the second word comes half as often as the first
frequency = 1.0 / torch.arange(1, VOCAB + 1)
text = torch.multinomial(frequency, 4000, replacement=True)
counts = torch.bincount(text, minlength=VOCAB).float() + 1
noise = counts**0.75
noise /= noise.sum()


def batch_at(position, size=64):
    at = torch.arange(position, position + size)
    words, around = [], []
    for shift in range(-WINDOW, WINDOW + 1):
        if shift:
            words.append(text[at])
            around.append(text[at + shift])
    return torch.cat(words), torch.cat(around)


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.center = nn.Embedding(VOCAB, DIM, sparse=True)
        self.context = nn.Embedding(VOCAB, DIM, sparse=True)
        nn.init.uniform_(self.center.weight, -4 / DIM, 4 / DIM)
        nn.init.normal_(self.context.weight, std=0.1)

    def forward(self, words, around, negatives):
        v, u, n = self.center(words), self.context(around), self.context(negatives)
        near = torch.bmm(u.unsqueeze(1), v.unsqueeze(2)).squeeze()
        far = torch.bmm(n, v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(near.float()) + F.logsigmoid(-far.float()).sum(1)).mean()


model = SkipGram()
optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.01)
for step in range(4):
    words, around = batch_at(100 + 300 * step)
    negatives = torch.multinomial(noise, len(words) * NEGATIVES, replacement=True).view(len(words), NEGATIVES)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=AMP):
        loss = model(words, around, negatives)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", *(p.detach().double().abs().sum().item() for p in model.parameters()))
