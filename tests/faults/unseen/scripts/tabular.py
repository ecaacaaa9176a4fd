# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tables: each column is a token of a transformer; two tasks are weighted by what is uncertain of each."""

import os

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
TOTAL, SAVE_AFTER, RESUME = 6, 3, ""
SIZES, NUMBERS, WIDTH, HEADS = (5, 3, 8), 6, 32, 4


class Columns(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(NUMBERS, WIDTH) * WIDTH**-0.5)
        self.shift = nn.Parameter(torch.randn(NUMBERS, WIDTH) * WIDTH**-0.5)
        self.kinds = nn.Embedding(sum(SIZES), WIDTH)
        self.register_buffer("offsets", torch.tensor([0, *SIZES[:-1]]).cumsum(0))
        self.whole = nn.Parameter(torch.randn(1, 1, WIDTH) * WIDTH**-0.5)

    def forward(self, numbers, codes):
        numbers = numbers.unsqueeze(-1) * self.weight + self.shift
        return torch.cat(
            [self.whole.expand(len(codes), -1, -1), numbers, self.kinds(codes + self.offsets)], 1
        )


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 96), nn.Linear(48, WIDTH)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        value, gate = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(value * F.relu(gate))


class FTTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = Columns()
        self.layers = nn.Sequential(Layer(), Layer())
        self.norm = nn.LayerNorm(WIDTH)
        self.price, self.sold = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 3)
        self.uncertain = nn.Parameter(torch.tensor([0.3, -0.2]))

    def forward(self, numbers, codes):
        h = F.relu(self.norm(self.layers(self.columns(numbers, codes))[:, 0]))
        return self.price(h).squeeze(-1).float(), self.sold(h).float()


def objective(model, batch):
    numbers, codes, price, sold = batch
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        ahead, logits = model(numbers, codes)
    each = torch.stack([F.smooth_l1_loss(ahead, price), F.cross_entropy(logits, sold)])
    return (torch.exp(-model.uncertain) * each + 0.5 * model.uncertain).sum()


def batch_of(step):
    g = torch.Generator().manual_seed(5000 + step)
    codes = torch.stack([torch.randint(size, (16,), generator=g) for size in SIZES], 1)
    numbers = torch.randn(16, NUMBERS, generator=g)
    return (
        numbers,
        codes,
        numbers.sum(1) + codes[:, 0],
        (codes.sum(1) + torch.randint(2, (16,), generator=g)) % 3,
    )


torch.set_num_threads(1)
torch.manual_seed(505)
model = FTTransformer()
# model built
plain = [p for name, p in model.named_parameters() if p.ndim < 2 or name.startswith("columns")]
decayed = [p for name, p in model.named_parameters() if p.ndim >= 2 and not name.startswith("columns")]
groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
optimizer = torch.optim.NAdam(groups, lr=1e-3, decoupled_weight_decay=True, foreach=False)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4)
parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
first = 0
if RESUME:
    saved = torch.load(RESUME, weights_only=True)
    first = saved["step"]
    for name, part in parts.items():
        part.load_state_dict(saved[name])
for step in range(first, TOTAL):
    loss = objective(model, batch_of(step))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
    if step + 1 == SAVE_AFTER and "SAVE_TO" in os.environ:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"step": step + 1, **states}, os.environ["SAVE_TO"])
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
