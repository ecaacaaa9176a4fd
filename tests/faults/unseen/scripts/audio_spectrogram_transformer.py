# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Audio Spectrogram Transformer: several noises of a street at once; two sounds are mixed, stripes are
blanked, and deeper layers learn faster.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import ASTConfig, ASTForAudioClassification

AUTOCAST = False
TIMES, BANDS, PATCH, KINDS, BATCH, STEPS, FADES, RARE = 20, 12, 4, 5, 8, 4, 0.7, 2.5


def config():
    return ASTConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.15,
        patch_size=PATCH,
        frequency_stride=4,
        time_stride=2,
        max_length=TIMES,
        num_mel_bins=BANDS,
        num_labels=KINDS,
        attn_implementation="eager",
    )


def streets(generator):
    """Each kind of noise has bands and a rhythm of its own."""
    there = (torch.rand(BATCH, KINDS, generator=generator) < 0.35).float()
    bands = (-(torch.arange(BANDS) - 2.4 * torch.arange(KINDS).unsqueeze(1)).square() / 3).exp()
    begins = 6.28 * torch.rand(BATCH, KINDS, 1, generator=generator)
    beats = 1 + torch.sin((0.3 + 0.4 * torch.arange(KINDS).unsqueeze(1)) * torch.arange(TIMES) + begins)
    power = torch.einsum("bk,bkt,kf->btf", there, beats, bands)
    hiss = torch.rand(BATCH, TIMES, BANDS, generator=generator)
    return power + 0.1 * hiss, there


def blanked(x, generator):
    """One stripe of time and one of bands is what is usual."""
    time = torch.randint(0, TIMES - 4, (BATCH, 1), generator=generator)
    band = torch.randint(0, BANDS - 2, (BATCH, 1), generator=generator)
    at, of = torch.arange(TIMES), torch.arange(BANDS)
    times = (at >= time) & (at < time + 4)
    bands = (of >= band) & (of < band + 2)
    return x.masked_fill(times.unsqueeze(2) | bands.unsqueeze(1), 0.0)


def groups_of(model, lr):
    """Embeddings, layers and the head, from slow to fast; biases and norms do not shrink."""
    layers = model.config.num_hidden_layers
    groups = {}
    for name, p in model.named_parameters():
        depth = layers + 1
        if "embeddings" in name:
            depth = 0
        elif ".layers." in name or ".layer." in name:
            depth = 1 + int(next(part for part in name.split(".") if part.isdigit()))
        decay = 0.05 if p.ndim > 1 else 0.0
        group = groups.setdefault((depth, decay), {"params": [], "weight_decay": decay})
        group["lr"] = lr * FADES ** (layers + 1 - depth)
        group["params"].append(p)
    return [groups[key] for key in sorted(groups)]


torch.set_num_threads(1)
torch.manual_seed(1603)
model = ASTForAudioClassification(config())
# model built
optimizer = torch.optim.AdamW(groups_of(model, 8e-3), betas=(0.9, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 2))
generator = torch.Generator().manual_seed(16103)
for step in range(STEPS):
    power, there = streets(generator)
    share = 0.5 + 0.5 * torch.rand(BATCH, 1, 1, generator=generator)
    power = share * power + (1 - share) * power.roll(1, dims=0)
    there = torch.maximum(there, there.roll(1, dims=0))
    x = (power + 1e-2).log()
    x = blanked((x - x.mean()) / (2 * x.std()), generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(input_values=x).logits.float()
    loss = F.binary_cross_entropy_with_logits(logits, there, pos_weight=torch.full((KINDS,), RARE))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
