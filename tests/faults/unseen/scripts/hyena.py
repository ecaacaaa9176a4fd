# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hyena: filters as long as the text, which a small network draws, between two gates; brackets that close."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

AUTOCAST = False
LIGHT = False
VOCAB, LONG, WIDE, WAVES, BATCH, STEPS = 9, 24, 24, 3, 6, 4


class ScheduleFree(torch.optim.Optimizer):
    """Adam without a schedule: gradients are taken between where it goes and the mean of where it was."""

    def __init__(self, params, lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "k": 0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            group["k"] += 1
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["goes"], state["mean"] = p.clone(), p.clone()
                    state["square"] = torch.zeros_like(p)
                state["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                size = (state["square"] / (1 - two ** group["k"])).sqrt() + group["eps"]
                move = p.grad / size + group["weight_decay"] * p
                state["goes"].sub_(group["lr"] * move)
                state["mean"].lerp_(state["goes"], 1 / group["k"])
                p.copy_(state["goes"].lerp(state["mean"], one))


class Filters(nn.Module):
    """Of each channel a filter over all distances, which fades at a pace of its own."""

    def __init__(self):
        super().__init__()
        at = torch.linspace(0, 1, LONG).unsqueeze(1)
        turns = 2 * torch.pi * at * torch.arange(1, WAVES + 1)
        self.register_buffer("places", torch.cat([at, turns.cos(), turns.sin()], dim=1))
        self.register_buffer("paces", torch.linspace(1, 8, WIDE))
        self.first, self.second = nn.Linear(2 * WAVES + 1, 16), nn.Linear(16, WIDE, bias=False)
        self.steep = nn.Parameter(torch.full((16,), 3.0))

    def forward(self):
        """(channels, distances)"""
        x = torch.sin(self.steep * self.first(self.places))
        fades = torch.exp(-self.paces * self.places[:, :1])
        return (self.second(x).float() * fades).T


def convolved(x, filters):
    """Each place takes of all before it."""
    size = 2 * LONG
    found = torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(filters, size), size)
    return found[..., :LONG]


class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDE)
        self.three, self.out = nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)
        self.short = nn.Conv1d(3 * WIDE, 3 * WIDE, 3, padding=2, groups=3 * WIDE)
        self.filters, self.straight = Filters(), nn.Parameter(torch.ones(WIDE, 1))

    def forward(self, x):
        three = self.short(self.three(self.norm(x)).mT)[..., :LONG].float()
        asks, keeps, says = three.chunk(3, dim=1)
        says = keeps * says
        says = asks * (convolved(says, self.filters()) + self.straight * says)
        return x + self.out(says.mT)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(VOCAB, WIDE)
        self.blocks = nn.ModuleList(Mixes() for _ in range(2))
        self.norm, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, VOCAB)

    def forward(self, ids):
        x = self.letters(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if LIGHT else block(x)
        return self.out(self.norm(x)).float()


def brackets(generator):
    """Four kinds of brackets that open and close as they should, then ends."""
    texts = torch.zeros(BATCH, LONG + 1, dtype=torch.long)
    for row in texts:
        opened = []
        for at in range(LONG):
            kind, chance = torch.randint(1, 5, (2,), generator=generator).tolist()
            if opened and (chance > 2 or len(opened) >= LONG - at):
                row[at] = 4 + opened.pop()
            else:
                opened.append(kind)
                row[at] = kind
    return texts


torch.set_num_threads(1)
torch.manual_seed(1215)
model = Model()
# model built
optimizer = ScheduleFree(model.parameters(), lr=6e-3, weight_decay=0.02)
generator = torch.Generator().manual_seed(12115)
for step in range(STEPS):
    texts = brackets(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        said = model(texts[:, :-1])
    loss = F.cross_entropy(said.flatten(0, 1), texts[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
