# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""WaveNet: gated causal convolutions, dilated, with normed weights, over quantised sound."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

DTYPE = torch.float32
STEPS, SAVE_AFTER, RESUME = 4, 1, ""
LEVELS = 32


class Layer(nn.Module):
    def __init__(self, width, rate):
        super().__init__()
        self.left = rate
        self.gates = weight_norm(nn.Conv1d(width, 2 * width, 2, dilation=rate))
        self.out, self.skip = nn.Conv1d(width, width, 1), nn.Conv1d(width, 2 * width, 1)

    def forward(self, x):
        a, b = self.gates(F.pad(x, (self.left, 0))).chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b)
        return (x + self.out(h)) * 0.5**0.5, self.skip(h)


class WaveNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(LEVELS, width)
        self.layers = nn.ModuleList(Layer(width, rate) for rate in (1, 2, 4, 8))
        self.end1, self.end2 = nn.Conv1d(2 * width, 2 * width, 1), nn.Conv1d(2 * width, LEVELS, 1)

    def forward(self, levels):
        x = self.embed(levels).transpose(1, 2)
        skips = []
        for layer in self.layers:
            x, skip = layer(x)
            skips.append(skip)
        return self.end2(F.relu(self.end1(F.relu(sum(skips)))))


def quantised(sound):
    mu = LEVELS - 1
    pressed = torch.sign(sound) * torch.log1p(mu * sound.abs()) / torch.log1p(torch.tensor(float(mu)))
    return ((pressed + 1) / 2 * mu + 0.5).long()


torch.set_num_threads(1)
torch.manual_seed(23)
model = WaveNet().to(DTYPE)
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
begin = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    begin = saved["step"]
called = model
for step in range(begin, STEPS):
    generator = torch.Generator().manual_seed(720 + step)
    sound = torch.rand(3, 48, generator=generator) * 2 - 1
    levels = quantised(sound)
    logits = called(levels[:, :-1])
    loss = F.cross_entropy(logits.float(), levels[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
