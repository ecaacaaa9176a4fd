# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""BART: spans of a text are hidden behind one word each, sentences change places, and all is written anew."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import BartConfig, BartForConditionalGeneration

DTYPE = torch.float32
ATTENTION = "eager"
VOCAB, BEGIN, PAD, END, MASK, LENGTH, SMOOTH, PARTS = 60, 0, 1, 2, 3, 16, 0.1, 2


def config():
    return BartConfig(
        vocab_size=VOCAB,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=LENGTH + 2,
        dropout=0.0,
        attention_dropout=0.0,
        init_std=0.1,
        scale_embedding=True,
        use_cache=False,
        attn_implementation=ATTENTION,
    )


def hidden(text, generator):
    """The second sentence before the first, and two words of it behind one."""
    cut = int(torch.randint(4, len(text) - 4, (), generator=generator))
    text = torch.cat([text[cut:], text[:cut]])
    at = int(torch.randint(0, len(text) - 3, (), generator=generator))
    return torch.cat([text[:at], torch.tensor([MASK]), text[at + 2 :]])


def batch_of(generator):
    sizes = torch.randint(10, LENGTH, (8,), generator=generator).tolist()
    begins = torch.randint(VOCAB, (8,), generator=generator)
    texts = [(torch.arange(size) * 3 + begin) % 56 + 4 for size, begin in zip(sizes, begins)]
    sources = torch.full((8, LENGTH), PAD)
    wanted = torch.full((8, LENGTH), PAD)
    for n, text in enumerate(texts):
        noised = hidden(text, generator)
        sources[n, : len(noised)] = noised
        wanted[n, : len(text) + 1] = torch.cat([text, torch.tensor([END])])
    return sources, wanted


def smoothed(logits, wanted):
    """What is right gets most, every word a little; padding gets nothing."""
    logs = logits.log_softmax(dim=-1)
    right = logs.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
    counts = wanted != PAD
    lost = (1 - SMOOTH) * right + SMOOTH * logs.mean(dim=-1)
    return -(lost * counts).sum() / counts.sum()


torch.set_num_threads(1)
torch.manual_seed(803)
model = BartForConditionalGeneration(config()).to(DTYPE)
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-6, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) ** -0.5)
generator = torch.Generator().manual_seed(83)
for step in range(3):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        sources, wanted = batch_of(generator)
        before = F.pad(wanted[:, :-1], (1, 0), value=BEGIN)
        known = (sources != PAD).long()
        found = model(input_ids=sources, attention_mask=known, decoder_input_ids=before)
        loss = smoothed(found.logits.float(), wanted) / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
