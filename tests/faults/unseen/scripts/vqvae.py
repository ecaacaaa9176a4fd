# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An autoencoder whose code is the nearest of a book, which follows the average of what is near it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class Book(nn.Module):
    def __init__(self, words=24, width=8, decay=0.95):
        super().__init__()
        self.decay = decay
        self.register_buffer("words", torch.randn(words, width))
        self.register_buffer("counts", torch.ones(words))
        self.register_buffer("sums", self.words.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1]).float()
        apart = flat.square().sum(1, keepdim=True) - 2 * flat @ self.words.t() + self.words.square().sum(1)
        chosen = apart.argmin(1)
        near = self.words[chosen]
        if self.training:
            with torch.no_grad():
                hot = F.one_hot(chosen, len(self.words)).float()
                self.counts.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                self.sums.mul_(self.decay).add_(hot.t() @ flat, alpha=1 - self.decay)
                total = self.counts.sum()
                smooth = (self.counts + 1e-3) / (total + len(self.words) * 1e-3) * total
                self.words.copy_(self.sums / smooth[:, None])
        committed = F.mse_loss(flat, near.detach())
        q = near.view(len(z), *z.shape[2:], -1).permute(0, 3, 1, 2)
        return z + (q - z).detach(), committed


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1))
        self.book = Book()
        self.up = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1))

    def forward(self, x):
        q, committed = self.book(self.down(x))
        return self.up(q), committed


torch.set_num_threads(1)
torch.manual_seed(57)
model = Autoencoder()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, amsgrad=True, foreach=False)
generator = torch.Generator().manual_seed(1060)
called = model
for step in range(4):
    x = F.interpolate(torch.randn(6, 3, 4, 4, generator=generator), scale_factor=3, mode="bilinear")
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        y, committed = called(x)
        loss = F.mse_loss(y.float(), x) + 0.25 * committed
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
