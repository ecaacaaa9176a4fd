# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""AWD-LSTM: recurrent weights are dropped, one mask for a whole text, a state that goes on, averaged SGD."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDE, LANES, LONG, STEPS = 50, 32, 6, 8, 4
ACTIVE, SLOW, RATE = 2.0, 1.0, 2.0


def locked(x, p, training):
    """The same numbers are dropped at all times."""
    if not training:
        return x
    mask = torch.empty(x.shape[0], 1, x.shape[2]).bernoulli_(1 - p) / (1 - p)
    return x * mask


class DroppedLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.kept = nn.Linear(WIDE, 4 * WIDE), nn.Linear(WIDE, 4 * WIDE, bias=False)

    def forward(self, x, state):
        h, c = state
        kept = F.dropout(self.kept.weight, 0.3, self.training)
        outs = []
        for now in self.seen(x).unbind(1):
            i, f, g, o = (now + F.linear(h, kept)).chunk(4, dim=-1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return torch.stack(outs, dim=1), (h, c)


class Reader(nn.Module):
    """Words come in and go out by the same table."""

    def __init__(self):
        super().__init__()
        self.words, self.lean = nn.Embedding(VOCAB, WIDE), nn.Parameter(torch.zeros(VOCAB))
        nn.init.uniform_(self.words.weight, -0.3, 0.3)
        self.layers = nn.ModuleList(DroppedLSTM() for _ in range(2))

    def forward(self, ids, states):
        rows = torch.empty(VOCAB, 1).bernoulli_(0.9) / 0.9 if self.training else 1.0
        x = locked(F.embedding(ids, self.words.weight * rows), 0.2, self.training)
        after = []
        for layer, state in zip(self.layers, states):
            raw, state = layer(x, state)
            x = locked(raw, 0.2, self.training)
            after.append(state)
        return F.linear(x, self.words.weight, self.lean).float(), raw.float(), x.float(), after


def texts():
    """Lanes that go on from part to part: a word follows from the one before, mostly."""
    g = torch.Generator().manual_seed(812)
    ids = torch.randint(VOCAB, (LANES, STEPS * LONG + LONG + 1), generator=g)
    for at in range(1, ids.shape[1]):
        follows = torch.rand(LANES, generator=g) < 0.7
        ids[:, at] = torch.where(follows, (ids[:, at - 1] * 3 + 1) % VOCAB, ids[:, at])
    return ids


torch.set_num_threads(1)
torch.manual_seed(812)
model = Reader()
# model built
optimizer = torch.optim.ASGD(model.parameters(), lr=RATE, t0=1, lambd=0.0, weight_decay=1e-5, foreach=False)
ids, at = texts(), 0
states = [(torch.zeros(LANES, WIDE), torch.zeros(LANES, WIDE)) for _ in range(2)]
for step in range(STEPS):
    size = LONG if step % 2 == 0 else LONG - 3
    optimizer.param_groups[0]["lr"] = RATE * size / LONG
    states = [tuple(part.detach() for part in state) for state in states]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, raw, dropped, states = model(ids[:, at : at + size], states)
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, at + 1 : at + size + 1].flatten())
    whole = loss + ACTIVE * dropped.square().mean() + SLOW * raw.diff(dim=1).square().mean()
    optimizer.zero_grad()
    whole.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    at += size
    print(f"step {step} loss {whole.item()!r}")
model.eval()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(optimizer.state[p]["ax"])
    states = [tuple(torch.zeros_like(part) for part in state) for state in states]
    lost = F.cross_entropy(model(ids[:, :LONG], states)[0].flatten(0, 1), ids[:, 1 : LONG + 1].flatten())
print(f"step {STEPS - 1}.5 loss {lost.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
