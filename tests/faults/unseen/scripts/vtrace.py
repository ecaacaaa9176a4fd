# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Plays of an older policy, corrected by how much the newer one would have done the same."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, ACTS, WIDE, LONG, BATCH, STEPS, BEHIND = 4, 3, 20, 10, 8, 4, 2
FADES, TRUST, WORTH, OPEN = 0.95, 1.0, 0.5, 0.02


class Agent(nn.Module):
    """Remembers within a play."""

    def __init__(self):
        super().__init__()
        self.sees = nn.Linear(SEEN + ACTS, WIDE)
        self.remembers = nn.GRUCell(WIDE, WIDE)
        self.acts, self.value = nn.Linear(WIDE, ACTS), nn.Linear(WIDE, 1)

    def forward(self, seen, before, state):
        x = F.silu(self.sees(torch.cat([seen, F.one_hot(before, ACTS).float()], dim=1)))
        state = self.remembers(x, state).float()
        return self.acts(state).float(), self.value(state).squeeze(1).float(), state


@torch.no_grad()
def plays(actor, generator):
    """A cart that is pushed shall stay where a signal was at first; to leave ends a play."""
    place, speed = (0.3 * torch.randn(BATCH, generator=generator) for _ in range(2))
    signal = torch.randn(BATCH, generator=generator)
    state, before, rows = torch.zeros(BATCH, WIDE), torch.ones(BATCH, dtype=torch.long), []
    for at in range(LONG + 1):
        shown = signal if at == 0 else torch.zeros(BATCH)
        seen = torch.stack([place, speed, shown, torch.full((BATCH,), at / LONG)], dim=1)
        logits, _, state = actor(seen, before, state)
        act = torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)
        speed = 0.9 * speed + 0.3 * (act - 1)
        place = place + 0.5 * speed
        left = place.abs() > 2
        rows.append((seen, before, act, logits, -(place - signal).abs().clamp(max=2), left))
        place, speed = place.masked_fill(left, 0.0), speed.masked_fill(left, 0.0)
        before = act
    return [torch.stack(part) for part in zip(*rows)]


@torch.no_grad()
def targets(ratios, rewards, goes_on, values, last):
    """What values shall be, and what each act gained."""
    trusted = ratios.clamp(max=TRUST)
    after = torch.cat([values[1:], last.unsqueeze(0)])
    surprise = trusted * (rewards + FADES * goes_on * after - values)
    total, found = torch.zeros_like(last), []
    for at in reversed(range(len(rewards))):
        total = surprise[at] + FADES * goes_on[at] * trusted[at] * total
        found.insert(0, values[at] + total)
    found = torch.stack(found)
    comes = torch.cat([found[1:], last.unsqueeze(0)])
    return found, trusted * (rewards + FADES * goes_on * comes - values)


def losses(model, seen, before, act, older, rewards, left):
    state, said, values = torch.zeros(BATCH, WIDE), [], []
    for each_seen, each_before in zip(seen, before):
        logits, value, state = model(each_seen, each_before, state)
        said.append(logits.log_softmax(dim=1))
        values.append(value)
    said, values = torch.stack(said)[:-1], torch.stack(values)
    likely = said.gather(2, act[:-1].unsqueeze(2)).squeeze(2)
    was = older[:-1].log_softmax(dim=2).gather(2, act[:-1].unsqueeze(2)).squeeze(2)
    ratios = (likely.detach() - was).exp()
    wanted, gained = targets(ratios, rewards[:-1], 1 - left[:-1].float(), values[:-1], values[-1])
    policy = -(gained * likely).mean()
    worth = 0.5 * (wanted - values[:-1]).square().mean()
    open_ = -(said.exp() * said).sum(dim=2).mean()
    return policy + WORTH * worth - OPEN * open_


torch.set_num_threads(1)
torch.manual_seed(1216)
model = Agent()
# model built
generator = torch.Generator().manual_seed(12116)
actor = copy.deepcopy(model)
with torch.no_grad():
    for p in actor.parameters():
        p.add_(0.3 * torch.randn(p.shape, generator=generator))
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.98, eps=0.05, foreach=False)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=10)
for step in range(STEPS):
    played = plays(actor, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = losses(model, *played)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % BEHIND == 0:
        actor.load_state_dict(model.state_dict())
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
