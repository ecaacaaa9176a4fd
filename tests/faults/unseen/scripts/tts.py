# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Speech of text: phonemes are made as long as they sound, and all frames are found at once."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PHONEMES, MELS, WIDTH, WARMUP = 30, 10, 32, 4


class FFT(nn.Module):
    """Attention and convolutions, whose padding is zero."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Conv1d(WIDTH, 48, 3, padding=1), nn.Conv1d(48, WIDTH, 3, padding=1)

    def forward(self, x, outside):
        h = self.attention(x, x, x, key_padding_mask=outside, need_weights=False)[0]
        x = self.norm1(x + h).masked_fill(outside.unsqueeze(-1), 0)
        h = self.narrow(F.relu(self.wide(x.transpose(1, 2)))).transpose(1, 2)
        return self.norm2(x + h).masked_fill(outside.unsqueeze(-1), 0)


class Durations(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = self.norm1(F.relu(self.conv1(x.transpose(1, 2))).transpose(1, 2))
        x = self.norm2(F.relu(self.conv2(x.transpose(1, 2))).transpose(1, 2))
        return self.out(x).squeeze(-1)


def stretched(x, durations):
    rows = [torch.repeat_interleave(row, times, dim=0) for row, times in zip(x, durations)]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def waves(length):
    angle = torch.arange(length)[:, None] / 1000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class FastSpeech(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(PHONEMES, WIDTH, padding_idx=0)
        self.encoder, self.decoder = FFT(), FFT()
        self.durations, self.mel = Durations(), nn.Linear(WIDTH, MELS)

    def forward(self, phonemes, durations):
        outside = phonemes == 0
        h = self.encoder(self.embed(phonemes) + waves(phonemes.shape[1]), outside)
        lengths = durations.sum(1)
        frames = stretched(h, durations)
        silent = torch.arange(frames.shape[1]) >= lengths[:, None]
        mel = self.mel(self.decoder(frames + waves(frames.shape[1]), silent))
        return mel, self.durations(h), silent, outside


torch.set_num_threads(1)
torch.manual_seed(508)
model = FastSpeech()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=0.3, betas=(0.9, 0.98), eps=1e-9, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda n: WIDTH**-0.5 * min((n + 1) ** -0.5, (n + 1) * WARMUP**-1.5)
)
generator = torch.Generator().manual_seed(8)
for step in range(3):
    phonemes = torch.randint(1, PHONEMES, (4, 9), generator=generator)
    phonemes[1, 6:], phonemes[3, 7:] = 0, 0
    durations = torch.randint(1, 5, (4, 9), generator=generator) * (phonemes != 0)
    wanted = torch.randn(4, int(durations.sum(1).max()), MELS, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        mel, length, silent, outside = model(phonemes, durations)
    of_mel = (mel.float() - wanted).abs()[~silent].mean()
    of_length = F.mse_loss(length.float()[~outside], torch.log(durations.float() + 1)[~outside])
    loss = of_mel + 0.1 * of_length
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {of_mel.item()!r} {of_length.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
