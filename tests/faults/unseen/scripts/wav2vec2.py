# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""wav2vec 2.0: hidden stretches of sound are told from others of the same sound, by codes that are learnt."""

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining

AUTOCAST = False
ATTENTION = "eager"
NEGATIVES, START, DECAY, LEAST = 6, 2.0, 0.8, 0.5


def config():
    return Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16, 24),
        conv_kernel=(6, 3, 3),
        conv_stride=(4, 2, 2),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        num_codevectors_per_group=8,
        num_codevector_groups=2,
        codevector_dim=16,
        proj_codevector_dim=16,
        num_negatives=NEGATIVES,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        feat_quantizer_dropout=0.0,
        layerdrop=0.0,
        initializer_range=0.1,
        attn_implementation=ATTENTION,
    )


def sounds(generator):
    times = torch.arange(640) / 640
    pitch = 10 + 60 * torch.rand(4, 3, 1, generator=generator)
    waves = torch.sin(2 * torch.pi * pitch * times).sum(1) + 0.3 * torch.randn(4, 640, generator=generator)
    return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)


def stretches(rows, length, generator):
    """Each beginning hides three places."""
    begins = torch.rand(rows, length, generator=generator) < 0.15
    begins[:, 4] = True
    return begins | begins.roll(1, 1) | begins.roll(2, 1)


def negatives(inside, generator):
    """For each hidden place others that are hidden in the same sound, by their number in the whole batch."""
    found = torch.zeros(*inside.shape, NEGATIVES, dtype=torch.long)
    for row, places in enumerate(inside):
        at = places.nonzero().squeeze(1)
        other = torch.randint(len(at) - 1, (len(at), NEGATIVES), generator=generator)
        other += other >= torch.arange(len(at))[:, None]
        found[row, at] = at[other] + row * inside.shape[1]
    return found


torch.set_num_threads(1)
torch.manual_seed(604)
model = Wav2Vec2ForPreTraining(config())
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-6, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=20)
generator = torch.Generator().manual_seed(64)
for step in range(3):
    waves = sounds(generator)
    length = int(model._get_feat_extract_output_lengths(waves.shape[1]))
    inside = stretches(len(waves), length, generator)
    model.set_gumbel_temperature(max(START * DECAY**step, LEAST))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        out = model(waves, mask_time_indices=inside, sampled_negative_indices=negatives(inside, generator))
    loss = out.loss / inside.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {out.codevector_perplexity.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
