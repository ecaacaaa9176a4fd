# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Units that add or multiply what they choose: weights are driven to -1, 0 and 1, later and later harder."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SEEN, MIDDLE, BATCH, STEPS, BEGIN, END, MOST = 8, 4, 48, 5, 1, 4, 0.3


class Adds(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(made, given))
        nn.init.uniform_(self.weight, -0.6, 0.6)

    def forward(self, x):
        return F.linear(x, self.weight.clamp(-1, 1)).float()

    def vague(self):
        """How far from -1, 0 and 1."""
        size = self.weight.clamp(-1, 1).abs()
        return torch.minimum(size, 1 - size).mean()


class Multiplies(nn.Module):
    """What has no weight counts as one."""

    def __init__(self, given, made):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(made, given))
        nn.init.uniform_(self.weight, 0.25, 0.75)

    def forward(self, x):
        weight = self.weight.clamp(0, 1)
        return (weight * x.unsqueeze(1) + 1 - weight).prod(dim=2)

    def vague(self):
        size = self.weight.clamp(0, 1)
        return torch.minimum(size, 1 - size).mean()


class Model(nn.Module):
    """Both units say something; a gate looks at the task and takes one of them."""

    def __init__(self):
        super().__init__()
        self.sums, self.products, self.adds = Adds(SEEN, MIDDLE), Multiplies(MIDDLE, 1), Adds(MIDDLE, 1)
        self.gate = nn.Sequential(nn.Linear(SEEN, 12), nn.Softplus(), nn.Linear(12, 1))

    def forward(self, x, task):
        parts = self.sums(x)
        takes = torch.sigmoid(self.gate(x).float() + 2 * task)
        return (takes * self.products(parts) + (1 - takes) * self.adds(parts)).squeeze(1)

    def vague(self):
        return self.sums.vague() + self.products.vague() + self.adds.vague()


def hard(step):
    """Nothing at first, then more and more."""
    return MOST * min(max((step - BEGIN) / (END - BEGIN), 0.0), 1.0)


def rows(generator):
    """A product of two sums, or the sum of both."""
    x = 2 * torch.rand(BATCH, SEEN, generator=generator) - 0.5
    one, two = x[:, :3].sum(dim=1), x[:, 2:6].sum(dim=1)
    task = torch.randint(0, 2, (BATCH, 1), generator=generator) * 2.0 - 1
    return x, task, torch.where(task.squeeze(1) > 0, one * two, one + two)


torch.set_num_threads(1)
torch.manual_seed(1308)
model = Model()
# model built
units = [p for name, p in model.named_parameters() if not name.startswith("gate")]
optimizer = torch.optim.Rprop(
    [{"params": units}, {"params": model.gate.parameters(), "lr": 3e-3}],
    lr=2e-2, etas=(0.5, 1.3), step_sizes=(1e-5, 0.2), foreach=False,
)  # fmt: skip
generator = torch.Generator().manual_seed(13108)
x, task, wanted = rows(generator)
for step in range(STEPS):
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x, task)
    wrong = F.huber_loss(found, wanted, delta=2.0)
    vague = model.vague()
    optimizer.zero_grad()
    (wrong + hard(step) * vague).backward()
    optimizer.step()
    with torch.no_grad():
        model.products.weight.clamp_(0, 1)
        model.sums.weight.clamp_(-1, 1)
        model.adds.weight.clamp_(-1, 1)
    print(f"step {step} loss {wrong.item()!r} {vague.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
