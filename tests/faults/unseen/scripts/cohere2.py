# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cohere2: attention and MLP side by side; windows that turn, whole texts that do not; answers count."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import Cohere2Config, Cohere2ForCausalLM

DTYPE = torch.float32
VOCAB, LENGTH, ASKED, BATCH, PARTS, STEPS, SURE = 40, 16, 5, 4, 2, 4, 1e-3


def config():
    return Cohere2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=56,
        logit_scale=0.25,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=4,
        layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
        max_position_embeddings=LENGTH,
        initializer_range=0.15,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        attn_implementation="eager",
    )


def talks(generator):
    """A question of some words, and its words again, each moved on by the first; some end early."""
    asked = torch.randint(4, VOCAB, (BATCH, ASKED), generator=generator)
    long = torch.randint(ASKED - 1, LENGTH - ASKED, (BATCH,), generator=generator)
    at = torch.arange(LENGTH - ASKED) % ASKED
    said = 4 + (asked[:, at] + asked[:, :1]) % (VOCAB - 4)
    real = torch.arange(LENGTH - ASKED) < long.unsqueeze(1)
    ids = torch.cat([asked, said.masked_fill(~real, 0)], dim=1)
    shown = torch.cat([torch.ones(BATCH, ASKED, dtype=torch.bool), real], dim=1)
    wanted = ids.masked_fill(~shown, -100)
    wanted[:, :ASKED] = -100
    return ids, shown.long(), wanted


def wrong(model, ids, shown, wanted, count):
    """Mean over all words that are answered, of all parts; scores shall not get large."""
    logits = model(input_ids=ids, attention_mask=shown, use_cache=False).logits.float()[:, :-1]
    wanted = wanted[:, 1:]
    lost = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="sum")
    large = logits.logsumexp(dim=-1).square() * (wanted != -100)
    return (lost + SURE * large.sum()) / count


torch.set_num_threads(1)
torch.manual_seed(1304)
model = Cohere2ForCausalLM(config()).to(DTYPE)
# model built
optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3, betas=(0.9, 0.97), foreach=False)
warm = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.3, total_iters=1)
falls = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8, eta_min=4e-4)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, falls], milestones=[1])
generator = torch.Generator().manual_seed(13104)
for step in range(STEPS):
    parts = [talks(generator) for _ in range(PARTS)]
    count = sum(int((wanted != -100).sum()) for _, _, wanted in parts)
    optimizer.zero_grad()
    total = 0.0
    for ids, shown, wanted in parts:
        loss = wrong(model, ids, shown, wanted, count)
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
