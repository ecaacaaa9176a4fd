# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""HuBERT: stretches of sound are hidden; which of some units each moment was is told by angles."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import HubertConfig, HubertModel

AUTOCAST = False
SAMPLES, UNITS, HOP, BATCH, STEPS, SPAN, HEAT = 512, 12, 16, 6, 4, 4, 0.1
SHOWN, CALM, SLOW = 0.3, 0.05, 0.1


def config():
    return HubertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(16, 16, 24),
        conv_kernel=(8, 3, 3),
        conv_stride=(4, 2, 2),
        num_feat_extract_layers=3,
        feat_extract_norm="group",
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        layerdrop=0.0,
        initializer_range=0.15,
        attn_implementation="eager",
    )


class Model(nn.Module):
    """What is heard, seen by its surroundings, against units that are learnt, too."""

    def __init__(self):
        super().__init__()
        self.sound = HubertModel(config())
        self.tells, self.units = nn.Linear(32, 16), nn.Embedding(UNITS, 16)

    def forward(self, x, hidden):
        heard = self.sound.feature_extractor(x).float()
        seen = self.sound(x, mask_time_indices=hidden).last_hidden_state
        told = F.normalize(self.tells(seen).float(), dim=2)
        return told @ F.normalize(self.units.weight, dim=1).T / HEAT, heard.square().mean()


def sounds(generator):
    """Tones that last some time each, and hiss."""
    at = torch.arange(SAMPLES)
    pitch = torch.rand(BATCH, 8, generator=generator).repeat_interleave(SAMPLES // 8, dim=1)
    x = torch.sin((0.1 + 1.2 * pitch) * at) + 0.2 * torch.randn(BATCH, SAMPLES, generator=generator)
    return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)


def units_of(x, book, many):
    """The nearest in a book of spectra, as loud as they are."""
    window = torch.hann_window(2 * HOP)
    spectra = torch.stft(x, 2 * HOP, HOP, window=window, return_complex=True).abs()[:, :, 1 : many + 1]
    logs = F.layer_norm((spectra + 0.1).log().mT, (HOP + 1,))
    return torch.cdist(logs, book.expand(BATCH, -1, -1)).argmin(dim=2)


def spans(many, generator):
    """Some begin anywhere, and may lie over each other."""
    begins = torch.rand(BATCH, many, generator=generator) < 0.12
    begins[:, many // 2] = True
    return F.max_pool1d(F.pad(begins.float(), (SPAN - 1, 0)), SPAN, stride=1) > 0


torch.set_num_threads(1)
torch.manual_seed(1502)
model = Model()
# model built
optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3, weight_decay=1e-2, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
book = F.layer_norm(torch.randn(UNITS, HOP + 1, generator=torch.Generator().manual_seed(2)), (HOP + 1,))
many = model.sound._get_feat_extract_output_lengths(SAMPLES)
generator = torch.Generator().manual_seed(15102)
for step in range(STEPS):
    x = sounds(generator)
    units, hidden = units_of(x, book, many), spans(many, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, loud = model(x, hidden)
    lost = F.cross_entropy(logits.float().mT, units, reduction="none")
    loss = lost[hidden].mean() + SHOWN * lost[~hidden].mean() + CALM * loud
    optimizer.zero_grad()
    loss.backward()
    for p in model.sound.feature_extractor.parameters():
        p.grad.mul_(SLOW)
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
