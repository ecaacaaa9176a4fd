# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Who wrote a stroke: what a path is by its iterated sums, of its moves, and of pairs and threes of them."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PENS, KINDS, LONG, BATCH, STEPS, WIDE = 2, 4, 15, 12, 4, 3


def signature(path):
    """Of depths one to three; the sums go over moves in their order."""
    moves = path[:, 1:] - path[:, :-1]
    one = torch.zeros_like(moves[:, 0])
    two = torch.zeros(len(path), path.shape[2], path.shape[2])
    three = torch.zeros(len(path), path.shape[2], path.shape[2], path.shape[2])
    for move in moves.unbind(dim=1):
        pair = torch.einsum("bi,bj->bij", move, move) / 2
        three = three + torch.einsum("bij,bk->bijk", two, move)
        three = three + torch.einsum("bi,bjk->bijk", one, pair)
        three = three + torch.einsum("bij,bk->bijk", pair, move) / 3
        two = two + torch.einsum("bi,bj->bij", one, move) + pair
        one = one + move
    return torch.cat([one, two.flatten(1), three.flatten(1)], dim=1)


class Model(nn.Module):
    """Points are made wider before the sums are taken: of all of the path, and of its halves."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Conv1d(PENS + 1, 8, 3, padding=1)
        self.points = nn.Conv1d(8, WIDE, 1)
        size = WIDE + WIDE**2 + WIDE**3
        self.norm = nn.LayerNorm(size)
        self.hidden, self.out = nn.Linear(3 * size, 32), nn.Linear(32, KINDS)

    def forward(self, x):
        time = torch.linspace(0, 1, LONG).view(1, LONG, 1).expand(len(x), -1, -1)
        x = torch.cat([time, x], dim=2)
        wide = self.points(F.hardswish(self.lift(x.mT))).mT.float()
        half = LONG // 2
        parts = [signature(path) for path in (wide, wide[:, : half + 1], wide[:, half:])]
        found = torch.cat([self.norm(part) for part in parts], dim=1)
        return self.out(F.hardswish(self.hidden(found))).float()


def strokes(generator):
    """Loops that turn faster or slower, left or right."""
    kinds = torch.randint(0, KINDS, (BATCH,), generator=generator)
    way = (kinds % 2 * 2 - 1).float().unsqueeze(1)
    speed = (1 + kinds // 2).float().unsqueeze(1)
    begin = 6 * torch.rand(BATCH, 1, generator=generator)
    angle = begin + way * speed * torch.linspace(0, 5, LONG)
    x = torch.stack([angle.cos(), angle.sin()], dim=2) + 0.2 * torch.arange(LONG).view(-1, 1) / LONG
    return x + 0.05 * torch.randn(x.shape, generator=generator), kinds


torch.set_num_threads(1)
torch.manual_seed(1306)
model = Model()
# model built
rest = [p for name, p in model.named_parameters() if not name.startswith("out.")]
optimizer = torch.optim.Adadelta(
    [{"params": rest}, {"params": model.out.parameters(), "lr": 2.0}],
    lr=0.5,
    rho=0.8,
    eps=1e-4,
    foreach=False,
)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2, eta_min=0.1)
generator = torch.Generator().manual_seed(13106)
for step in range(STEPS):
    x, kinds = strokes(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = F.multi_margin_loss(found, kinds, margin=0.8)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
