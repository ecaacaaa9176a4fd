# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ConvBERT: half of the heads are kernels that the words write; which of some endings belongs to a text."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import ConvBertConfig, ConvBertForMultipleChoice

AUTOCAST = False
VOCAB, PAD, FIRST, TEXT, END, CHOICES, BATCH, STEPS, MARGIN = 60, 0, 4, 12, 6, 3, 4, 4, 0.5


def config():
    return ConvBertConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        embedding_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        head_ratio=2,
        conv_kernel_size=5,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout=0.0,
        max_position_embeddings=TEXT + END,
        type_vocab_size=2,
        initializer_range=0.2,
        pad_token_id=PAD,
    )


def stories(generator):
    """A text goes on by a stride; the right ending goes on by it, the others by strides of their own."""
    begin = torch.randint(0, VOCAB, (BATCH, 1, 1), generator=generator)
    strides = 1 + torch.rand(BATCH, 9, generator=generator).argsort(dim=1)[:, :CHOICES].unsqueeze(2)
    right = torch.randint(0, CHOICES, (BATCH,), generator=generator)
    stride = strides[torch.arange(BATCH), right].unsqueeze(1)
    text = (begin + stride * torch.arange(TEXT)).expand(-1, CHOICES, -1)
    ends = begin + stride * (TEXT - 1) + strides * torch.arange(1, END + 1)
    sizes = torch.randint(2, END + 1, (BATCH, CHOICES, 1), generator=generator)
    there = torch.arange(TEXT + END) < TEXT + sizes
    ids = FIRST + torch.cat([text, ends], dim=2) % (VOCAB - FIRST)
    kinds = (torch.arange(TEXT + END) >= TEXT).long().expand_as(ids)
    return ids.masked_fill(~there, PAD), there.long(), kinds, right


def judged(scores, right):
    """The right one by likelihood, and by a margin from the best of the others."""
    own = scores.gather(1, right.unsqueeze(1)).squeeze(1)
    others = scores.masked_fill(F.one_hot(right, CHOICES).bool(), -1e4).amax(dim=1)
    return F.cross_entropy(scores, right) + 0.5 * F.relu(MARGIN + others - own).mean()


torch.set_num_threads(1)
torch.manual_seed(1114)
model = ConvBertForMultipleChoice(config())
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.2, total_iters=6)
generator = torch.Generator().manual_seed(114)
for step in range(STEPS):
    ids, there, kinds, right = stories(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        scores = model(input_ids=ids, attention_mask=there, token_type_ids=kinds).logits.float()
    loss = judged(scores, right)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
