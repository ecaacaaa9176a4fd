# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Retrieval: questions find their passages among those of a large batch, seen in small parts."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import DistilBertConfig, DistilBertModel

DTYPE = torch.float32
PART, TEMPERATURE = 4, 0.2


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        config = DistilBertConfig(
            vocab_size=80,
            dim=32,
            hidden_dim=64,
            n_layers=2,
            n_heads=4,
            max_position_embeddings=32,
            dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.15,
            attn_implementation="eager",
        )
        self.bert = DistilBertModel(config)

    def forward(self, ids):
        inside = (ids != 0).long()
        h = self.bert(input_ids=ids, attention_mask=inside).last_hidden_state
        weights = inside.unsqueeze(-1).to(h.dtype)
        return F.normalize((h * weights).sum(1) / weights.sum(1), dim=-1)


def texts(generator, count, length):
    ids = torch.randint(2, 80, (count, length), generator=generator)
    sizes = torch.randint(length // 2, length + 1, (count, 1), generator=generator)
    return ids.masked_fill(torch.arange(length) >= sizes, 0)


def contrast(asked, found):
    """Each question has two passages: its own, and a hard one after it."""
    scores = asked.float() @ found.float().T / TEMPERATURE
    return F.cross_entropy(scores, 2 * torch.arange(len(asked)))


def encoded(model, ids):
    with torch.no_grad():
        return torch.cat([model(part) for part in ids.split(PART)]).requires_grad_()


def train_step(model, questions, passages):
    """The gradients of all features are found first, then each part goes through again with its own."""
    asked, found = encoded(model, questions), encoded(model, passages)
    loss = contrast(asked, found)
    loss.backward()
    for ids, features in ((questions, asked), (passages, found)):
        for part, slope in zip(ids.split(PART), features.grad.split(PART)):
            (model(part) * slope).sum().backward()
    return loss


torch.set_num_threads(1)
torch.manual_seed(514)
model = Encoder().to(DTYPE)
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
generator = torch.Generator().manual_seed(14)
for step in range(3):
    questions, passages = texts(generator, 8, 6), texts(generator, 16, 12)
    optimizer.zero_grad()
    loss = train_step(model, questions, passages)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
