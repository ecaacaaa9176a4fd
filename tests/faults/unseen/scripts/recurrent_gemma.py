# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""RecurrentGemma: gated linear recurrences and attention that looks near; several texts share a row."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

DTYPE = torch.float32
ATTENTION = "eager"
VOCAB, LENGTH, TEXTS, BATCH, STEPS = 60, 24, 3, 5, 4


def config():
    return RecurrentGemmaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        lru_width=32,
        attention_window_size=8,
        conv1d_width=4,
        logits_soft_cap=12.0,
        w_init_variance_scale=1.0,
        use_cache=False,
        attn_implementation=ATTENTION,
    )


def rows(generator):
    """Texts one after the other; each counts on by a number of its own, and its places begin anew."""
    begins = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    cuts = 1 + torch.rand(BATCH, LENGTH - 1, generator=generator).argsort(dim=1)[:, : TEXTS - 1]
    begins.scatter_(1, cuts, cuts)
    begins = begins.cummax(dim=1).values
    at = torch.arange(LENGTH) - begins
    first, by = (torch.randint(1, 12, (BATCH, LENGTH), generator=generator) for _ in range(2))
    ids = (first.gather(1, begins) + by.gather(1, begins) * at) % (VOCAB - 3) + 3
    return ids, at


torch.set_num_threads(1)
torch.manual_seed(1002)
model = RecurrentGemmaForCausalLM(config()).to(DTYPE)
# model built
slow = [p for name, p in model.named_parameters() if "recurrent_param" in name]
rest = [p for name, p in model.named_parameters() if "recurrent_param" not in name]
groups = [{"params": rest, "weight_decay": 0.1}, {"params": slow, "lr": 5e-4, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3, eta_min=1e-4)
generator = torch.Generator().manual_seed(102)
for step in range(STEPS):
    ids, at = rows(generator)
    logits = model(input_ids=ids, position_ids=at).logits[:, :-1].float()
    wanted = ids[:, 1:].masked_fill(at[:, 1:] == 0, -100)
    loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
