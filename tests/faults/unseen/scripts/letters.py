# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Words by their letters: kernels of several widths, a highway, a GRU, and rare words in parts."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LETTERS, LONGEST, WORDS, WIDE, STATE, LONG, BATCH, STEPS = 20, 7, 60, 24, 28, 10, 6, 4


class Highway(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.new, self.gate = nn.Linear(wide, wide), nn.Linear(wide, wide)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        new = F.relu(self.new(x))
        return gate * new + (1 - gate) * x


class Spelled(nn.Module):
    """A vector of each word, of its letters alone; letter 0 is none."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, 8, padding_idx=0)
        self.kernels = nn.ModuleList(nn.Conv1d(8, WIDE // 3, wide) for wide in (1, 3, 5))
        self.highways = nn.Sequential(Highway(WIDE), Highway(WIDE))

    def forward(self, spelled):
        x = self.letters(spelled.flatten(0, 1)).transpose(1, 2)
        found = []
        for kernel in self.kernels:
            aside = kernel.kernel_size[0] // 2
            found.append(torch.tanh(kernel(F.pad(x, (aside, aside)))).amax(dim=2))
        return self.highways(torch.cat(found, dim=1)).unflatten(0, spelled.shape[:2])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.spelled = Spelled()
        self.reads = nn.GRU(WIDE, STATE, 2, batch_first=True)
        self.out = nn.AdaptiveLogSoftmaxWithLoss(STATE, WORDS, cutoffs=[12, 30], div_value=2.0)

    def forward(self, spelled, state):
        x, state = self.reads(self.spelled(spelled), state)
        return x.float(), state.float()


def texts(generator):
    """A word is often followed by that of twice its number, and its letters tell the number."""
    words = torch.randint(0, WORDS, (BATCH, STEPS * LONG + 1), generator=generator)
    often = torch.rand(words.shape, generator=generator) < 0.7
    for at in range(1, words.shape[1]):
        words[:, at] = torch.where(often[:, at], 2 * words[:, at - 1] % WORDS, words[:, at] // 2)
    return words


def book(generator):
    """How each word is written."""
    letters = torch.randint(1, LETTERS, (WORDS, LONGEST), generator=generator)
    sizes = torch.randint(2, LONGEST + 1, (WORDS, 1), generator=generator)
    return letters.masked_fill(torch.arange(LONGEST) >= sizes, 0)


torch.set_num_threads(1)
torch.manual_seed(1104)
model = Model()
# model built
generator = torch.Generator().manual_seed(114)
written, words = book(generator), texts(generator)
optimizer = torch.optim.SGD(model.parameters(), lr=0.8, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.5)
state = torch.zeros(2, BATCH, STATE)
for step in range(STEPS):
    part = words[:, step * LONG : (step + 1) * LONG + 1]
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        x, state = model(written[part[:, :-1]], state)
    state = state.detach()
    loss = model.out(x.flatten(0, 1), part[:, 1:].flatten()).loss
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
