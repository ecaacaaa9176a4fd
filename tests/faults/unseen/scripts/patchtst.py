# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PatchTST: a series is cut into overlapping patches; some values are missing; each epoch ends by a look."""

import torch
from torch import nn
from transformers import PatchTSTConfig, PatchTSTForPrediction

AUTOCAST = False
ATTENTION = "eager"
PAST, AHEAD, SERIES = 32, 8, 3


def config():
    return PatchTSTConfig(
        num_input_channels=SERIES,
        context_length=PAST,
        prediction_length=AHEAD,
        patch_length=8,
        patch_stride=4,
        d_model=24,
        num_attention_heads=4,
        num_hidden_layers=2,
        ffn_dim=32,
        scaling="std",
        loss="mse",
        attention_dropout=0.0,
        ff_dropout=0.0,
        attn_implementation=ATTENTION,
    )


def batch_of(generator):
    times = torch.arange(PAST + AHEAD) + torch.randint(50, (8, 1), generator=generator)
    waves = torch.stack([(times / period).sin() for period in (2.0, 3.5, 6.0)], dim=-1)
    waves = waves * (1 + torch.rand(8, 1, SERIES, generator=generator))
    waves = waves + 0.1 * torch.randn(waves.shape, generator=generator) + 0.02 * times.unsqueeze(-1)
    seen = torch.rand(8, PAST, SERIES, generator=generator) > 0.1
    return waves[:, :PAST] * seen, seen, waves[:, PAST:]


def loss_of(model, past, seen, wanted):
    """What is far ahead counts for less."""
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        ahead = model(past_values=past, past_observed_mask=seen).prediction_outputs
    weights = 0.9 ** torch.arange(AHEAD).unsqueeze(-1)
    return ((ahead.float() - wanted).square() * weights).sum((1, 2)).mean() / (SERIES * weights.sum())


torch.set_num_threads(1)
torch.manual_seed(701)
model = PatchTSTForPrediction(config())
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=8)
generator = torch.Generator().manual_seed(71)
held_back = batch_of(generator)
for epoch in range(2):
    model.train()
    for step in range(2):
        loss = loss_of(model, *batch_of(generator))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 4.0)
        optimizer.step()
        schedule.step()
        print(f"step {2 * epoch + step} loss {loss.item()!r}")
    model.eval()
    with torch.no_grad():
        print(f"step {2 * epoch + 1}.5 loss {loss_of(model, *held_back).item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
