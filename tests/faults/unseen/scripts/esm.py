# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ESM: residues of proteins of several lengths are hidden, and what is hidden is made up for in the rest."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import EsmConfig, EsmForMaskedLM

AUTOCAST = False
ATTENTION = "eager"
BEGIN, PAD, END, MASK, FIRST, VOCAB, LONG, PARTS, STEPS = 0, 1, 2, 3, 4, 24, 22, 2, 3


def config():
    return EsmConfig(
        vocab_size=VOCAB,
        mask_token_id=MASK,
        pad_token_id=PAD,
        hidden_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=80,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=40,
        initializer_range=0.1,
        position_embedding_type="rotary",
        token_dropout=True,
        attn_implementation=ATTENTION,
    )


def proteins(generator):
    """Helices: each residue resembles the one four before it."""
    ids = torch.randint(FIRST, VOCAB, (8, LONG), generator=generator)
    for at in range(5, LONG):
        alike = (ids[:, at - 4] + 3) % (VOCAB - FIRST) + FIRST
        ids[:, at] = torch.where(ids[:, at] % 3 > 0, alike, ids[:, at])
    sizes = torch.randint(12, LONG, (8, 1), generator=generator)
    at = torch.arange(LONG)
    ids = ids.masked_fill(at > sizes, PAD).masked_fill(at == sizes, END)
    ids[:, 0] = BEGIN
    return ids


def hidden(ids, generator):
    asked = (torch.rand(ids.shape, generator=generator) < 0.15) & (ids >= FIRST)
    kind = torch.rand(ids.shape, generator=generator)
    wrong = torch.randint(FIRST, VOCAB, ids.shape, generator=generator)
    shown = torch.where(asked & (kind < 0.8), MASK, ids)
    return torch.where(asked & (kind > 0.9), wrong, shown), asked


torch.set_num_threads(1)
torch.manual_seed(904)
model = EsmForMaskedLM(config())
# model built
optimizer = torch.optim.NAdam(
    model.parameters(), lr=2e-3, weight_decay=0.01, decoupled_weight_decay=True, foreach=False
)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
generator = torch.Generator().manual_seed(94)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        ids = proteins(generator)
        shown, asked = hidden(ids, generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(input_ids=shown, attention_mask=(ids != PAD).long()).logits
        lost = F.cross_entropy(logits.float().mT, ids, reduction="none")
        loss = (lost * asked).sum() / asked.sum() / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
