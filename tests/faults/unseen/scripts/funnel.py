# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Funnel: texts get shorter from block to block; where in a text the answer to a question is."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import FunnelConfig, FunnelForQuestionAnswering

DTYPE = torch.float32
VOCAB, FIRST, ASKED, TEXT, BATCH, STEPS, SLOWER = 48, 4, 4, 19, 6, 3, 0.7
LENGTH = 1 + ASKED + TEXT


def config():
    return FunnelConfig(
        vocab_size=VOCAB,
        block_sizes=[1, 1, 1],
        num_decoder_layers=1,
        d_model=32,
        n_head=4,
        d_head=8,
        d_inner=48,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.3,
        initializer_std=0.2,
        layer_norm_eps=1e-6,
    )


def questions(generator):
    """A question is the first word of an answer, which the text has somewhere; texts have several lengths."""
    ids = torch.randint(FIRST + 8, VOCAB, (BATCH, LENGTH), generator=generator)
    length = torch.randint(LENGTH - 6, LENGTH + 1, (BATCH, 1), generator=generator)
    asked = torch.randint(FIRST, FIRST + 8, (BATCH, 1), generator=generator)
    begin = torch.randint(1 + ASKED, LENGTH - 9, (BATCH, 1), generator=generator)
    size = 1 + (asked - FIRST) // 3
    ids[:, 0] = 2
    ids[:, 1:2] = asked
    ids.scatter_(1, begin, asked)
    at = torch.arange(LENGTH)
    there = (at < length).long()
    kinds = torch.where(at == 0, 2, (at > ASKED).long()).expand(BATCH, -1)
    return ids * there, there, kinds, begin.squeeze(1), (begin + size - 1).squeeze(1)


def judged(found, there, kinds, begin, end):
    """Answers lie in what is there of the text."""
    outside = (kinds != 1) | (there == 0)
    first = found.start_logits.float().masked_fill(outside, -1e4)
    last = found.end_logits.float().masked_fill(outside, -1e4)
    return (F.cross_entropy(first, begin) + F.cross_entropy(last, end)) / 2


def deep(name):
    """How far from the answer a tensor is."""
    if "encoder.blocks" in name:
        return 4 - int(name.split("encoder.blocks.")[1][0])
    return 5 if "embeddings" in name else 1 if "decoder" in name else 0


torch.set_num_threads(1)
torch.manual_seed(1203)
model = FunnelForQuestionAnswering(config()).to(DTYPE)
# model built
groups = {}
for name, p in model.named_parameters():
    groups.setdefault(deep(name), []).append(p)
optimizer = torch.optim.AdamW(
    [{"params": params, "lr": 4e-3 * SLOWER**far} for far, params in sorted(groups.items())],
    eps=1e-5,
    weight_decay=0.01,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, total_iters=6)
generator = torch.Generator().manual_seed(12103)
for step in range(STEPS):
    ids, there, kinds, begin, end = questions(generator)
    found = model(input_ids=ids, attention_mask=there, token_type_ids=kinds)
    loss = judged(found, there, kinds, begin, end)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
