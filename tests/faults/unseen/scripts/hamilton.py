# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An energy, learnt from how springs move: steps of leapfrog, whose forces are slopes of the energy."""

import torch
from torch import nn

DTYPE = torch.float32
BODIES, WIDE, LONG, DT, LATER = 3, 32, 4, 0.1, 0.9


class Energy(nn.Module):
    """Of places and of momenta, each by its own network; only the slopes are ever asked for."""

    def __init__(self):
        super().__init__()
        self.of_places = nn.Sequential(
            nn.Linear(BODIES, WIDE),
            nn.Tanh(),
            nn.Linear(WIDE, WIDE),
            nn.Tanh(),
            nn.Linear(WIDE, 1, bias=False),
        )
        self.of_momenta = nn.Sequential(
            nn.Linear(BODIES, WIDE), nn.Softplus(), nn.Linear(WIDE, 1, bias=False)
        )
        self.log_mass = nn.Parameter(torch.zeros(BODIES))

    def force(self, q):
        (slope,) = torch.autograd.grad(self.of_places(q).sum(), q, create_graph=True)
        return -slope

    def speed(self, p):
        (slope,) = torch.autograd.grad(self.of_momenta(p).sum(), p, create_graph=True)
        return slope + p * torch.exp(-self.log_mass)

    def forward(self, q, p):
        """The places and momenta after each of the next steps."""
        found = []
        for _ in range(LONG):
            p = p + 0.5 * DT * self.force(q)
            q = q + DT * self.speed(p)
            p = p + 0.5 * DT * self.force(q)
            found.append(torch.cat([q, p], dim=-1))
        return torch.stack(found, dim=1)


def motions(generator):
    """Bodies on springs between walls, in a hundred small steps."""
    q, p = (torch.randn(16, BODIES, generator=generator) for _ in range(2))
    seen = [torch.cat([q, p], dim=-1)]
    for _ in range(LONG):
        for _ in range(25):
            stretched = torch.diff(q, dim=-1, prepend=torch.zeros(16, 1), append=torch.zeros(16, 1))
            p = p + DT / 25 * (stretched[:, 1:] - stretched[:, :-1])
            q = q + DT / 25 * p
        seen.append(torch.cat([q, p], dim=-1))
    return torch.stack(seen, dim=1).to(DTYPE)


torch.set_num_threads(1)
torch.manual_seed(808)
model = Energy().to(DTYPE)
# model built
slow, fast = [model.log_mass], [p for name, p in model.named_parameters() if name != "log_mass"]
groups = [{"params": fast}, {"params": slow, "lr": 1e-2, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=3e-3, weight_decay=1e-2, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=1e-4)
generator = torch.Generator().manual_seed(88)
for step in range(4):
    seen = motions(generator)
    q, p = seen[:, 0].requires_grad_().chunk(2, dim=-1)
    found = model(q, p)
    weights = LATER ** torch.arange(LONG, dtype=torch.float32)
    lost = (found.float() - seen[:, 1:].detach().float()).square().sum(-1)
    loss = (lost * weights).sum(1).mean() / weights.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(fast, 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
