# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which word hangs on which: every pair of words is weighed by a biaffine form, and each pair has a kind."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, TAGS, WIDE, ARC, KIND, KINDS, LONG, BATCH, STEPS, PARTS = 50, 8, 16, 20, 10, 5, 12, 6, 3, 2


class Biaffine(nn.Module):
    """Weighs each pair of a word and its head, and each head by itself."""

    def __init__(self, wide, after):
        super().__init__()
        self.form = nn.Parameter(torch.randn(after, wide, wide) / wide)
        self.alone = nn.Parameter(torch.randn(after, wide) / wide**0.5)

    def forward(self, words, heads):
        """(texts, kinds, words, heads)"""
        pairs = torch.einsum("bwi,kij,bhj->bkwh", words, self.form, heads)
        return pairs + (self.alone @ heads.mT).unsqueeze(2)


class Parser(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.tags = nn.Embedding(VOCAB, WIDE, padding_idx=0), nn.Embedding(TAGS, WIDE)
        self.reads = nn.LSTM(2 * WIDE, WIDE, 2, batch_first=True, bidirectional=True)
        self.arc_word, self.arc_head = (nn.Linear(2 * WIDE, ARC) for _ in range(2))
        self.kind_word, self.kind_head = (nn.Linear(2 * WIDE, KIND) for _ in range(2))
        self.arc, self.kind = Biaffine(ARC, 1), Biaffine(KIND, KINDS)

    def forward(self, words, tags):
        """How well each head fits each word, and how well each kind fits each pair."""
        x, _ = self.reads(torch.cat([self.words(words), self.tags(tags)], dim=-1))
        arcs = self.arc(F.leaky_relu(self.arc_word(x), 0.1), F.leaky_relu(self.arc_head(x), 0.1))
        kinds = self.kind(F.leaky_relu(self.kind_word(x), 0.1), F.leaky_relu(self.kind_head(x), 0.1))
        there = words != 0
        arcs = arcs.squeeze(1).float().masked_fill(~there.unsqueeze(1), -1e4)
        return arcs, kinds.float()


def judged(arcs, kinds, heads, told):
    """Heads of all words but the root, and the kinds of pairs of words with their true heads."""
    arc = F.cross_entropy(arcs[:, 1:].flatten(0, 1), heads[:, 1:].flatten(), ignore_index=-1)
    at = heads.clamp(min=0).view(BATCH, 1, LONG, 1).expand(-1, KINDS, -1, -1)
    fits = kinds.gather(3, at).squeeze(3).mT[:, 1:]
    return arc + F.cross_entropy(fits.flatten(0, 1), told[:, 1:].flatten(), ignore_index=-1)


def trees(generator):
    """The first word is the root; each other one hangs on an earlier one, as its tag says."""
    tags = torch.randint(1, TAGS, (BATCH, LONG), generator=generator)
    words = (tags * 6 + torch.randint(0, 6, (BATCH, LONG), generator=generator)).clamp(1, VOCAB - 1)
    at = torch.arange(LONG)
    heads = (at - 1 - tags % 3).clamp(min=0)
    told = (tags + tags.gather(1, heads)) % KINDS
    sizes = torch.randint(LONG // 2, LONG + 1, (BATCH, 1), generator=generator)
    ends = at >= sizes
    return (
        words.masked_fill(ends, 0),
        tags.masked_fill(ends, 0),
        *(x.masked_fill(ends, -1) for x in (heads, told)),
    )


torch.set_num_threads(1)
torch.manual_seed(1007)
model = Parser()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.9), eps=1e-12, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.75 ** (step / 2))
generator = torch.Generator().manual_seed(107)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        words, tags, heads, told = trees(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            arcs, kinds = model(words, tags)
        loss = judged(arcs, kinds, heads, told) / PARTS
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
