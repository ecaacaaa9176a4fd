# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks that quarrel: their gates share experts, and where two gradients oppose each other that part goes."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
FIELDS, VALUES, EACH, EXPERTS, WIDE, TASKS, BATCH, STEPS, RARE = 6, 12, 4, 4, 16, 3, 32, 4, 3.0


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(FIELDS * EACH, WIDE), nn.Linear(WIDE, WIDE)
        self.norm = nn.LayerNorm(WIDE)

    def forward(self, x):
        return self.norm(self.second(F.softsign(self.first(x))).float())


class Gates(nn.Module):
    """Each task mixes what the experts say as it likes."""

    def __init__(self):
        super().__init__()
        self.fields = nn.ModuleList(nn.Embedding(VALUES, EACH) for _ in range(FIELDS))
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.gates = nn.ModuleList(nn.Linear(FIELDS * EACH, EXPERTS, bias=False) for _ in range(TASKS))
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDE, WIDE), nn.PReLU(), nn.Linear(WIDE, 1)) for _ in range(TASKS)
        )

    def shared(self):
        return [*self.fields.parameters(), *self.experts.parameters()]

    def forward(self, rows):
        x = torch.cat([field(values) for field, values in zip(self.fields, rows.unbind(1))], dim=-1)
        said, found = torch.stack([expert(x) for expert in self.experts], dim=1), []
        for gate, tower in zip(self.gates, self.towers):
            share = gate(x).float().softmax(dim=-1)
            found.append(tower((share.unsqueeze(-1) * said).sum(1)).squeeze(-1))
        return torch.stack(found, dim=-1).float()


def agreed(slopes, generator):
    """From the gradient of each task the part against another one, taken in some order, is taken away."""
    changed = [slope.clone() for slope in slopes]
    for own in range(TASKS):
        for other in torch.randperm(TASKS, generator=generator).tolist():
            against = torch.dot(changed[own], slopes[other])
            if other != own and against < 0:
                changed[own] -= against / slopes[other].square().sum() * slopes[other]
    return torch.stack(changed).sum(0)


def rows_of(generator):
    """Whether they look, whether they buy, whether they send it back."""
    rows = torch.randint(VALUES, (BATCH, FIELDS), generator=generator)
    tastes = torch.randn(FIELDS, VALUES, TASKS, generator=torch.Generator().manual_seed(8))
    liked = sum(tastes[field][rows[:, field]] for field in range(FIELDS))
    return rows, (liked - torch.tensor([0.0, 1.5, 2.5]) > 0).float()


torch.set_num_threads(1)
torch.manual_seed(1015)
model = Gates()
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1, foreach=False)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.5)
generator = torch.Generator().manual_seed(115)
rare = torch.tensor([1.0, RARE, 2 * RARE])
shared = model.shared()
for step in range(STEPS):
    rows, wanted = rows_of(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(rows)
    losses = F.binary_cross_entropy_with_logits(logits, wanted, pos_weight=rare, reduction="none").mean(0)
    optimizer.zero_grad()
    slopes = []
    for loss in losses:
        loss.backward(retain_graph=True)
        slopes.append(torch.cat([p.grad.flatten() for p in shared]))
        for p in shared:
            p.grad = None
    parts = agreed(slopes, generator).split([p.numel() for p in shared])
    for p, part in zip(shared, parts):
        p.grad = part.view_as(p)
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {' '.join(repr(loss) for loss in losses.tolist())}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
