# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Whisper from a configuration: sound to text."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

DTYPE = torch.float32
ATTENTION = "eager"

torch.set_num_threads(1)
torch.manual_seed(5)
config = WhisperConfig(
    vocab_size=96,
    num_mel_bins=16,
    d_model=48,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=96,
    decoder_ffn_dim=96,
    max_source_positions=20,
    max_target_positions=24,
    init_std=0.1,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    attn_implementation=ATTENTION,
)
model = WhisperForConditionalGeneration(config).to(DTYPE).train()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
generator = torch.Generator().manual_seed(21)
for step in range(3):
    sound = torch.randn(3, 16, 40, generator=generator).to(DTYPE)
    labels = torch.randint(3, 96, (3, 12), generator=generator)
    labels[1, 9:] = -100
    loss = model(input_features=sound, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
