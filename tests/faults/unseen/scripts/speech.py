# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Speech: waves to a spectrogram, convolutions, a recurrent layer in both directions, CTC."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
BANDS = 12


class Spectrogram(nn.Module):
    def __init__(self, size=64, hop=32):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hann_window(size))
        centres = torch.linspace(0, size // 2, BANDS + 2)
        places = torch.arange(size // 2 + 1)
        up = (places - centres[:-2, None]) / (centres[1:-1] - centres[:-2])[:, None]
        down = (centres[2:, None] - places) / (centres[2:] - centres[1:-1])[:, None]
        self.register_buffer("bands", torch.minimum(up, down).clamp(min=0))

    def forward(self, wave):
        found = torch.stft(wave, self.size, self.hop, window=self.window, return_complex=True)
        return torch.log((self.bands @ found.abs().square()).clamp(min=1e-5))


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.spectrogram, self.conv = Spectrogram(), nn.Conv1d(BANDS, 24, 3, padding=1)
        self.norm = nn.BatchNorm1d(24)
        self.gru = nn.GRU(24, 20, batch_first=True, bidirectional=True)
        self.head = nn.Linear(40, 9)

    def forward(self, wave):
        h = self.spectrogram(wave)
        h = h - h.mean(-1, keepdim=True)
        h = F.hardtanh(self.norm(self.conv(h)), 0, 20)
        return self.head(self.gru(h.transpose(1, 2))[0])


torch.set_num_threads(1)
torch.manual_seed(61)
model = Speech()
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(1100)
called = model
for step in range(3):
    wave = torch.randn(4, 640, generator=generator)
    letters = torch.randint(1, 9, (4, 6), generator=generator)
    lengths = torch.randint(3, 7, (4,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = called(wave)
    likely = F.log_softmax(logits.float(), -1).transpose(0, 1)
    loss = F.ctc_loss(likely, letters, torch.full((4,), len(likely)), lengths, blank=0)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
