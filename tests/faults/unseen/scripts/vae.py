# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A variational autoencoder over small pictures: convolutions down, transposed ones up."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
STEPS, SAVE_AFTER, RESUME = 4, 1, ""


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 12, 3, 2, padding=1), nn.Conv2d(12, 24, 3, 2, padding=1)
        self.mean, self.log_variance = nn.Linear(24 * 16, 8), nn.Linear(24 * 16, 8)

    def forward(self, x):
        h = F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1)
        return self.mean(h), self.log_variance(h)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(8, 24 * 16)
        self.up1 = nn.ConvTranspose2d(24, 12, 4, 2, padding=1)
        self.up2 = nn.ConvTranspose2d(12, 1, 4, 2, padding=1)

    def forward(self, z):
        h = F.relu(self.start(z)).view(-1, 24, 4, 4)
        return self.up2(F.relu(self.up1(h)))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, x, drawn):
        mean, log_variance = self.encoder(x)
        z = mean + torch.exp(0.5 * log_variance) * drawn
        return self.decoder(z), mean, log_variance


torch.set_num_threads(1)
torch.manual_seed(21)
model = Autoencoder()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, foreach=False)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    begin = saved["step"]
called = model
for step in range(begin, STEPS):
    generator = torch.Generator().manual_seed(700 + step)
    pictures = torch.rand(12, 1, 16, 16, generator=generator).round()
    drawn = torch.randn(12, 8, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, mean, log_variance = called(pictures, drawn)
        shown = F.binary_cross_entropy_with_logits(logits.float(), pictures, reduction="sum") / len(pictures)
        kept = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        loss = shown + kept
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
