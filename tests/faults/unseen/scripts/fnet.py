# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""FNet: words are mixed by a Fourier transform; hidden words, and whether one sentence follows another."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import FNetConfig, FNetForPreTraining

AUTOCAST = False
VOCAB, BEGIN, SEP, PAD, MASK, FIRST, HALF, STEPS = 64, 0, 1, 3, 4, 5, 11, 4


def config():
    return FNetConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=3,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        max_position_embeddings=2 * HALF + 2,
        type_vocab_size=2,
        initializer_range=0.1,
        pad_token_id=PAD,
    )


def pairs(generator):
    """Sentences count up by a number of their own; the second goes on with it, or has another one."""
    count = VOCAB - FIRST
    begin, by, other = (torch.randint(1, 9, (16, 1), generator=generator) for _ in range(3))
    follows = torch.rand(16, 1, generator=generator) < 0.5
    at = torch.arange(HALF)
    one = (begin + by * at) % count + FIRST
    two = (begin + torch.where(follows, by, other + by) * (at + HALF)) % count + FIRST
    begins, ends = torch.full((16, 1), BEGIN), torch.full((16, 1), SEP)
    kinds = torch.cat([torch.zeros(HALF + 1), torch.ones(HALF + 1)]).long().expand(16, -1)
    return torch.cat([begins, one, ends, two], dim=1), kinds, (~follows).long().squeeze(1)


def hidden(ids, generator):
    """Of the words that are asked for most are hidden, some are wrong, some are left as they are."""
    asked = (torch.rand(ids.shape, generator=generator) < 0.2) & (ids >= FIRST)
    kind = torch.rand(ids.shape, generator=generator)
    wrong = torch.randint(FIRST, VOCAB, ids.shape, generator=generator)
    shown = ids.masked_fill(asked & (kind < 0.8), MASK)
    shown = torch.where(asked & (kind >= 0.9), wrong, shown)
    return shown, ids.masked_fill(~asked, -100)


torch.set_num_threads(1)
torch.manual_seed(902)
model = FNetForPreTraining(config())
# model built
optimizer = torch.optim.RAdam(
    model.parameters(), lr=3e-3, weight_decay=0.01, decoupled_weight_decay=True, foreach=False
)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=8, power=1.5)
generator = torch.Generator().manual_seed(92)
for step in range(STEPS):
    ids, kinds, other = pairs(generator)
    shown, labels = hidden(ids, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(input_ids=shown, token_type_ids=kinds)
    words = F.cross_entropy(found.prediction_logits.float().flatten(0, 1), labels.flatten())
    order = F.cross_entropy(found.seq_relationship_logits.float(), other)
    loss = words + order
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
