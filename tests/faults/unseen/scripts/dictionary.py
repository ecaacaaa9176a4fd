# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a network thinks of, as few of many directions: the largest are kept, their lengths stay one."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
SEEN, WIDE, MANY, KEPT, SPARE, BATCH, QUIET = 12, 24, 128, 4, 8, 40, 2


class Watched(nn.Module):
    """A network that was there before; nothing of it is learnt."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SEEN, 2 * WIDE), nn.Linear(2 * WIDE, WIDE)

    @torch.no_grad()
    def forward(self, x):
        return self.second(F.relu(self.first(x)))


class Directions(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.middle = nn.Parameter(middle.clone())
        self.decoder = nn.Parameter(torch.randn(MANY, WIDE))
        self.unit()
        self.encoder = nn.Linear(WIDE, MANY)
        self.encoder.weight.data.copy_(self.decoder.data)
        nn.init.zeros_(self.encoder.bias)
        self.register_buffer("silent", torch.zeros(MANY))

    @torch.no_grad()
    def unit(self):
        self.decoder /= self.decoder.norm(dim=1, keepdim=True)

    @torch.no_grad()
    def straight(self):
        """What of the gradient would make directions longer or shorter is taken away."""
        along = (self.decoder.grad * self.decoder).sum(dim=1, keepdim=True)
        self.decoder.grad -= along * self.decoder

    def forward(self, x):
        """What is found again, and what those that were silent for long say of the rest."""
        before = self.encoder(x - self.middle).float()
        values, rows = before.topk(KEPT, dim=-1)
        code = torch.zeros_like(before).scatter(1, rows, F.relu(values))
        found = code @ self.decoder + self.middle
        silent = before.masked_fill(self.silent < QUIET, -1e4)
        values, rows = silent.topk(SPARE, dim=-1)
        rest = torch.zeros_like(before).scatter(1, rows, F.relu(values)) @ self.decoder
        with torch.no_grad():
            self.silent.add_(1).masked_fill_((code > 0).any(dim=0), 0)
        return found.float(), rest.float()


def activations(watched, generator):
    """Of inputs that are sums of few things."""
    things = torch.randn(20, SEEN, generator=torch.Generator().manual_seed(6))
    there = torch.rand(BATCH, 20, generator=generator) < 0.15
    return watched((there * torch.rand(BATCH, 20, generator=generator)) @ things)


torch.set_num_threads(1)
torch.manual_seed(1013)
watched = Watched()
model = Directions(activations(watched, torch.Generator().manual_seed(7)).mean(dim=0))
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.0, 0.99), foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, total_iters=3)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    generator = torch.Generator().manual_seed(11300 + step)
    x = activations(watched, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found, rest = model(x)
    spread = (x - x.mean(dim=0)).square().sum()
    left = x - found
    loss = left.square().sum() / spread + (left.detach() - rest).square().sum() / spread / 32
    optimizer.zero_grad()
    loss.backward()
    model.straight()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    model.unit()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
