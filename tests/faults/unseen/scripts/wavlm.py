# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""WavLM: who speaks, by layers that are weighed and numbers of a whole sound; the right one has a margin."""

import torch
from torch import nn
from transformers import WavLMConfig, WavLMForXVector

AUTOCAST = False
SAMPLES, PEOPLE, BATCH, STEPS, MIXED = 400, 6, 8, 4, 0.3


def config():
    return WavLMConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(16, 16, 24),
        conv_kernel=(8, 3, 3),
        conv_stride=(4, 2, 2),
        num_feat_extract_layers=3,
        feat_extract_norm="layer",
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        num_buckets=16,
        max_bucket_distance=20,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        apply_spec_augment=False,
        initializer_range=0.15,
        use_weighted_layer_sum=True,
        classifier_proj_size=16,
        tdnn_dim=(24, 24, 32),
        tdnn_kernel=(3, 3, 1),
        tdnn_dilation=(1, 2, 1),
        xvector_output_dim=16,
        num_labels=PEOPLE,
    )


def voices(generator):
    """Who has which pitch and colour, in a melody of any kind; a part of another voice is in some."""
    who = torch.randint(0, PEOPLE, (BATCH,), generator=generator)
    melody = torch.randn(BATCH, 8, generator=generator).repeat_interleave(SAMPLES // 8, dim=1)
    phase = ((0.15 + 0.06 * who.unsqueeze(1)) * (1 + 0.1 * melody)).cumsum(dim=1)
    colour = 0.3 + 0.1 * (who % 3).unsqueeze(1)
    x = torch.sin(phase) + colour * torch.sin(2 * phase) + colour**2 * torch.sin(3 * phase)
    mixed = (torch.rand(BATCH, 1, generator=generator) < 0.5).float()
    x = x + MIXED * mixed * x.roll(1, dims=0)
    x = x + 0.05 * torch.randn(x.shape, generator=generator)
    return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True), who


torch.set_num_threads(1)
torch.manual_seed(1605)
model = WavLMForXVector(config())
model.objective.margin, model.objective.scale = 0.2, 8.0
# model built
optimizer = torch.optim.SGD(
    model.parameters(), lr=2e-2, momentum=0.9, nesterov=True, weight_decay=1e-3, foreach=False
)
schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1e-2, max_lr=4e-2, step_size_up=2)
generator = torch.Generator().manual_seed(16105)
for step in range(STEPS):
    x, who = voices(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = model(input_values=x, labels=who).loss.float()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
