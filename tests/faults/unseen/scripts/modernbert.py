# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ModernBERT: hidden words are found by long and short sight in turn; parts of a batch differ in size."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import ModernBertConfig, ModernBertForMaskedLM

DTYPE = torch.float32
ATTENTION = "eager"
VOCAB, PAD, HIDDEN, PARTS, TOTAL, WARM, COOL = 80, 0, 3, 2, 12, 2, 4


def config():
    return ModernBertConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=64,
        local_attention=6,
        initializer_range=0.1,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        attn_implementation=ATTENTION,
    )


def hidden(ids, generator):
    """Three of ten words are asked for: most are hidden, some are others, some stay as they are."""
    chosen = (torch.rand(ids.shape, generator=generator) < 0.3) & (ids > HIDDEN)
    kind = torch.rand(ids.shape, generator=generator)
    other = torch.randint(HIDDEN + 1, VOCAB, ids.shape, generator=generator)
    shown = ids.masked_fill(chosen & (kind < 0.8), HIDDEN)
    shown = torch.where(chosen & (kind >= 0.9), other, shown)
    return shown, ids.masked_fill(~chosen, -100)


def trapezoid(step):
    """Up, along, and down again."""
    return min(1.0, (step + 1) / WARM, (TOTAL - step) / COOL)


def texts(generator):
    ids = torch.randint(HIDDEN + 1, VOCAB, (8, 20), generator=generator)
    sizes = torch.randint(8, 21, (8, 1), generator=generator).sort(0).values
    return ids.masked_fill(torch.arange(20) >= sizes, PAD)


torch.set_num_threads(1)
torch.manual_seed(601)
model = ModernBertForMaskedLM(config()).to(DTYPE)
# model built
matrices = [p for p in model.parameters() if p.ndim > 1]
others = [p for p in model.parameters() if p.ndim <= 1]
groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.98), eps=1e-6, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, trapezoid)
generator = torch.Generator().manual_seed(61)
for step in range(3):
    ids, labels = hidden(texts(generator), generator)
    count = (labels != -100).sum()
    total = torch.zeros(())
    optimizer.zero_grad()
    for part, wanted in zip(ids.chunk(PARTS), labels.chunk(PARTS)):
        logits = model(part, attention_mask=(part != PAD).long()).logits
        loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="sum") / count
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
