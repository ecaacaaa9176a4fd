# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nystromformer: attention by way of few landmarks; where in a passage the answer to a question is."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import NystromformerConfig, NystromformerForQuestionAnswering

AUTOCAST = False
VOCAB, SEP, FIRST, ASK, LENGTH, LANDMARKS, BATCH, STEPS = 64, 2, 4, 4, 32, 8, 8, 4


def config():
    return NystromformerConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        segment_means_seq_len=LENGTH,
        num_landmarks=LANDMARKS,
        conv_kernel_size=5,
        initializer_range=0.2,
    )


def questions(generator):
    """Three words are asked for, which stand somewhere in the passage; what follows them is the answer."""
    room = LENGTH - ASK
    passage = torch.randint(FIRST, VOCAB, (BATCH, room), generator=generator)
    begins = torch.randint(0, room - 8, (BATCH,), generator=generator)
    sizes = torch.randint(2, 6, (BATCH,), generator=generator)
    asked = passage.gather(1, begins.unsqueeze(1) + torch.arange(ASK - 1))
    ids = torch.cat([asked, torch.full((BATCH, 1), SEP), passage], dim=1)
    kinds = (torch.arange(LENGTH) >= ASK).long().expand(BATCH, -1)
    first = ASK + begins + ASK - 1
    last = first + sizes - 1
    return ids, kinds, first, last


torch.set_num_threads(1)
torch.manual_seed(1003)
model = NystromformerForQuestionAnswering(config())
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
generator = torch.Generator().manual_seed(103)
for step in range(STEPS):
    ids, kinds, first, last = questions(generator)
    there = torch.ones_like(ids)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(input_ids=ids, token_type_ids=kinds, attention_mask=there)
    begins = found.start_logits.float().masked_fill(kinds == 0, -1e4)
    ends = found.end_logits.float().masked_fill(kinds == 0, -1e4)
    loss = 0.5 * (F.cross_entropy(begins, first) + F.cross_entropy(ends, last))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
