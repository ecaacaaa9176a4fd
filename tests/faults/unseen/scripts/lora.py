# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A frozen GPT-NeoX learns by small updates of low rank, whose two sides have rates of their own."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

DTYPE = torch.float32
ATTENTION = "eager"
RANK, ALPHA, LR = 4, 8, 2e-3


class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.b = nn.Parameter(torch.randn(base.out_features, RANK) * 0.02)
        self.scaling = ALPHA / RANK

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.a), self.b) * self.scaling


def adapt(model, names=("query_key_value", "dense", "dense_h_to_4h")):
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names:
                setattr(module, name, LoRA(child))
    return model


torch.set_num_threads(1)
torch.manual_seed(503)
config = GPTNeoXConfig(
    vocab_size=80,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
    initializer_range=0.15,
    bos_token_id=1,
    eos_token_id=2,
    attn_implementation=ATTENTION,
)
model = adapt(GPTNeoXForCausalLM(config)).to(DTYPE).train()
# model built
named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
groups = [
    {"params": [p for name, p in named if name.endswith(".a")], "lr": LR},
    {"params": [p for name, p in named if name.endswith(".b")], "lr": 16 * LR},
]
optimizer = torch.optim.AdamW(groups, weight_decay=0.0, foreach=False)
generator = torch.Generator().manual_seed(3)
for step in range(3):
    ids = torch.randint(3, 80, (4, 14), generator=generator)
    padding = torch.arange(14) >= torch.tensor([14, 10, 12, 7])[:, None]
    labels = ids.masked_fill(padding, -100)
    loss = model(input_ids=ids, attention_mask=(~padding).long(), labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for _, p in named))
