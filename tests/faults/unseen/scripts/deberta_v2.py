# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""DeBERTa: names in texts; words and places look at each other; two dropouts of one text shall agree."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import DebertaV2Config, DebertaV2ForTokenClassification

DTYPE = torch.float32
VOCAB, PAD, KINDS, LR, DECAY, ALPHA = 70, 0, 5, 2e-3, 0.8, 0.5


def config():
    return DebertaV2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        relative_attention=True,
        max_relative_positions=16,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        type_vocab_size=0,
        max_position_embeddings=32,
        initializer_range=0.1,
        num_labels=KINDS,
    )


def texts(generator):
    ids = torch.randint(1, VOCAB, (6, 16), generator=generator)
    sizes = torch.randint(8, 17, (6, 1), generator=generator)
    inside = torch.arange(16) < sizes
    wanted = (ids + F.pad(ids, (1, 0))[:, :-1]) % KINDS
    return ids.masked_fill(~inside, PAD), inside, wanted


def groups_of(model):
    """Layers near the words learn more slowly."""
    layers = len(model.deberta.encoder.layer)
    rates = {}
    for name, p in model.named_parameters():
        depth = layers + 1
        if name.startswith("deberta.encoder.layer."):
            depth = int(name.split(".")[3]) + 1
        elif name.startswith("deberta."):
            depth = 0
        rates.setdefault(depth, []).append(p)
    return [{"params": ps, "lr": LR * DECAY ** (layers + 1 - depth)} for depth, ps in rates.items()]


def apart(ours, theirs):
    return F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


torch.set_num_threads(1)
torch.manual_seed(704)
model = DebertaV2ForTokenClassification(config()).to(DTYPE)
# model built
model.train()
optimizer = torch.optim.AdamW(groups_of(model), eps=1e-6, foreach=False)
generator = torch.Generator().manual_seed(74)
for step in range(3):
    ids, inside, wanted = texts(generator)
    logits = model(ids.repeat(2, 1), attention_mask=inside.repeat(2, 1).long()).logits.float()
    first, second = (part[inside].log_softmax(-1) for part in logits.chunk(2))
    right = (F.nll_loss(first, wanted[inside]) + F.nll_loss(second, wanted[inside])) / 2
    loss = right + ALPHA * (apart(first, second) + apart(second, first)) / 2
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
