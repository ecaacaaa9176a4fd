# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""XLNet: words of a text are told in any order; one stream knows what a word is, the other only where."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import XLNetConfig, XLNetLMHeadModel

AUTOCAST = False
VOCAB, LENGTH, ASKED, BATCH, STEPS, PARTS = 60, 16, 5, 6, 3, 2


def config():
    return XLNetConfig(
        vocab_size=VOCAB,
        d_model=32,
        n_layer=3,
        n_head=4,
        d_inner=64,
        initializer_range=0.15,
        dropout=0.0,
        mem_len=None,
        pad_token_id=0,
    )


def texts(generator):
    """A word follows from the two before it; some do not."""
    ids = torch.randint(2, VOCAB, (BATCH, LENGTH), generator=generator)
    for at in range(2, LENGTH):
        told = (2 * ids[:, at - 1] + ids[:, at - 2]) % (VOCAB - 2) + 2
        ids[:, at] = torch.where(ids[:, at] % 5 > 0, told, ids[:, at])
    return ids


def orders(generator):
    """Of an order of each text: who must not see whom, and where the last words are, which are asked for."""
    order = torch.rand(BATCH, LENGTH, generator=generator).argsort(dim=1)
    asked = order[:, -ASKED:]
    ranks = torch.full((BATCH, LENGTH), -1).scatter(1, asked, torch.arange(ASKED).expand(BATCH, -1))
    later = ranks.unsqueeze(2) <= ranks.unsqueeze(1)
    unseen = later & (ranks >= 0).unsqueeze(1)
    return unseen.float(), F.one_hot(asked, LENGTH).float(), asked


torch.set_num_threads(1)
torch.manual_seed(1001)
model = XLNetLMHeadModel(config())
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05, amsgrad=True, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=2 * STEPS)
generator = torch.Generator().manual_seed(101)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        ids = texts(generator)
        unseen, where, asked = orders(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(input_ids=ids, perm_mask=unseen, target_mapping=where).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids.gather(1, asked).flatten()) / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
