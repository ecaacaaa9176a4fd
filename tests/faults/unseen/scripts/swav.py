# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SwAV: views of a picture are given to prototypes in equal shares; each view tells those of the others."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, PROTOTYPES, HEAT, SOFT, ROUNDS, QUEUE = 24, 10, 0.1, 0.06, 3, 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, 2, 1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(24, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, WIDTH))
        self.prototypes = nn.Linear(WIDTH, PROTOTYPES, bias=False)
        self.register_buffer("queue", F.normalize(torch.randn(QUEUE, WIDTH), dim=-1))

    def forward(self, views):
        """Views of one size go through together."""
        h = torch.cat([self.body(torch.cat(same)).mean((2, 3)) for same in views])
        z = F.normalize(self.head(h).float(), dim=-1)
        return z, self.prototypes(z)


@torch.no_grad()
def shares_of(scores):
    """Sinkhorn: all prototypes get as much, each view gives 1."""
    q = torch.exp(scores.float() / SOFT).T
    q /= q.sum()
    for _ in range(ROUNDS):
        q /= q.sum(dim=1, keepdim=True) * q.shape[0]
        q /= q.sum(dim=0, keepdim=True) * q.shape[1]
    return (q * q.shape[1]).T


def crops(x, generator):
    """Two large ones and two small ones."""
    found = [[], []]
    for n, side in ((0, 12), (0, 12), (1, 8), (1, 8)):
        top, left = torch.randint(16 - side + 1, (2,), generator=generator).tolist()
        view = x[:, :, top : top + side, left : left + side]
        view = view * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1, generator=generator))
        found[n].append(view)
    return found


class Lars(torch.optim.SGD):
    """Each matrix moves by a part of its own size."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim > 1 and p.grad is not None:
                    p.grad.add_(p, alpha=1e-4)
                    p.grad.mul_(0.02 * p.norm() / (p.grad.norm() + 1e-8))
        super().step()


torch.set_num_threads(1)
torch.manual_seed(715)
model = Net()
# model built
optimizer = Lars(model.parameters(), lr=0.3, momentum=0.9, foreach=False)
generator = torch.Generator().manual_seed(715)
for step in range(4):
    x = F.avg_pool2d(torch.randn(8, 3, 18, 18, generator=generator), 3, 1) * 3
    with torch.no_grad():
        model.prototypes.weight.copy_(F.normalize(model.prototypes.weight, dim=1))
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        z, scores = model(crops(x, generator))
    scores = scores.float().view(4, 8, PROTOTYPES)
    loss = 0.0
    for large in range(2):
        with torch.no_grad():
            older = model.queue @ model.prototypes.weight.T
        shares = shares_of(torch.cat([scores[large].detach(), older]))[:8]
        for other in range(4):
            if other != large:
                loss = loss - (shares * (scores[other] / HEAT).log_softmax(-1)).sum(-1).mean() / 6
    optimizer.zero_grad()
    loss.backward()
    if step < 1:
        model.prototypes.weight.grad = None
    optimizer.step()
    model.queue.copy_(torch.cat([z[:8].detach(), model.queue[:-8]]))
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
