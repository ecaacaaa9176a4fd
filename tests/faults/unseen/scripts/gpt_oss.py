# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""gpt-oss: heads may look nowhere, every second layer looks near, experts are few of many; packed texts."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import GptOssConfig, GptOssForCausalLM

DTYPE = torch.float32
VOCAB, LENGTH, END, STEPS, WARM = 64, 24, 1, 3, 2
AUX, DRIFT = 0.02, 1e-3


def config():
    return GptOssConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
        initializer_range=0.1,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        max_position_embeddings=64,
        output_router_logits=True,
        use_cache=False,
        attn_implementation="eager",
    )


def packed(generator):
    """Rows of texts, one after the other; in each a word follows from the two before it."""
    ids = torch.randint(2, VOCAB, (6, LENGTH), generator=generator)
    for at in range(2, LENGTH):
        told = (ids[:, at - 1] + ids[:, at - 2]) % (VOCAB - 2) + 2
        ids[:, at] = torch.where(ids[:, at] % 3 > 0, told, ids[:, at])
    ids[torch.rand(ids.shape, generator=generator) < 0.12] = END
    return ids


def balance(router_logits):
    """How unevenly words go to experts: the share that is sent times the mean of what is thought of it."""
    total = 0.0
    for logits in router_logits:
        shares = logits.float().softmax(dim=-1)
        sent = F.one_hot(logits.topk(2, dim=-1).indices, shares.shape[-1]).sum(1).float()
        total = total + shares.shape[-1] * (sent.mean(0) * shares.mean(0)).sum()
    return total / len(router_logits)


torch.set_num_threads(1)
torch.manual_seed(801)
model = GptOssForCausalLM(config()).to(DTYPE)
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM))
generator = torch.Generator().manual_seed(81)
for step in range(STEPS):
    ids = packed(generator)
    found = model(input_ids=ids)
    logits = found.logits[:, :-1].float()
    lost = F.cross_entropy(logits.mT, ids[:, 1:], reduction="none")
    counts = ids[:, :-1] != END
    drift = logits.logsumexp(-1).square()
    loss = ((lost + DRIFT * drift) * counts).sum() / counts.sum() + AUX * balance(found.router_logits)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
