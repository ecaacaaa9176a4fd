# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network that is several: narrow ones are the first channels of the wide one, and learn what it says."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
SIDE, KINDS, BATCH, STEPS, HEAT = 16, 5, 12, 4, 2.0
WIDTHS = (0.25, 0.5, 0.75, 1.0)
CHANNELS = (16, 24)


class Slim(nn.Module):
    """The first kernels, of the first channels; each width has a norm of its own."""

    def __init__(self, comes, goes, stride):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(goes, comes, 3, 3) * (2 / (9 * comes)) ** 0.5)
        self.norms = nn.ModuleList(nn.BatchNorm2d(int(goes * width), momentum=0.2) for width in WIDTHS)
        self.goes, self.stride = goes, stride

    def forward(self, x, number):
        goes = int(self.goes * WIDTHS[number])
        weight = self.weight[:goes, : x.shape[1]]
        return F.relu(self.norms[number](F.conv2d(x, weight, stride=self.stride, padding=1)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Slim(3, CHANNELS[0], 1), Slim(CHANNELS[0], CHANNELS[1], 2)
        self.three = Slim(CHANNELS[1], CHANNELS[1], 1)
        self.head = nn.Linear(CHANNELS[1], KINDS)

    def forward(self, x, number):
        x = self.two(self.one(x, number), number)
        x = (x + self.three(x, number)).mean(dim=(2, 3))
        return F.linear(x, self.head.weight[:, : x.shape[1]], self.head.bias).float()


def pictures(generator):
    """Stripes of a direction for each kind, in any colour."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    turn = (3.14 * kinds / KINDS).view(-1, 1, 1)
    at = torch.arange(SIDE)
    begin = 6.28 * torch.rand(BATCH, 1, 1, generator=generator)
    look = torch.sin(1.2 * (turn.cos() * at + turn.sin() * at.unsqueeze(1)) + begin).unsqueeze(1)
    x = torch.rand(BATCH, 3, 1, 1, generator=generator) * look
    return x + 0.3 * torch.randn(x.shape[0], 3, SIDE, SIDE, generator=generator), kinds


def as_said(logits, soft):
    """How far it is from the soft answers of the widest."""
    return -(soft * (logits / HEAT).log_softmax(dim=1)).sum(dim=1).mean() * HEAT**2


torch.set_num_threads(1)
torch.manual_seed(1508)
model = Model()
# model built
optimizer = torch.optim.SGD(
    model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3, foreach=False
)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS + 1)
generator = torch.Generator().manual_seed(15108)
for step in range(STEPS):
    x, kinds = pictures(generator)
    between = 1 + int(torch.randint(0, 2, (1,), generator=generator))
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x, 3)
    loss = F.cross_entropy(logits, kinds)
    loss.backward()
    soft = (logits.detach() / HEAT).softmax(dim=1)
    losses = [loss.item()]
    for number in (between, 0):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = model(x, number)
        loss = as_said(logits, soft)
        loss.backward()
        losses.append(loss.item())
    nn.utils.clip_grad_norm_(model.parameters(), 4.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {' '.join(repr(loss) for loss in losses)}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
