# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A grammar that nobody wrote: rules and how likely they are, by the sum over all trees of each sentence."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, PHRASES, KINDS, WIDE, LONG, STEPS = 30, 4, 6, 24, 7, 3
ALL = PHRASES + KINDS


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(WIDE, WIDE)
        self.first, self.second = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x):
        x = self.lift(x)
        return x + F.relu(self.second(F.relu(self.first(x))))


class Grammar(nn.Module):
    """A sentence is a phrase, a phrase is two of phrases and kinds, a kind is a word."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Parameter(torch.randn(WIDE))
        self.phrases, self.kinds = (nn.Parameter(torch.randn(n, WIDE)) for n in (PHRASES, KINDS))
        self.to_begin, self.to_word = Tower(), Tower()
        self.root, self.word = nn.Linear(WIDE, PHRASES), nn.Linear(WIDE, VOCAB)
        self.pair = nn.Linear(WIDE, ALL * ALL)

    def forward(self):
        """Logarithms of how likely each rule is."""
        root = self.root(self.to_begin(self.begin)).float().log_softmax(dim=-1)
        words = self.word(self.to_word(self.kinds)).float().log_softmax(dim=-1)
        rules = self.pair(self.phrases).float().log_softmax(dim=-1)
        return root, words, rules.view(PHRASES, ALL, ALL)


def joined(a, b, rules):
    """Of two parts, each by all that it may be, to what both are together."""
    both = a.unsqueeze(-1) + b.unsqueeze(-2)
    return torch.logsumexp((both.unsqueeze(1) + rules).flatten(2), dim=-1)


def padded(x, is_kind):
    none = x.new_full((len(x), KINDS if not is_kind else PHRASES), -1e5)
    return torch.cat([none, x] if is_kind else [x, none], dim=-1)


def likely(grammar, ids, sizes):
    """The inside algorithm: what is longer is made of what is shorter, wherever it is cut."""
    root, words, rules = grammar()
    chart = {}
    for at in range(LONG):
        chart[at, at + 1] = padded(words[:, ids[:, at]].T, is_kind=True)
    for width in range(2, LONG + 1):
        for at in range(LONG - width + 1):
            end = at + width
            cuts = [joined(chart[at, cut], chart[cut, end], rules) for cut in range(at + 1, end)]
            chart[at, end] = padded(torch.logsumexp(torch.stack(cuts), dim=0), is_kind=False)
    whole = torch.stack([chart[0, size][:, :PHRASES] for size in range(2, LONG + 1)])
    return torch.logsumexp(whole[sizes - 2, torch.arange(len(ids))] + root, dim=-1)


def sentences(generator):
    """Words of three sorts, in an order that repeats."""
    sort = (torch.arange(LONG) + torch.randint(2, (10, 1), generator=generator)) % 3
    ids = sort * 10 + torch.randint(10, (10, LONG), generator=generator)
    return ids, torch.randint(3, LONG + 1, (10,), generator=generator)


torch.set_num_threads(1)
torch.manual_seed(907)
model = Grammar()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.75, 0.999), foreach=False)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.8 if step > 1 else 1.0)
generator = torch.Generator().manual_seed(97)
for step in range(STEPS):
    ids, sizes = sentences(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logs = likely(model, ids, sizes)
    loss = -logs.sum() / sizes.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
