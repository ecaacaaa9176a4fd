# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An LSTM in both directions over packed sequences: tags words, and tells the kind of the sentence."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 20, num_layers=2, batch_first=True, bidirectional=True)
        self.tags, self.kind = nn.Linear(40, 7), nn.Linear(40, 3)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        out, (hidden, _) = self.lstm(packed)
        words, _ = pad_packed_sequence(out, batch_first=True, total_length=ids.shape[1])
        return self.tags(words), self.kind(torch.cat([hidden[-2], hidden[-1]], 1))


torch.set_num_threads(1)
torch.manual_seed(12)
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, nesterov=True, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
generator = torch.Generator().manual_seed(61)
for step in range(3):
    lengths = torch.randint(4, 14, (6,), generator=generator)
    lengths[2] = 14
    ids = torch.randint(1, 60, (6, 14), generator=generator)
    wanted = torch.randint(7, (6, 14), generator=generator)
    kinds = torch.randint(3, (6,), generator=generator)
    outside = torch.arange(14)[None] >= lengths[:, None]
    ids, wanted = ids.masked_fill(outside, 0), wanted.masked_fill(outside, -1)
    tags, kind = model(ids, lengths)
    loss = F.cross_entropy(tags.flatten(0, 1), wanted.flatten(), ignore_index=-1) + F.cross_entropy(
        kind, kinds
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
