# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What texts are about: counts of words to shares of topics and back, with a prior that wants few topics."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
VOCAB, TOPICS, WIDE, ALPHA, WARM = 70, 8, 32, 0.1, 4


class Topics(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Sequential(nn.Linear(VOCAB, WIDE), nn.Softplus(), nn.Linear(WIDE, WIDE), nn.Softplus())
        self.drop = nn.Dropout(0.2)
        self.mean, self.log_spread = nn.Linear(WIDE, TOPICS), nn.Linear(WIDE, TOPICS)
        self.norm_mean = nn.BatchNorm1d(TOPICS, affine=False)
        self.norm_spread = nn.BatchNorm1d(TOPICS, affine=False)
        self.words = nn.Linear(TOPICS, VOCAB, bias=False)
        self.norm_words = nn.BatchNorm1d(VOCAB, affine=False)

    def forward(self, counts, noise):
        h = self.drop(self.read(torch.log1p(counts)))
        mean, log_spread = self.norm_mean(self.mean(h)), self.norm_spread(self.log_spread(h))
        drawn = mean + noise * torch.exp(0.5 * log_spread)
        shares = drawn.softmax(dim=-1)
        return self.norm_words(self.words(shares)).float().log_softmax(-1), mean.float(), log_spread.float()


def prior():
    """The normal distribution that, after a softmax, is most like a Dirichlet one of equal `ALPHA`."""
    mean = torch.zeros(TOPICS)
    spread = torch.full((TOPICS,), 1 / ALPHA * (1 - 2 / TOPICS) + 1 / (TOPICS * ALPHA))
    return mean, spread


def apart(mean, log_spread):
    """How far what a text is about is from what one expects of any text."""
    wanted, spread = prior()
    each = log_spread.exp() / spread + (wanted - mean).square() / spread - 1 + spread.log() - log_spread
    return 0.5 * each.sum(-1)


def texts(step):
    g = torch.Generator().manual_seed(8600 + step)
    about = torch.rand(24, TOPICS, generator=g).pow(6)
    likely = torch.rand(TOPICS, VOCAB, generator=torch.Generator().manual_seed(86)).pow(4)
    words = torch.multinomial(about @ likely, 40, replacement=True, generator=g)
    return F.one_hot(words, VOCAB).sum(1).float(), torch.randn(24, TOPICS, generator=g)


torch.set_num_threads(1)
torch.manual_seed(806)
model = Topics()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.99, 0.999), foreach=False)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng"])
for step in range(first, TOTAL):
    counts, noise = texts(step)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logs, mean, log_spread = model(counts, noise)
    told = -(counts * logs).sum(-1)
    loss = (told + min(1.0, (step + 1) / WARM) * apart(mean, log_spread)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({"step": step + 1, "rng": torch.get_rng_state(), **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
