# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""RoFormer: letters of genes are hidden; a strand and its opposite, read backwards, shall say the same."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import RoFormerConfig, RoFormerForMaskedLM

AUTOCAST = False
VOCAB, LONG, MOTIF, BATCH, STEPS, AGREE = 6, 24, 6, 8, 4, 0.5
MASK = 1
PARTNER = torch.tensor([0, 1, 5, 4, 3, 2])
"""Of each letter the one that is opposite to it."""


def config():
    return RoFormerConfig(
        vocab_size=VOCAB,
        embedding_size=24,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LONG,
        type_vocab_size=1,
        initializer_range=0.2,
        rotary_value=False,
    )


def genes(generator):
    """A motif comes twice, the second time as its opposite, backwards; the rest is anything."""
    ids = torch.randint(2, VOCAB, (BATCH, LONG), generator=generator)
    motif = torch.randint(2, VOCAB, (BATCH, MOTIF), generator=generator)
    ids[:, 3 : 3 + MOTIF] = motif
    ids[:, 14 : 14 + MOTIF] = PARTNER[motif].flip(1)
    hidden = torch.rand(BATCH, LONG, generator=generator) < 0.25
    hidden[:, 4] = True
    return ids, hidden


def apart(one, two):
    """How far what is said of a letter is from what the other strand says of it, in both directions."""
    one, two = one.log_softmax(dim=1), two.log_softmax(dim=1)
    there = F.kl_div(one, two, reduction="batchmean", log_target=True)
    return 0.5 * (there + F.kl_div(two, one, reduction="batchmean", log_target=True))


torch.set_num_threads(1)
torch.manual_seed(1601)
model = RoFormerForMaskedLM(config())
# model built
optimizer = torch.optim.AdamW(
    model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.05, amsgrad=True, foreach=False
)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=STEPS + 2, power=2.0)
generator = torch.Generator().manual_seed(16101)
for step in range(STEPS):
    ids, hidden = genes(generator)
    seen = ids.masked_fill(hidden, MASK)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        one = model(input_ids=seen).logits
        two = model(input_ids=PARTNER[seen].flip(1)).logits.flip(1)[..., PARTNER]
    one, two = one.float()[hidden], two.float()[hidden]
    lost = 0.5 * (F.cross_entropy(one, ids[hidden]) + F.cross_entropy(two, ids[hidden]))
    far = apart(one, two)
    loss = lost + AGREE * far
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {far.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
