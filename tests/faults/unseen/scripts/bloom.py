# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""BLOOM: slopes in place of places; texts begin at the right, answers count, and logits shall not drift."""

import torch
from torch import nn
from transformers import BloomConfig, BloomForCausalLM

DTYPE = torch.float32
ATTENTION = "eager"
VOCAB, PAD, LENGTH = 60, 0, 18


def config():
    return BloomConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.1,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        use_cache=False,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation=ATTENTION,
    )


def dialogues(generator):
    """Each word of an answer is the one before it and the first, added; all texts end at one place."""
    ids = torch.randint(3, VOCAB, (8, LENGTH), generator=generator)
    sizes = torch.randint(10, LENGTH + 1, (8,), generator=generator)
    begins = LENGTH - sizes
    answers = torch.arange(LENGTH) >= (begins + sizes // 2).unsqueeze(1)
    for at in range(1, LENGTH):
        told = (ids[:, at - 1] + ids[torch.arange(8), begins]) % (VOCAB - 3) + 3
        ids[:, at] = torch.where(answers[:, at], told, ids[:, at])
    known = torch.arange(LENGTH) >= begins.unsqueeze(1)
    return ids.masked_fill(~known, PAD), known, answers


torch.set_num_threads(1)
torch.manual_seed(703)
model = BloomForCausalLM(config()).to(DTYPE)
# model built
optimizer = torch.optim.Adafactor(model.parameters(), lr=2e-2, weight_decay=0.01, foreach=False)
generator = torch.Generator().manual_seed(73)
for step in range(3):
    ids, known, answers = dialogues(generator)
    logits = model(ids, attention_mask=known.long()).logits[:, :-1].float()
    sizes = logits.logsumexp(-1)
    right = logits.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    lost = sizes - right + 1e-2 * sizes.square()
    loss = (lost * answers[:, 1:]).sum() / answers[:, 1:].sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
