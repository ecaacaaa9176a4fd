# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""DiffLlama: what one half of the heads looks at less what the other does; answers that end a noisy text."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import DiffLlamaConfig, DiffLlamaForCausalLM

DTYPE = torch.float32
VOCAB, KEYS, PAIRS, LENGTH, BATCH, STEPS, PARTS, DRIFT = 40, 12, 5, 24, 4, 3, 2, 1e-3


def config():
    return DiffLlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        initializer_range=0.15,
        lambda_std_dev=0.3,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )


def recalls(generator):
    """Pairs of a key and a value among noise; then every key once more, in another order, and its value."""
    ids = torch.randint(2 * KEYS, VOCAB, (BATCH, LENGTH), generator=generator)
    keys = torch.rand(BATCH, KEYS, generator=generator).argsort(dim=1)[:, :PAIRS]
    values = KEYS + torch.randint(0, KEYS, (BATCH, PAIRS), generator=generator)
    room = LENGTH - 2 * PAIRS
    at = 2 * torch.rand(BATCH, room // 2, generator=generator).argsort(dim=1)[:, :PAIRS]
    ids.scatter_(1, at, keys).scatter_(1, at + 1, values)
    order = torch.rand(BATCH, PAIRS, generator=generator).argsort(dim=1)
    asked = torch.stack([keys.gather(1, order), values.gather(1, order)], dim=2).flatten(1)
    ids[:, room:] = asked
    counts = torch.zeros(BATCH, LENGTH)
    counts[:, room + 1 :: 2] = 1.0
    return ids, counts


def judged(logits, ids, counts):
    """The values that are asked for; all else counts a little."""
    logits, wanted = logits[:, :-1].float(), ids[:, 1:]
    weights = 0.1 + 0.9 * counts[:, 1:]
    wrong = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none").view_as(weights)
    drift = logits.logsumexp(dim=-1).square()
    return (weights * (wrong + DRIFT * drift)).sum() / weights.sum()


torch.set_num_threads(1)
torch.manual_seed(1113)
model = DiffLlamaForCausalLM(config()).to(DTYPE)
# model built
apart = [p for name, p in model.named_parameters() if "lambda" in name or p.ndim < 2]
rest = [p for p in model.parameters() if not any(p is other for other in apart)]
optimizer = torch.optim.AdamW(
    [{"params": rest}, {"params": apart, "weight_decay": 0.0, "lr": 1e-2}],
    lr=3e-3,
    betas=(0.9, 0.95),
    weight_decay=0.1,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 2, 1 - step / 8))
generator = torch.Generator().manual_seed(1213)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        ids, counts = recalls(generator)
        loss = judged(model(input_ids=ids, use_cache=False).logits, ids, counts) / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
