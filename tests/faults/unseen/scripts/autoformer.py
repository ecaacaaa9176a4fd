# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Autoformer: what of a series comes again and when, and where it goes on the whole; weights look ahead."""

import torch
from transformers import AutoformerConfig, AutoformerForPrediction

AUTOCAST = False
PAST, AHEAD, LAGS, BATCH, STEPS, EVERY, FOLLOWS = 24, 8, [1, 2, 6], 8, 4, 2, 0.5


class Lookahead:
    """Slow weights go half of the way to the fast ones now and then, which go on from there."""

    def __init__(self, optimizer):
        self.optimizer, self.count = optimizer, 0
        self.params = [p for group in optimizer.param_groups for p in group["params"]]
        self.slow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def step(self):
        self.optimizer.step()
        self.count += 1
        if self.count % EVERY:
            return
        for p, slow in zip(self.params, self.slow):
            slow.add_(p - slow, alpha=FOLLOWS)
            p.copy_(slow)


def config():
    return AutoformerConfig(
        prediction_length=AHEAD,
        context_length=PAST,
        distribution_output="student_t",
        input_size=1,
        lags_sequence=LAGS,
        scaling="std",
        num_time_features=2,
        num_static_categorical_features=1,
        cardinality=[5],
        embedding_dimension=[3],
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        init_std=0.2,
        label_length=8,
        moving_average=5,
        autocorrelation_factor=1,
    )


def series(generator):
    """Seasons of a length of each kind, on a slope; some values were not seen."""
    whole = PAST + max(LAGS)
    at = torch.arange(whole + AHEAD)
    kinds = torch.randint(0, 5, (BATCH, 1), generator=generator)
    size, begin, slope = torch.rand(3, BATCH, 1, generator=generator)
    x = (1 + size) * torch.sin(6.28 * (at / (4 + 2 * kinds) + begin)) + 0.05 * (slope - 0.5) * at
    x = x + 0.1 * torch.randn(x.shape, generator=generator) + 3
    seen = (torch.rand(x.shape, generator=generator) > 0.1).float()
    known = torch.stack([at / len(at), torch.cos(6.28 * at / 12)], dim=1).expand(BATCH, -1, -1)
    past, later = slice(None, whole), slice(whole, None)
    return {
        "past_values": (x * seen)[:, past],
        "past_time_features": known[:, past],
        "past_observed_mask": seen[:, past],
        "static_categorical_features": kinds,
        "future_values": (x * seen)[:, later],
        "future_time_features": known[:, later],
        "future_observed_mask": seen[:, later],
    }


torch.set_num_threads(1)
torch.manual_seed(1402)
model = AutoformerForPrediction(config())
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.1, foreach=False)
ahead = Lookahead(optimizer)
generator = torch.Generator().manual_seed(14102)
for step in range(STEPS):
    rows = series(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(**rows, use_cache=False)
    loss = found.loss.float()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    ahead.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
