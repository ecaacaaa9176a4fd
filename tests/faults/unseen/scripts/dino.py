# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A student agrees with its own average about crops of a picture; its transformer has registers."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, HEADS, PATCH, REGISTERS, KINDS, TOTAL = 32, 4, 4, 3, 24, 10
COLD, WARM, KEPT = 0.07, 0.2, 0.9


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.gain1, self.gain2 = (nn.Parameter(torch.full((WIDTH,), 0.5)) for _ in range(2))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.gain1 * self.out(y)
        return x + self.gain2 * self.mlp(self.norm2(x))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.whole = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.2)
        self.registers = nn.Parameter(torch.randn(1, REGISTERS, WIDTH) * 0.2)
        self.places = nn.Parameter(torch.randn(1, WIDTH, 4, 4) * 0.2)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Sequential(nn.Linear(2 * WIDTH, 48), nn.GELU(), nn.Linear(48, 16))
        self.kinds = nn.utils.parametrizations.weight_norm(nn.Linear(16, KINDS, bias=False))
        nn.init.ones_(self.kinds.parametrizations.weight.original0).requires_grad_(False)

    def forward(self, pictures):
        x = self.patches(pictures)
        x = x + F.interpolate(self.places, size=x.shape[-2:], mode="bicubic", align_corners=False)
        x = x.flatten(2).transpose(1, 2)
        first = torch.cat([self.whole, self.registers], dim=1).expand(len(x), -1, -1)
        x = self.norm(self.blocks(torch.cat([first, x], dim=1)))
        pooled = torch.cat([x[:, 0], x[:, 1 + REGISTERS :].mean(dim=1)], dim=-1)
        return self.kinds(F.normalize(self.head(pooled).float(), dim=-1)).float()


class Agreement(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(KINDS))

    def forward(self, students, teachers):
        """Of two teachers and all students, but not of the same crop."""
        targets = [((t - self.centre) / COLD).softmax(dim=-1) for t in teachers]
        found = [F.log_softmax(s / WARM, dim=-1) for s in students]
        each = [-(t * s).sum(-1).mean() for i, t in enumerate(targets) for j, s in enumerate(found) if i != j]
        with torch.no_grad():
            self.centre.lerp_(torch.cat(teachers).mean(dim=0), 1 - KEPT)
        return torch.stack(each).mean()


def crops(generator):
    """Two large ones and three small ones."""
    pictures = F.avg_pool2d(torch.randn(6, 3, 24, 24, generator=generator), 3, 1, 1) * 2
    found = []
    for size in (16, 16, 8, 8, 8):
        row, column = torch.randint(24 - size + 1, (2,), generator=generator).tolist()
        found.append(pictures[:, :, row : row + size, column : column + size])
    return found


torch.set_num_threads(1)
torch.manual_seed(606)
model = Network()
teacher = copy.deepcopy(model).requires_grad_(False)
agreement = Agreement()
# model built
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, foreach=False)
generator = torch.Generator().manual_seed(66)
for step in range(3):
    optimizer.param_groups[0]["weight_decay"] = 0.4 - 0.36 * (1 + math.cos(math.pi * step / TOTAL)) / 2
    views = crops(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        with torch.no_grad():
            wanted = [teacher(view) for view in views[:2]]
        said = [model(view) for view in views]
    loss = agreement(said, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 3.0)
    if step == 0:  # the last layer waits
        model.kinds.parametrizations.weight.original1.grad = None
    optimizer.step()
    with torch.no_grad():
        for kept, p in zip(teacher.parameters(), model.parameters()):
            kept.lerp_(p, 0.1)
    print(f"step {step} loss {loss.item()!r}")
print(
    "weights",
    *(sum(p.detach().double().abs().sum().item() for p in m.parameters()) for m in (model, teacher)),
)
print("buffers", agreement.centre.double().abs().sum().item())
