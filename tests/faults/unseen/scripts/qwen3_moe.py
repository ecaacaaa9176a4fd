# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Qwen3-MoE from a configuration."""

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

DTYPE = torch.float32
ATTENTION, EXPERTS = "eager", "eager"

torch.set_num_threads(1)
torch.manual_seed(15)
config = Qwen3MoeConfig(
    vocab_size=96,
    hidden_size=48,
    intermediate_size=96,
    moe_intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    num_experts=6,
    num_experts_per_tok=2,
    norm_topk_prob=True,
    output_router_logits=True,
    router_aux_loss_coef=0.05,
    max_position_embeddings=64,
    initializer_range=0.1,
    attn_implementation=ATTENTION,
    experts_implementation=EXPERTS,
)
model = Qwen3MoeForCausalLM(config).to(DTYPE).train()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, foreach=False)
generator = torch.Generator().manual_seed(81)
for step in range(3):
    ids = torch.randint(96, (3, 20), generator=generator)
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
