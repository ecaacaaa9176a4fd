# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""LLaVA: a frozen eye, a bridge and a small Llama; questions about pictures, in parts of a batch."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

AUTOCAST = False
ATTENTION = "eager"
VOCAB, IMAGE, PATCHES, QUESTION, ANSWER, PARTS = 50, 49, 9, 4, 5, 2


def config():
    eye = CLIPVisionConfig(
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=12,
        patch_size=4,
        initializer_factor=4.0,
    )
    mind = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.1,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    return LlavaConfig(
        vision_config=eye,
        text_config=mind,
        image_token_index=IMAGE,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_seq_length=PATCHES,
        attn_implementation=ATTENTION,
    )


def asked(generator):
    """The answer is how bright places are, one after the other, and ends where the question says."""
    pixels = torch.randn(6, 3, 12, 12, generator=generator)
    bright = F.adaptive_avg_pool2d(pixels.mean(1), (1, ANSWER)).squeeze(1)
    answers = 20 + (bright * 20).round().long().clamp(-9, 9)
    questions = torch.randint(1, 10, (6, QUESTION), generator=generator)
    ids = torch.cat([torch.full((6, PATCHES), IMAGE), questions, answers], dim=1)
    sizes = questions[:, :1] % ANSWER + 1
    counts = F.pad(torch.arange(ANSWER) < sizes, (PATCHES + QUESTION, 0))
    return pixels, ids, counts


torch.set_num_threads(1)
torch.manual_seed(705)
model = LlavaForConditionalGeneration(config())
# model built
model.model.vision_tower.requires_grad_(False)
bridge, mind = model.model.multi_modal_projector, model.model.language_model
groups = [{"params": list(bridge.parameters()), "lr": 4e-3}, {"params": list(mind.parameters()), "lr": 1e-3}]
optimizer = torch.optim.RAdam(groups, betas=(0.9, 0.95), foreach=False)
generator = torch.Generator().manual_seed(75)
for step in range(3):
    optimizer.zero_grad()
    batch, total = asked(generator), 0.0
    for pixels, ids, counts in zip(*(part.chunk(PARTS) for part in batch)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(input_ids=ids, pixel_values=pixels).logits
        lost = F.cross_entropy(logits[:, :-1].float().mT, ids[:, 1:], reduction="none")
        counts = counts[:, 1:]
        loss = ((lost * counts).sum(1) / counts.sum(1)).mean() / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 1.0)
    optimizer.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
