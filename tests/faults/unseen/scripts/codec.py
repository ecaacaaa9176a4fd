# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sound as numbers of few books: each book says what those before it left; spectra of several sizes judge."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

AUTOCAST = False
WIDE, CODE, BOOKS, WORDS, LONG, STEPS = 12, 6, 3, 16, 256, 3


class Snake(nn.Module):
    """Waves stay waves."""

    def __init__(self, width):
        super().__init__()
        self.pitch = nn.Parameter(torch.ones(width, 1))

    def forward(self, x):
        return x + torch.sin(self.pitch * x).square() / (self.pitch + 1e-9)


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.before, self.after = Snake(width), Snake(width)
        self.wide = weight_norm(nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation))
        self.point = weight_norm(nn.Conv1d(width, width, 1))

    def forward(self, x):
        return x + self.point(self.after(self.wide(self.before(x))))


class Books(nn.Module):
    """Of some sounds only the first books are asked, that few numbers are enough, too."""

    def __init__(self):
        super().__init__()
        self.books = nn.Parameter(torch.randn(BOOKS, WORDS, CODE) * 0.2)

    def forward(self, x, asked):
        x = x.float().mT
        left, said, follows, leads = x, torch.zeros_like(x), 0.0, 0.0
        for n, book in enumerate(self.books):
            far = left.square().sum(-1, keepdim=True) - 2 * left @ book.T + book.square().sum(-1)
            word = F.embedding(far.argmin(dim=-1), book)
            counts = (n < asked).float()
            follows = follows + ((word - left.detach()).square().mean((1, 2)) * counts).mean()
            leads = leads + ((left - word.detach()).square().mean((1, 2)) * counts).mean()
            near = left + (word - left).detach()
            said = said + near * counts[:, None, None]
            left = left - near.detach()
        return said.mT, follows, leads


def coder():
    return nn.Sequential(
        weight_norm(nn.Conv1d(1, WIDE, 7, padding=3)),
        Residual(WIDE, 1),
        Residual(WIDE, 3),
        Snake(WIDE),
        weight_norm(nn.Conv1d(WIDE, CODE, 8, stride=4, padding=2)),
    )


def decoder():
    return nn.Sequential(
        weight_norm(nn.ConvTranspose1d(CODE, WIDE, 8, stride=4, padding=2)),
        Residual(WIDE, 1),
        Residual(WIDE, 3),
        Snake(WIDE),
        weight_norm(nn.Conv1d(WIDE, 1, 7, padding=3)),
    )


def spectra(found, wanted):
    """How loud each pitch is, as it is and as it is heard."""
    total = 0.0
    for size in (32, 64, 128):
        window = torch.hann_window(size)
        a, b = (torch.stft(x, size, size // 4, window=window, return_complex=True) for x in (found, wanted))
        a, b = a.abs().clamp(min=1e-5), b.abs().clamp(min=1e-5)
        total = total + (a - b).abs().mean() + (a.log10() - b.log10()).abs().mean()
    return total


torch.set_num_threads(1)
torch.manual_seed(906)
model = nn.ModuleDict({"coder": coder(), "books": Books(), "decoder": decoder()})
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.8, 0.99), foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
generator = torch.Generator().manual_seed(96)
for step in range(STEPS):
    pitch = torch.rand(6, 2, 1, generator=generator) * 0.6 + 0.05
    sound = torch.sin(pitch * torch.arange(LONG)).mean(1)
    sound = sound + 0.05 * torch.randn(sound.shape, generator=generator)
    asked = torch.randint(1, BOOKS + 1, (6,), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        code, follows, leads = model["books"](model["coder"](sound.unsqueeze(1)), asked)
        found = model["decoder"](code).float().squeeze(1)
    heard = spectra(found, sound) + (found - sound).abs().mean()
    loss = heard + follows + 0.25 * leads
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
