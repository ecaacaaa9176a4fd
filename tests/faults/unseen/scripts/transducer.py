# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Speech by a transducer: sounds and what was said so far meet in a lattice, whose paths are summed."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

AUTOCAST, RECOMPUTE = False, False
TOKENS, WIDTH = 12, 24


def lattice_loss(logits, labels, frames, lengths):
    """The negative log of all paths from the first to the last corner; blank is 0."""
    scores = F.log_softmax(logits, dim=-1)
    blank = scores[..., 0]
    emit = scores[:, :, :-1].gather(-1, labels[:, None, :, None].expand(-1, logits.shape[1], -1, 1))[..., 0]
    rows = []
    for t in range(logits.shape[1]):
        row = []
        for u in range(logits.shape[2]):
            if t == 0 and u == 0:
                row.append(torch.zeros(len(logits)))
            elif t == 0:
                row.append(row[u - 1] + emit[:, t, u - 1])
            elif u == 0:
                row.append(rows[t - 1][u] + blank[:, t - 1, u])
            else:
                kept, said = rows[t - 1][u] + blank[:, t - 1, u], row[u - 1] + emit[:, t, u - 1]
                row.append(torch.logaddexp(kept, said))
        rows.append(row)
    alpha = torch.stack([torch.stack(row, -1) for row in rows], 1)
    each = torch.arange(len(logits))
    return -(alpha[each, frames - 1, lengths] + blank[each, frames - 1, lengths])


class Transducer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(16, WIDTH, batch_first=True, bidirectional=True)
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.predictor = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.from_sound, self.from_text = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, TOKENS)

    def join(self, heard, said):
        return self.out(torch.tanh(heard.unsqueeze(2) + said.unsqueeze(1)))

    def forward(self, sound, labels):
        stacked = sound.unflatten(1, (-1, 2)).flatten(2)
        heard = self.from_sound(self.encoder(stacked)[0])
        said = self.from_text(self.predictor(self.embed(F.pad(labels, (1, 0))))[0])
        if RECOMPUTE:
            return checkpoint(self.join, heard, said, use_reentrant=False)
        return self.join(heard, said)


torch.set_num_threads(1)
torch.manual_seed(509)
model = Transducer()
# model built
optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5, foreach=False)
generator = torch.Generator().manual_seed(9)
for step in range(3):
    sound = torch.randn(4, 12, 8, generator=generator)
    labels = torch.randint(1, TOKENS, (4, 4), generator=generator)
    frames, lengths = torch.tensor([6, 4, 5, 6]), torch.tensor([4, 2, 3, 1])
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(sound, labels)
    loss = lattice_loss(logits.float(), labels, frames, lengths).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
