# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""CLIP from a configuration: pictures and texts that belong together."""

import torch
from transformers import CLIPConfig, CLIPModel

DTYPE = torch.float32
ATTENTION = "eager"

torch.set_num_threads(1)
torch.manual_seed(6)
both = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
config = CLIPConfig(
    text_config={
        **both,
        "vocab_size": 80,
        "max_position_embeddings": 16,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "initializer_factor": 4.0,
    },
    vision_config={**both, "image_size": 16, "patch_size": 4, "initializer_factor": 4.0},
    projection_dim=32,
    attn_implementation=ATTENTION,
)
model = CLIPModel(config).to(DTYPE).train()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, foreach=False)
generator = torch.Generator().manual_seed(31)
lengths = torch.tensor([10, 12, 7, 9, 12, 5])
for step in range(3):
    pictures = torch.randn(6, 3, 16, 16, generator=generator).to(DTYPE)
    ids = torch.randint(3, 80, (6, 12), generator=generator)
    mask = (torch.arange(12)[None] < lengths[:, None]).long()
    ids[torch.arange(6), lengths - 1] = 2
    ids = ids * mask
    out = model(input_ids=ids, pixel_values=pictures, attention_mask=mask, return_loss=True)
    loss = out.loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6)
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
