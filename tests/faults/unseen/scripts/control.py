# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How to hold a pole upright on a cart: a policy learns through the laws of motion, some moments at once."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
WIDE, WORLDS, LONG, CUT, TICK = 24, 12, 12, 4, 0.05
CART, POLE, HALF, GRAVITY, PUSH, FADES = 1.0, 0.2, 0.5, 9.8, 8.0, 0.98


class Policy(nn.Module):
    """A short memory of what is seen, and a push that has a limit."""

    def __init__(self):
        super().__init__()
        self.sees, self.keeps = nn.Linear(5, WIDE), nn.GRUCell(WIDE, WIDE)
        self.out = nn.Linear(WIDE, 1)
        nn.init.orthogonal_(self.out.weight, gain=0.1)

    def forward(self, state, memory):
        place, speed, angle, turn = state.unbind(dim=-1)
        seen = torch.stack([place, speed, angle.sin(), angle.cos(), turn], dim=-1)
        memory = self.keeps(F.silu(self.sees(seen)), memory)
        return PUSH * torch.tanh(self.out(memory).float()).squeeze(-1), memory


def moved(state, push):
    """A moment later: speeds change first, and places by what they are now."""
    place, speed, angle, turn = state.unbind(dim=-1)
    sine, cosine, weight = angle.sin(), angle.cos(), CART + POLE
    force = (push + POLE * HALF * turn.square() * sine) / weight
    faster = (GRAVITY * sine - cosine * force) / (HALF * (4 / 3 - POLE * cosine.square() / weight))
    speed = speed + TICK * (force - POLE * HALF * faster * cosine / weight)
    turn = turn + TICK * faster
    return torch.stack([place + TICK * speed, speed, angle + TICK * turn, turn], dim=-1)


def cost(state, push):
    place, speed, angle, turn = state.unbind(dim=-1)
    upright = 1 - angle.cos()
    return 5 * upright + 0.5 * place.square() + 0.05 * (speed.square() + turn.square()) + 1e-3 * push.square()


def lived(policy, state):
    """What it costs until the end; what comes later counts less, and gradients go back some moments only."""
    memory, total = state.new_zeros(len(state), WIDE), 0.0
    for at in range(LONG):
        if at and at % CUT == 0:
            state, memory = state.detach(), memory.detach()
        push, memory = policy(state, memory)
        state = moved(state, push)
        total = total + FADES**at * cost(state, push).mean()
        memory = memory.to(state.dtype)
    return total / LONG


torch.set_num_threads(1)
torch.manual_seed(1012)
model = Policy()
# model built
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, maximize=False, foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10, power=1.0)
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
for step in range(first, TOTAL):
    generator = torch.Generator().manual_seed(11200 + step)
    state = torch.randn(WORLDS, 4, generator=generator) * torch.tensor([0.5, 0.3, 0.25, 0.3])
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = lived(model, state)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: part.state_dict() for name, part in states.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
