# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A word that came through noise: bits and checks tell each other what they think; messages are weighed."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
BITS, CHECKS, TURNS, BATCH, STEPS, LARGEST, SOFT = 15, 8, 4, 24, 4, 12.0, 0.7


def code():
    """Which bits a check counts: a cyclic code, the same taps moved on."""
    taps = torch.tensor([1, 1, 0, 1, 0, 0, 0, 1] + [0] * (BITS - 8))
    return torch.stack([taps.roll(shift) for shift in range(CHECKS)])


class Decoder(nn.Module):
    """Turn by turn; an edge has its own weight at each turn; what was told before is kept in part."""

    def __init__(self):
        super().__init__()
        checks, bits = code().nonzero(as_tuple=True)
        edges = len(bits)
        self.register_buffer("bits", bits)
        same_bit = (bits.unsqueeze(1) == bits) & ~torch.eye(edges, dtype=torch.bool)
        same_check = (checks.unsqueeze(1) == checks) & ~torch.eye(edges, dtype=torch.bool)
        self.register_buffer("same_bit", same_bit.float())
        self.register_buffer("same_check", same_check)
        self.register_buffer("ends", F.one_hot(bits, BITS).float())
        self.told = nn.Parameter(torch.ones(TURNS, edges))
        self.channel = nn.Parameter(torch.ones(TURNS, BITS))
        self.relax = nn.Parameter(torch.zeros(TURNS))
        self.last = nn.Linear(BITS, BITS)
        nn.init.eye_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, heard):
        """What is thought of each bit after each turn."""
        message, found = torch.zeros(len(heard), len(self.bits)), []
        for turn in range(TURNS):
            own = (self.channel[turn] * heard)[:, self.bits]
            asks = own + (self.told[turn] * message) @ self.same_bit
            turned = torch.tanh(0.5 * asks.clamp(-LARGEST, LARGEST)).float()
            others = torch.where(self.same_check, turned.unsqueeze(1), torch.ones(()))
            product = others.prod(dim=2).clamp(-1 + 1e-5, 1 - 1e-5)
            new = 2 * torch.atanh(product)
            kept = torch.sigmoid(self.relax[turn])
            message = kept * message + (1 - kept) * new
            found.append(self.last(heard + message @ self.ends).float())
        return found


def words(generator, noise):
    """The word of all zeros through a channel: for such a code no other words are needed."""
    sent = torch.ones(BATCH, BITS)
    heard = sent + noise * torch.randn(BATCH, BITS, generator=generator)
    return 2 * heard / noise**2


torch.set_num_threads(1)
torch.manual_seed(1314)
model = Decoder()
# model built
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2, alpha=0.8, centered=False, foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.85)
generator = torch.Generator().manual_seed(13114)
for step in range(STEPS):
    heard = words(generator, (0.9, 1.1, 1.0)[step % 3])
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(heard)
    zeros = torch.zeros(BATCH, BITS)
    losses = [F.binary_cross_entropy_with_logits(-says, zeros) for says in found]
    loss = sum(SOFT ** (TURNS - 1 - turn) * lost for turn, lost in enumerate(losses))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r} {losses[-1].item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
