# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""RWKV: time is mixed by a recurrence with a decay of each channel; learnt by Lion, written by hand."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, LAYERS, VOCAB = 32, 2, 50


def last_token(x):
    return F.pad(x, (0, 0, 1, -1))


def wkv(decay, bonus, k, v):
    """The weighted mean of all values so far, whose exponents are kept small."""
    numerator, denominator = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
    largest = torch.full_like(k[:, 0], -1e30)
    outs = []
    for t in range(k.shape[1]):
        top = torch.maximum(largest, k[:, t] + bonus)
        old, new = torch.exp(largest - top), torch.exp(k[:, t] + bonus - top)
        outs.append((old * numerator + new * v[:, t]) / (old * denominator + new))
        top = torch.maximum(largest - decay, k[:, t])
        old, new = torch.exp(largest - decay - top), torch.exp(k[:, t] - top)
        numerator, denominator = old * numerator + new * v[:, t], old * denominator + new
        largest = top
    return torch.stack(outs, 1)


class TimeMix(nn.Module):
    def __init__(self, layer):
        super().__init__()
        places = torch.arange(WIDTH) / (WIDTH - 1)
        self.decay = nn.Parameter(-4 + 6 * places ** (0.7 + 1.3 * layer / LAYERS))
        self.bonus = nn.Parameter(torch.full((WIDTH,), 0.3) + (torch.arange(WIDTH) % 3 - 1) * 0.5)
        self.mix = nn.Parameter(torch.stack([places, places + 0.1, 0.5 * places]))
        self.key, self.value = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.receptance, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        before = last_token(x)
        k, v, r = (x * mix + before * (1 - mix) for mix in self.mix)
        k, v = self.key(k).float(), self.value(v).float()
        return self.out(torch.sigmoid(self.receptance(r)) * wkv(self.decay.exp(), self.bonus, k, v))


class ChannelMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(2, WIDTH))
        self.key, self.value = nn.Linear(WIDTH, 64, bias=False), nn.Linear(64, WIDTH, bias=False)
        self.receptance = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        before = last_token(x)
        k, r = (x * mix + before * (1 - mix) for mix in self.mix)
        return torch.sigmoid(self.receptance(r)) * self.value(F.relu(self.key(k)).square())


class RWKV(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * LAYERS + 2))
        self.time = nn.ModuleList(TimeMix(layer) for layer in range(LAYERS))
        self.channels = nn.ModuleList(ChannelMix() for _ in range(LAYERS))

    def forward(self, ids):
        x = self.norms[0](self.embed(ids))
        for n in range(LAYERS):
            x = x + self.time[n](self.norms[2 * n + 1](x))
            x = x + self.channels[n](self.norms[2 * n + 2](x))
        return self.head(self.norms[-1](x))


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=3e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.lerp(p.grad, momentum, beta1).sign(), alpha=-group["lr"])
                momentum.lerp_(p.grad, 1 - beta2)


torch.set_num_threads(1)
torch.manual_seed(501)
model = RWKV()
# model built
optimizer = Lion(model.parameters(), weight_decay=0.1)
generator = torch.Generator().manual_seed(1)
for step in range(3):
    ids = torch.randint(VOCAB, (4, 17), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids[:, :-1]).float()
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
