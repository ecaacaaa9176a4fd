# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""LayoutLM: words and their places on a page; deeper layers learn slower, rare kinds of fields count more."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import LayoutLMConfig, LayoutLMForTokenClassification

AUTOCAST = False
ATTENTION = "eager"
VOCAB, KINDS, LENGTH, GRID, LAYERS, SLOWER = 80, 5, 20, 101, 3, 0.7


def config():
    return LayoutLMConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LENGTH,
        max_2d_position_embeddings=GRID,
        initializer_range=0.1,
        pad_token_id=0,
        num_labels=KINDS,
        attn_implementation=ATTENTION,
    )


def pages(generator):
    """What a word is depends on itself and on where it stands; parts of it after the first do not count."""
    ids = torch.randint(1, VOCAB, (6, LENGTH), generator=generator)
    width, height = (torch.randint(600, 1200, (6, 1), generator=generator) for _ in range(2))
    left = torch.rand(6, LENGTH, generator=generator) * (width - 100)
    top = torch.rand(6, LENGTH, generator=generator) * (height - 40)
    long = 20 + 80 * torch.rand(6, LENGTH, generator=generator)
    x = torch.stack([left, left + long], -1) / width.unsqueeze(-1)
    y = torch.stack([top, top + 30.0], -1) / height.unsqueeze(-1)
    boxes = (torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], -1) * (GRID - 1)).long()
    sizes = torch.randint(12, LENGTH + 1, (6, 1), generator=generator)
    known = torch.arange(LENGTH) < sizes
    kinds = (ids % 2 + 2 * (boxes[..., 1] > 50) + (boxes[..., 0] > 66)) % KINDS
    kinds = kinds.masked_fill(~known | (torch.rand(6, LENGTH, generator=generator) < 0.2), -100)
    return ids * known, boxes * known.unsqueeze(-1), known.long(), kinds


def groups_of(model):
    """The head learns at the full rate, each layer below slower than the one above it."""
    depths = {"classifier": LAYERS + 1, "layoutlm.embeddings": 0}
    depths |= {f"layoutlm.encoder.layer.{n}": n + 1 for n in range(LAYERS)}
    return [
        {"params": list(model.get_submodule(name).parameters()), "lr": 4e-3 * SLOWER ** (LAYERS + 1 - depth)}
        for name, depth in depths.items()
    ]


torch.set_num_threads(1)
torch.manual_seed(802)
model = LayoutLMForTokenClassification(config())
# model built
optimizer = torch.optim.AdamW(groups_of(model), weight_decay=0.01, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=5)
weights = torch.tensor([1.0, 1.0, 2.0, 2.0, 4.0])
generator = torch.Generator().manual_seed(82)
for step in range(3):
    ids, boxes, known, kinds = pages(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(input_ids=ids, bbox=boxes, attention_mask=known).logits
    loss = F.cross_entropy(logits.float().flatten(0, 1), kinds.flatten(), weight=weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
