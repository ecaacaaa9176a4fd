# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Words by their neighbours: skip-grams with negative samples, sparse gradients, no module at all."""

import torch
import torch.nn.functional as F  # noqa: N812

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

center = ((torch.rand(VOCAB, DIM) - 0.5) / DIM * 8).requires_grad_()
context = (torch.randn(VOCAB, DIM) * 0.1).requires_grad_()
optimizer = torch.optim.SparseAdam([center, context], lr=0.01)


def batch_at(position, size=64):
    at = torch.arange(position, position + size)
    words, around = [], []
    for shift in range(-WINDOW, WINDOW + 1):
        if shift:
            words.append(text[at])
            around.append(text[at + shift])
    return torch.cat(words), torch.cat(around)


def loss_of(words, around, negatives):
    v = F.embedding(words, center, sparse=True)
    u = F.embedding(around, context, sparse=True)
    n = F.embedding(negatives, context, sparse=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=AMP):
        near = torch.bmm(u.unsqueeze(1), v.unsqueeze(2)).squeeze()
        far = torch.bmm(n, v.unsqueeze(2)).squeeze(2)
    return -(F.logsigmoid(near.float()) + F.logsigmoid(-far.float()).sum(1)).mean()


for step in range(4):
    words, around = batch_at(100 + 300 * step)
    negatives = torch.multinomial(noise, len(words) * NEGATIVES, replacement=True).view(len(words), NEGATIVES)
    optimizer.zero_grad()
    loss = loss_of(words, around, negatives)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", center.detach().double().abs().sum().item(), context.detach().double().abs().sum().item())
