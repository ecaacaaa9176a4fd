# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ELECTRA: a small model fills in hidden words, a larger one finds which are not the true ones."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

AUTOCAST = False
ATTENTION = "eager"
VOCAB, HIDDEN_WORD, WEIGHT = 70, 3, 50.0


def config(width, layers):
    return ElectraConfig(
        vocab_size=VOCAB,
        embedding_size=24,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
        attn_implementation=ATTENTION,
    )


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = ElectraForMaskedLM(config(16, 1))
        self.discriminator = ElectraForPreTraining(config(32, 2))
        self.discriminator.electra.embeddings = self.generator.electra.embeddings

    def forward(self, ids, inside, is_hidden, gumbel):
        attention = inside.long()
        logits = self.generator(
            ids.masked_fill(is_hidden, HIDDEN_WORD), attention_mask=attention
        ).logits.float()
        with torch.no_grad():
            sampled = (logits + gumbel).argmax(-1)
        corrupted = torch.where(is_hidden, sampled, ids)
        is_replaced = corrupted != ids
        found = self.discriminator(corrupted, attention_mask=attention).logits.float()
        filled = F.cross_entropy(logits[is_hidden], ids[is_hidden])
        detected = F.binary_cross_entropy_with_logits(found[inside], is_replaced[inside].float())
        return filled, detected


def layer_rates(model, lr=1e-3, decay=0.8):
    """The further down a layer is, the less it learns."""
    depth = len(model.discriminator.electra.encoder.layer) + 1
    groups = {}
    for name, p in model.named_parameters():
        level = depth if "prediction" in name or "generator_lm" in name else 0
        if ".layer." in name:
            level = int(name.split(".layer.")[1].split(".")[0]) + 1
        groups.setdefault(level, []).append(p)
    return [{"params": params, "lr": lr * decay ** (depth - level)} for level, params in groups.items()]


torch.set_num_threads(1)
torch.manual_seed(513)
model = Pair()
# model built
optimizer = torch.optim.AdamW(layer_rates(model), eps=1e-6, weight_decay=0.01, foreach=False)
generator = torch.Generator().manual_seed(13)
for step in range(3):
    ids = torch.randint(4, VOCAB, (4, 16), generator=generator)
    inside = torch.arange(16) < torch.tensor([16, 11, 14, 16])[:, None]
    is_hidden = (torch.rand(4, 16, generator=generator) < 0.4) & inside
    gumbel = -torch.log(-torch.log(torch.rand(4, 16, VOCAB, generator=generator)))
    gumbel += 6 * F.one_hot(ids, VOCAB) * (torch.rand(4, 16, 1, generator=generator) < 0.5)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        filled, detected = model(ids * inside, inside, is_hidden, gumbel)
    loss = filled + WEIGHT * detected
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {filled.item()!r} {detected.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
