# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PatchTSMixer: what several meters show next; pieces, features and meters are mixed, and hours far off count
less.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import PatchTSMixerConfig, PatchTSMixerForPrediction

AUTOCAST = False
PAST, LATER, METERS, BATCH, STEPS, FADES, BEND = 32, 8, 4, 8, 4, 0.9, 0.5


def config():
    return PatchTSMixerConfig(
        context_length=PAST,
        prediction_length=LATER,
        patch_length=8,
        patch_stride=4,
        num_input_channels=METERS,
        d_model=12,
        expansion_factor=2,
        num_layers=2,
        mode="mix_channel",
        gated_attn=True,
        self_attn=True,
        self_attn_heads=3,
        use_positional_encoding=True,
        norm_mlp="LayerNorm",
        scaling="std",
        dropout=0.0,
        head_dropout=0.0,
        init_std=0.2,
        attn_implementation="eager",
    )


def meters(generator):
    """Days and weeks, as strong as each meter is large; one of them shows what another showed before."""
    at = torch.arange(PAST + LATER).unsqueeze(1)
    shift = 6.28 * torch.rand(BATCH, 1, METERS, generator=generator)
    x = torch.sin(0.8 * at + shift) + 0.5 * torch.sin(0.25 * at + 2 * shift)
    x = x + 0.1 * torch.randn(x.shape, generator=generator)
    x[:, 3:, 1] = 0.5 * x[:, 3:, 1] + 0.5 * x[:, :-3, 0]
    x = (1 + torch.arange(METERS)) * x + 2 * torch.randn(BATCH, 1, METERS, generator=generator)
    missing = torch.rand(BATCH, PAST, METERS, generator=generator) < 0.1
    return x[:, :PAST].masked_fill(missing, 0.0), ~missing, x[:, PAST:]


torch.set_num_threads(1)
torch.manual_seed(1602)
model = PatchTSMixerForPrediction(config())
# model built
optimizer = torch.optim.Adamax(
    model.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=1e-3, foreach=False
)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
often = FADES ** torch.arange(LATER)
often = often / often.mean()
generator = torch.Generator().manual_seed(16102)
for step in range(STEPS):
    x, seen, later = meters(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(past_values=x, observed_mask=seen)
    far = (found.prediction_outputs.float() - later) / found.scale.float()
    lost = F.huber_loss(far, torch.zeros_like(far), reduction="none", delta=BEND)
    loss = (lost * often.view(1, LATER, 1)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
